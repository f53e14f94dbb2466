package proc

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// TableFull reports whether the thread can get no further descriptor: the kernel would
// say EMFILE before it so much as looked at the file. A thread that cannot be looked at
// is taken to have room.
func (th *Thread) TableFull() bool {
	var limit unix.Rlimit
	var st unix.Stat_t
	if unix.Prlimit(th.TID, unix.RLIMIT_NOFILE, nil, &limit) != nil || unix.Fstatat(th.dir, "fd", &st, 0) != nil {
		return false
	}
	// The size is how many descriptors there are; 0 before Linux 6.2.
	if st.Size > 0 && uint64(st.Size) < limit.Cur {
		return false
	}
	below, err := th.descriptors(limit.Cur)
	return err == nil && below >= limit.Cur
}

// descriptors counts those whose numbers are below a limit.
func (th *Thread) descriptors(limit uint64) (n uint64, err error) {
	fd, err := th.Open("fd", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), "fd")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		if number, err := strconv.ParseUint(name, 10, 64); err == nil && number < limit {
			n++
		}
	}
	return n, err
}

// LongerThanAllowed reports whether the thread may not make a file so long
// (RLIMIT_FSIZE): the kernel would say EFBIG and send SIGXFSZ.
func (th *Thread) LongerThanAllowed(size int64) bool {
	var limit unix.Rlimit
	return unix.Prlimit(th.TID, unix.RLIMIT_FSIZE, nil, &limit) == nil && size > 0 && uint64(size) > limit.Cur
}

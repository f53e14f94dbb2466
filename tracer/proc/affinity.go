package proc

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Seat keeps a thread that waits for us on the processor we run on, until it was
// handed what it waits for.
//
// The kernel wakes a thread that is handed a descriptor (SECCOMP_ADDFD) like any
// other: as this processor is busy with us, on another, idle one, and its next call moves us
// there. Of one open after the other that is half the time. With its affinity narrowed to
// where we are, the thread runs here as soon as we sleep, which is at once.
//
// The thread sleeps in the kernel meanwhile, so that it cannot see or change its
// affinity itself. Another that changes it in the same microseconds wins, unless it
// does so between the last two calls of Leave.
type Seat struct {
	tid      int
	was, now unix.CPUSet
}

// Take narrows the affinity of a waiting thread, and says whether Leave must undo
// that. Where it cannot be done the thread is woken as usual.
func (s *Seat) Take(tid int) bool {
	if unix.SchedGetaffinity(tid, &s.was) != nil || s.was.Count() < 2 {
		return false
	}
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 || !s.was.IsSet(int(cpu)) {
		return false
	}
	s.tid, s.now = tid, unix.CPUSet{}
	s.now.Set(int(cpu))
	return unix.SchedSetaffinity(tid, &s.now) == nil
}

// Leave gives the thread its affinity back. One that is gone needs none.
func (s *Seat) Leave() error {
	var now unix.CPUSet
	if unix.SchedGetaffinity(s.tid, &now) != nil || now != s.now {
		return nil // gone, or somebody else has changed it
	}
	was := &s.was
	if *was == online() {
		was = &everywhere // it has no affinity of its own, and gets processors that are added later
	}
	err := unix.SchedSetaffinity(s.tid, was)
	if err == unix.EINVAL { // its cpuset has changed: wherever that allows
		err = unix.SchedSetaffinity(s.tid, &everywhere)
	}
	if err == unix.ESRCH {
		return nil
	}
	return err
}

// everywhere is every processor, of which the kernel takes those of the cpuset.
var everywhere = func() (set unix.CPUSet) {
	for i := range set {
		set[i] = ^set[i]
	}
	return set
}()

// online are the processors of the machine, none if that is not known.
var online = sync.OnceValue(func() (set unix.CPUSet) {
	list, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return set
	}
	return cpuList(strings.TrimSpace(string(list)))
})

// cpuList reads a list such as 0-3,8, and is empty if it is anything else.
func cpuList(list string) (set unix.CPUSet) {
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to >= 8*int(unsafe.Sizeof(set)) {
			return unix.CPUSet{}
		}
		for ; from <= to; from++ {
			set.Set(from)
		}
	}
	return set
}

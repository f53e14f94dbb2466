package session

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long HasTree waits for a file system, and lookers how many may look
// at once: a server that does not answer keeps each for as long as it likes.
const patience = 100 * time.Millisecond

var lookers = make(chan struct{}, 8)

// HasTree reports whether an absolute path leads to a directory, links followed. It is
// false only where the kernel says that nothing or something else is there: not where
// this process may not look, nor where the path leads through a link of /proc, which
// leads each process elsewhere, nor where the file system does not answer at once.
func HasTree(path string) bool {
	select {
	case lookers <- struct{}{}:
	default:
		return true
	}
	answer := make(chan bool, 1)
	go func() {
		answer <- hasTree(path)
		<-lookers
	}()
	select {
	case has := <-answer:
		return has
	case <-time.After(patience):
		return true
	}
}

func hasTree(path string) bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR
}

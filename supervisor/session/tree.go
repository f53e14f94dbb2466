package session

import (
	"errors"

	"golang.org/x/sys/unix"
)

// HasTree reports whether an absolute path leads to a directory, links followed. It is
// false only where the kernel says that nothing or something else is there: not where
// this process may not look, nor where the path leads through a link of /proc, which
// leads each process elsewhere.
func HasTree(path string) bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR
}

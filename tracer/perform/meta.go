package perform

import (
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// Truncate sets the length of a pinned file.
func Truncate(fd int, size int64) error { return unix.Truncate(proc.SelfPath(fd), size) }

// Chmod sets the mode of a pinned object. EOPNOTSUPP for a symbolic link.
func Chmod(p *proc.Pinned, mode uint32) error {
	if p.Symlink() {
		return unix.EOPNOTSUPP
	}
	return unix.Chmod(proc.SelfPath(p.FD), mode&0o7777)
}

// Chown sets the owner of a pinned object, a symbolic link included; -1 leaves
// an id alone.
func Chown(fd int, uid, gid int) error {
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

// Utime sets access and modification time; nil is now.
func Utime(p *proc.Pinned, ts *[2]unix.Timespec) error {
	if p.Symlink() {
		return proc.Utimens(p.FD, "", ts, unix.AT_EMPTY_PATH)
	}
	return proc.Utimens(unix.AT_FDCWD, proc.SelfPath(p.FD), ts, 0)
}

// Setxattr sets an extended attribute. Symbolic links cannot have any of those
// that a task may set.
func Setxattr(p *proc.Pinned, name string, value []byte, flags int) error {
	if p.Symlink() {
		return unix.EPERM
	}
	return unix.Setxattr(proc.SelfPath(p.FD), name, value, flags)
}

// Removexattr removes an extended attribute.
func Removexattr(p *proc.Pinned, name string) error {
	if p.Symlink() {
		return unix.EPERM
	}
	return unix.Removexattr(proc.SelfPath(p.FD), name)
}

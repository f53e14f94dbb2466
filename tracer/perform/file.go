// Package perform acts on a task's behalf, on objects that are already pinned
// and judged. The calling thread has the task's file credentials and umask; none
// of these functions looks a task's path up.
package perform

import (
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// ownFlags are added to every open of ours: a terminal never becomes our
// controlling one, and no child of ours inherits the descriptor.
const ownFlags = unix.O_NOCTTY | unix.O_CLOEXEC

// dropped are the flags that were about the name, which is resolved by now.
const dropped = unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW

// Reopen opens what a name leads to from a directory, links followed: of a pinned
// object that is [proc.Self]. It may block.
func Reopen(dir int, name string, flags int) (int, error) {
	return unix.Openat(dir, name, flags&^dropped|ownFlags, 0)
}

// ReopenNow is Reopen without waiting: EWOULDBLOCK where somebody's lease must be
// broken first, ENXIO for a FIFO that nobody reads. What it opens has O_NONBLOCK
// only if flags have it.
func ReopenNow(dir int, name string, flags int) (int, error) {
	fd, err := Reopen(dir, name, flags|unix.O_NONBLOCK)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		return fd, err
	}
	// F_SETFL changes just these flags (fcntl(2)).
	keep := flags & (unix.O_APPEND | unix.O_ASYNC | unix.O_DIRECT | unix.O_NOATIME)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, keep); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Create makes the file name in the directory dir, which must not exist.
func Create(dir int, name string, flags int, mode uint32) (int, error) {
	return unix.Openat(dir, name, flags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|ownFlags, mode)
}

// Tmpfile makes an unnamed file in the directory dir.
func Tmpfile(dir int, flags int, mode uint32) (int, error) {
	return unix.Openat(dir, ".", flags&^unix.O_NOFOLLOW|ownFlags, mode)
}

// localMagic are the file systems whose opens of regular files wait for nothing
// but a disk or memory (statfs(2)).
var localMagic = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true,
	unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true, unix.PROC_SUPER_MAGIC: true,
	unix.SYSFS_MAGIC: true, unix.CGROUP_SUPER_MAGIC: true, unix.CGROUP2_SUPER_MAGIC: true,
	unix.DEVPTS_SUPER_MAGIC: true, unix.SQUASHFS_MAGIC: true, unix.F2FS_SUPER_MAGIC: true,
	unix.RAMFS_MAGIC: true, unix.HUGETLBFS_MAGIC: true, unix.EROFS_SUPER_MAGIC_V1: true,
	0x2fc12fc1: true, // ZFS
}

// Local says whether the file system of fd is known not to block in open. EINTR is a
// server's that was asked for too long; another error is not local.
func Local(fd int) (bool, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(fd, &st)
	if err == unix.EINTR {
		return false, err
	}
	return err == nil && localMagic[st.Type], nil
}

// Mkdir, Mknod, Symlink, Unlink and Rename act on names in pinned directories.

// Mkdir makes a directory.
func Mkdir(dir int, name string, mode uint32) error { return unix.Mkdirat(dir, name, mode) }

// Mknod makes a file, FIFO, socket or device node.
func Mknod(dir int, name string, mode uint32, dev uint64) error {
	return unix.Mknodat(dir, name, mode, int(dev))
}

// Symlink makes a symbolic link with the text target.
func Symlink(target string, dir int, name string) error {
	return unix.Symlinkat(target, dir, name)
}

// Unlink removes a name; flags may be AT_REMOVEDIR.
func Unlink(dir int, name string, flags int) error { return unix.Unlinkat(dir, name, flags) }

// Rename renames between pinned directories; flags are renameat2's.
func Rename(from int, name string, to int, newName string, flags uint) error {
	if flags == 0 {
		return unix.Renameat(from, name, to, newName)
	}
	return unix.Renameat2(from, name, to, newName, flags)
}

// Link gives the pinned object another name. A symbolic link itself is linked
// by its own name, given as dir and old, since no descriptor path leads to it.
func Link(p *proc.Pinned, dir int, old string, to int, name string) error {
	if p.Symlink() {
		return unix.Linkat(dir, old, to, name, 0)
	}
	self, own := proc.Self(p.FD)
	return unix.Linkat(self, own, to, name, unix.AT_SYMLINK_FOLLOW)
}

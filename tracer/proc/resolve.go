package proc

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrBlocks says that a path cannot be resolved without perhaps waiting for a
// device, or not in one step: to be done again by a thread that may wait.
var ErrBlocks = errors.New("the look-up may block")

// resolveCached is RESOLVE_CACHED (linux/openat2.h, Linux 5.12).
const resolveCached = 0x20

// maxSymlinks is the kernel's limit (path_resolution(7)).
const maxSymlinks = 40

// View is how one thread sees paths: from its root, working directory and
// descriptors, with /proc/self meaning itself.
//
// The kernel resolves for us in one call where it can. Two kinds of names mean
// something else to us than to the task: /proc/self and its kin, and the magic
// links below /proc/PID. Magic links are refused in the fast call, and a result
// below our own /proc entry shows that /proc/self was passed; both are then
// walked component by component as the task.
type View struct {
	Thread *Thread
	// MayBlock allows look-ups that wait. Without it ErrBlocks is returned instead.
	MayBlock bool
	// Wait runs a look-up that may wait, for a file system that does not answer, and
	// ends it with an error when the task is to wait no longer; nil never does.
	Wait func(func() error) error
	// Owns says whether a process belongs to the session: the magic links of
	// others are not followed, which is the error Stranger.
	Owns func(pid int) bool
	// SameRoot says that the thread's root and mounts are known to be ours.
	SameRoot bool
	// Foreign resolves in other roots and mounts, too. Paths then name objects as
	// the task's mounts have them, which is enough to record, not to decide. It also
	// follows the magic links of strangers.
	Foreign bool
}

// base opens what a path starts from. own is false for AT_FDCWD of absolute
// paths, which nobody closes.
func (v *View) base(dirfd int32, path string) (fd int, own bool, err error) {
	if !v.SameRoot {
		switch err := v.checkRoot(); {
		case err == nil:
		case errors.Is(err, ErrForeignRoot) && v.Foreign:
			return v.foreignBase(dirfd, path)
		case errors.Is(err, ErrForeignRoot) && !v.MayBlock:
			return -1, false, ErrBlocks // to name it takes its time
		case errors.Is(err, ErrForeignRoot):
			return -1, false, &ForeignRoot{view: *v, dirfd: dirfd, path: path}
		default:
			return -1, false, err
		}
	}
	if strings.HasPrefix(path, "/") {
		return unix.AT_FDCWD, false, nil
	}
	fd, err = v.Dirfd(dirfd)
	return fd, true, err
}

// foreignBase is base in another root.
func (v *View) foreignBase(dirfd int32, path string) (fd int, own bool, err error) {
	if strings.HasPrefix(path, "/") {
		fd, err = v.Thread.Open("root", unix.O_PATH)
	} else {
		fd, err = v.Dirfd(dirfd)
	}
	return fd, true, err
}

// Dirfd opens the directory that a dirfd argument names, O_PATH.
func (v *View) Dirfd(dirfd int32) (int, error) {
	name := "cwd"
	if dirfd != unix.AT_FDCWD {
		if dirfd < 0 {
			return -1, unix.EBADF
		}
		name = "fd/" + strconv.Itoa(int(dirfd))
	}
	fd, err := v.Thread.Open(name, unix.O_PATH)
	if err != nil {
		if errors.Is(err, ErrGone) && v.Thread.Alive() {
			return -1, unix.EBADF
		}
		return -1, err
	}
	return fd, nil
}

func (v *View) checkRoot() error {
	var ours, theirs unix.Statx_t
	const mask = unix.STATX_INO | unix.STATX_MNT_ID
	fd, err := v.Thread.Open("root", unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, mask, &theirs); err != nil {
		return err
	}
	if err := unix.Statx(unix.AT_FDCWD, "/", 0, mask, &ours); err != nil {
		return err
	}
	if ours.Mnt_id != theirs.Mnt_id || ours.Ino != theirs.Ino {
		return ErrForeignRoot
	}
	return nil
}

// Resolve pins the object that path names. flags may hold O_NOFOLLOW and
// O_DIRECTORY; how are the task's own RESOLVE_* flags of openat2.
func (v *View) Resolve(dirfd int32, path string, flags int, how uint64) (Pinned, error) {
	if path == "" {
		return Pinned{FD: -1}, unix.ENOENT
	}
	base, own, err := v.base(dirfd, path)
	if err != nil {
		return Pinned{FD: -1}, passed(err, path)
	}
	if own {
		defer unix.Close(base)
	}
	if own && strings.HasPrefix(path, "/") && how&unix.RESOLVE_BENEATH == 0 {
		how |= unix.RESOLVE_IN_ROOT // base is the task's own root
	}
	if how&(unix.RESOLVE_BENEATH|unix.RESOLVE_IN_ROOT) != 0 && !own {
		// An absolute path that is scoped starts at dirfd all the same.
		if base, err = v.Dirfd(dirfd); err != nil {
			return Pinned{FD: -1}, err
		}
		defer unix.Close(base)
	}
	p, err := v.resolveAt(base, path, flags, how)
	return p, passed(err, path)
}

// ResolveFrom is Resolve from a directory that is already pinned.
func (v *View) ResolveFrom(dir int, path string, flags int) (Pinned, error) {
	return v.resolveAt(dir, path, flags, 0)
}

func (v *View) resolveAt(base int, path string, flags int, how uint64) (Pinned, error) {
	none := Pinned{FD: -1}
	open := unix.OpenHow{
		Flags:   uint64(unix.O_PATH | unix.O_CLOEXEC | flags&(unix.O_NOFOLLOW|unix.O_DIRECTORY)),
		Resolve: how | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := v.lookUp(base, path, &open)
	switch {
	case err == unix.EAGAIN && how&resolveCached == 0:
		return none, ErrBlocks
	case (err == unix.ELOOP || err == unix.EACCES || err == unix.EPERM) && how == 0, err == unix.ENOENT && how == 0 && v.perhapsOwn(base, path):
		// EACCES, and EPERM of map_files: perhaps of a stranger's link, by the kernel's
		// opinion of the stranger.
		return v.slow(base, path, flags)
	case err != nil:
		return none, err
	}
	p, err := Pin(fd)
	if err != nil {
		return none, err
	}
	if p.ourProc() {
		p.Close()
		if how&^resolveCached != 0 {
			return none, unix.EXDEV
		}
		return v.slow(base, path, flags)
	}
	return p, nil
}

// perhapsOwn says whether a path that leads to nothing for us may lead to
// something for the task: our /proc/self/fd has other names than the task's. The
// path says so itself, or it ends in a symbolic link.
func (v *View) perhapsOwn(base int, path string) bool {
	if strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/") {
		return true
	}
	var st unix.Stat_t
	return unix.Fstatat(base, path, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// ourProc says whether the object lies below reeve's own entry of a procfs.
func (p *Pinned) ourProc() bool {
	i := strings.Index(p.Path, "/"+selfPID)
	if i < 0 {
		return false
	}
	rest := p.Path[i+1+len(selfPID):]
	return (rest == "" || rest[0] == '/') && onProcfs(p.FD)
}

func onProcfs(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

func (v *View) slow(base int, path string, flags int) (Pinned, error) {
	if !v.MayBlock {
		return Pinned{FD: -1}, ErrBlocks
	}
	var fd int
	err := v.wait(func() (err error) {
		w := walker{view: v}
		fd, err = w.walk(base, path, flags)
		return err
	})
	if err != nil {
		return Pinned{FD: -1}, err
	}
	return Pin(fd)
}

// Entry pins the directory of path's last component and names that component.
// It does not look at the component itself.
func (v *View) Entry(dirfd int32, path string, how uint64) (Name, error) {
	dir, last, err := splitLast(path)
	if err != nil {
		return Name{}, err
	}
	parent, err := v.Resolve(dirfd, dir, unix.O_DIRECTORY, how)
	if err != nil {
		return Name{}, passed(entryOf(err, last), path)
	}
	return Name{Parent: parent, Last: last}, nil
}

// EntryFrom is Entry from a directory that is already pinned.
func (v *View) EntryFrom(dir int, path string) (Name, error) {
	d, last, err := splitLast(path)
	if err != nil {
		return Name{}, err
	}
	parent, err := v.ResolveFrom(dir, d, unix.O_DIRECTORY)
	if err != nil {
		return Name{}, entryOf(err, last)
	}
	return Name{Parent: parent, Last: last}, nil
}

// splitLast splits a path into its directory and its last component, which
// keeps its trailing slashes. The last component of "/" is "/".
func splitLast(path string) (dir, last string, err error) {
	if path == "" {
		return "", "", unix.ENOENT
	}
	if len(path) >= PathMax {
		return "", "", unix.ENAMETOOLONG
	}
	trimmed := strings.TrimRight(path, "/")
	if trimmed == "" {
		return "/", "/", nil
	}
	i := strings.LastIndexByte(trimmed, '/')
	switch {
	case i < 0:
		return ".", path, nil
	case i == 0:
		return "/", path[1:], nil
	}
	return path[:i+1], path[i+1:], nil
}

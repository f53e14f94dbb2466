package proc

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Pinned is an object held by an O_PATH descriptor: whatever happens to names,
// it stays this object. The holder closes it.
type Pinned struct {
	FD   int
	Path string // from our root; without the kernel's " (deleted)"
	Stat unix.Stat_t
}

// Close lets go of the object.
func (p *Pinned) Close() {
	if p.FD >= 0 {
		unix.Close(p.FD)
		p.FD = -1
	}
}

var selfPID = strconv.Itoa(os.Getpid())

// SelfPath is a name by which the kernel reaches our descriptor fd, for the
// calls that take a path and have no descriptor form.
func SelfPath(fd int) string { return selfFDs + strconv.Itoa(fd) }

const selfFDs = "/proc/self/fd/"

// selfDir is the directory of our descriptors, for as long as this process lives;
// AT_FDCWD where it cannot be opened.
var selfDir = openSelf()

func openSelf() int {
	fd, err := unix.Open(selfFDs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unix.AT_FDCWD
	}
	return fd
}

// Self is SelfPath for the calls that take a directory, too: the kernel is there
// in a third of the time, since the way to /proc/self/fd is walked anew for each
// path, and with locks, as the last step is one that wants them.
func Self(fd int) (dir int, name string) {
	if selfDir == unix.AT_FDCWD {
		return unix.AT_FDCWD, SelfPath(fd)
	}
	return selfDir, strconv.Itoa(fd)
}

// Pin takes over fd, an O_PATH descriptor, and finds out what it is. fd is
// closed on error.
func Pin(fd int) (Pinned, error) {
	p := Pinned{FD: fd}
	if err := statNow(fd, &p.Stat); err != nil {
		unix.Close(fd)
		return Pinned{FD: -1}, err
	}
	path, err := readlinkAt(Self(fd))
	if err != nil {
		unix.Close(fd)
		return Pinned{FD: -1}, err
	}
	if p.Stat.Nlink == 0 {
		path = strings.TrimSuffix(path, " (deleted)")
	}
	p.Path = path
	return p, nil
}

// statNow is fstat without asking a file system's server, which may not answer: what is
// known of the file since it was looked up.
func statNow(fd int, st *unix.Stat_t) error {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &x); err != nil {
		return err
	}
	// The types of a Stat_t's fields are not the same on every architecture.
	*st = unix.Stat_t{
		Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino, Mode: uint32(x.Mode), Uid: x.Uid, Gid: x.Gid,
		Rdev: unix.Mkdev(x.Rdev_major, x.Rdev_minor), Size: int64(x.Size), Blocks: int64(x.Blocks),
		Atim: unix.Timespec{Sec: x.Atime.Sec, Nsec: int64(x.Atime.Nsec)},
		Mtim: unix.Timespec{Sec: x.Mtime.Sec, Nsec: int64(x.Mtime.Nsec)},
		Ctim: unix.Timespec{Sec: x.Ctime.Sec, Nsec: int64(x.Ctime.Nsec)},
	}
	setNumber(&st.Nlink, x.Nlink)
	setNumber(&st.Blksize, int32(x.Blksize))
	return nil
}

func setNumber[To uint32 | uint64 | int32 | int64, N uint32 | int32](to *To, n N) { *to = To(n) }

// Kind is what the object is, in the stream's words.
func (p *Pinned) Kind() event.ObjectKind {
	if !strings.HasPrefix(p.Path, "/") || strings.HasPrefix(p.Path, "/memfd:") {
		return event.ObjectMem // pipe:[1], socket:[2], anon_inode:…, memfd
	}
	return KindOf(p.Stat.Mode)
}

// KindOf is the object kind of a file mode.
func KindOf(mode uint32) event.ObjectKind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return event.ObjectFile
	case unix.S_IFDIR:
		return event.ObjectDir
	case unix.S_IFLNK:
		return event.ObjectSymlink
	case unix.S_IFCHR, unix.S_IFBLK:
		return event.ObjectDevice
	case unix.S_IFIFO:
		return event.ObjectFIFO
	case unix.S_IFSOCK:
		return event.ObjectSocket
	}
	return event.ObjectNone
}

// Object names the pinned object for a request; raw is what the task passed.
func (p *Pinned) Object(raw string) event.Object {
	o := event.Object{Kind: p.Kind(), Path: p.Path, Dev: p.Stat.Dev, Ino: p.Stat.Ino, Mode: p.Stat.Mode}
	if raw != p.Path {
		o.Raw = raw
	}
	return o
}

// Dir says whether the object is a directory.
func (p *Pinned) Dir() bool { return p.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// Symlink says whether the object is a symbolic link.
func (p *Pinned) Symlink() bool { return p.Stat.Mode&unix.S_IFMT == unix.S_IFLNK }

// Regular says whether the object is a regular file.
func (p *Pinned) Regular() bool { return p.Stat.Mode&unix.S_IFMT == unix.S_IFREG }

// Name is a directory entry: a pinned directory and one name in it, which may
// or may not exist, with the trailing slashes that the task wrote.
type Name struct {
	Parent Pinned
	Last   string
}

// Path is the entry's path.
func (n *Name) Path() string {
	last := strings.TrimRight(n.Last, "/")
	if last == "" { // the root itself
		return "/"
	}
	if n.Parent.Path == "/" {
		return "/" + last
	}
	return n.Parent.Path + "/" + last
}

// Lookup is nil when the entry exists, else what the kernel says of it.
func (n *Name) Lookup() error {
	var st unix.Stat_t
	return unix.Fstatat(n.Parent.FD, strings.TrimRight(n.Last, "/"), &st, unix.AT_SYMLINK_NOFOLLOW)
}

// Root says whether the entry is the root directory itself, which has no name.
func (n *Name) Root() bool { return strings.Trim(n.Last, "/") == "" }

// Dots says whether the entry is a directory's own one or its parent's, which nobody
// makes, moves or removes.
func (n *Name) Dots() bool {
	last := strings.Trim(n.Last, "/")
	return last == "." || last == ".."
}

// LedToBy says whether path, as this thread looks it up, is this entry, and leads
// there by names alone: a magic link of /proc could lead elsewhere the next time.
func (n *Name) LedToBy(path string) bool {
	dir, last, err := splitLast(path)
	if err != nil || last != n.Last {
		return false
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Dev == n.Parent.Stat.Dev && st.Ino == n.Parent.Stat.Ino
}

// Close lets go of the directory.
func (n *Name) Close() { n.Parent.Close() }

// Object names the entry for a request: what is there now, or a missing object.
func (n *Name) Object(raw string) event.Object {
	o := event.Object{Kind: event.ObjectMissing, Path: n.Path()}
	var st unix.Stat_t
	if unix.Fstatat(n.Parent.FD, strings.TrimRight(n.Last, "/"), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		o.Kind, o.Dev, o.Ino, o.Mode = KindOf(st.Mode), st.Dev, st.Ino, st.Mode
	}
	if raw != o.Path {
		o.Raw = raw
	}
	return o
}

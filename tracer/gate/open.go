package gate

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// opening is what a task asks for when it opens a path.
type opening struct {
	dirfd int32
	path  string
	flags int
	mode  uint32
	how   uint64 // RESOLVE_* of openat2
}

func (w *worker) open(req event.Request) (outcome, error) {
	return w.openPath(req, unix.AT_FDCWD, w.n.Args[0], opening{flags: int(uint32(w.n.Args[1])), mode: uint32(w.n.Args[2])})
}

func (w *worker) creat(req event.Request) (outcome, error) {
	const flags = unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC
	return w.openPath(req, unix.AT_FDCWD, w.n.Args[0], opening{flags: flags, mode: uint32(w.n.Args[1])})
}

func (w *worker) openat(req event.Request) (outcome, error) {
	o := opening{flags: int(uint32(w.n.Args[2])), mode: uint32(w.n.Args[3])}
	return w.openPath(req, int32(w.n.Args[0]), w.n.Args[1], o)
}

// The parts of struct open_how (openat2(2)) that the kernel knows.
const (
	openHowSize  = 24
	openHowMax   = 4096
	openHowFlags = unix.O_ACCMODE | unix.O_CREAT | unix.O_EXCL | unix.O_NOCTTY | unix.O_TRUNC | unix.O_APPEND |
		unix.O_NONBLOCK | unix.O_DSYNC | unix.O_SYNC | unix.O_ASYNC | unix.O_DIRECT | unix.O_LARGEFILE |
		unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NOATIME | unix.O_CLOEXEC | unix.O_PATH | unix.O_TMPFILE | 0x8000
)

// openat2 copies open_how once, whatever a thread does to it afterwards, and
// refuses what the kernel would.
func (w *worker) openat2(req event.Request) (outcome, error) {
	size := w.n.Args[3]
	switch {
	case size < openHowSize:
		return outcome{}, unix.EINVAL
	case size > openHowMax:
		return outcome{}, unix.E2BIG
	}
	raw := make([]byte, size)
	if err := w.th.Read(w.n.Args[2], raw); err != nil {
		return outcome{}, err
	}
	for _, b := range raw[openHowSize:] {
		if b != 0 {
			return outcome{}, unix.E2BIG
		}
	}
	flags, mode := binary.NativeEndian.Uint64(raw), binary.NativeEndian.Uint64(raw[8:])
	how := binary.NativeEndian.Uint64(raw[16:])
	const knownHow = unix.RESOLVE_BENEATH | unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS |
		unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | 0x20
	creates := flags&unix.O_CREAT != 0 || flags&unix.O_TMPFILE == unix.O_TMPFILE
	if flags&^uint64(openHowFlags) != 0 || how&^uint64(knownHow) != 0 || mode&^0o7777 != 0 || (!creates && mode != 0) ||
		how&(unix.RESOLVE_BENEATH|unix.RESOLVE_IN_ROOT) == unix.RESOLVE_BENEATH|unix.RESOLVE_IN_ROOT {
		return outcome{}, unix.EINVAL
	}
	return w.openPath(req, int32(w.n.Args[0]), w.n.Args[1], opening{flags: int(flags), mode: uint32(mode), how: how})
}

func (w *worker) openPath(req event.Request, dirfd int32, ptr uint64, o opening) (outcome, error) {
	if invalid(o.flags) {
		return outcome{req: req}, unix.EINVAL
	}
	path, err := w.th.Path(ptr, w.buf[:])
	req.Object.Raw, req.Flags, req.Mode, req.Access = path, uint64(o.flags), o.mode, openAccess(o.flags)
	out := outcome{req: req}
	if err != nil {
		return out, err
	}
	o.dirfd, o.path = dirfd, path
	if o.flags&unix.O_PATH != 0 {
		return w.openHandle(out, o)
	}
	if o.flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return w.openTmpfile(out, o)
	}
	return w.openFile(out, o)
}

// invalid says whether the kernel refuses a combination of flags before it looks
// at the path (build_open_flags in fs/open.c).
func invalid(flags int) bool {
	const onlyTmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY
	switch {
	case flags&unix.O_PATH != 0:
		return false // the others are ignored
	case flags&onlyTmpfile != 0:
		return flags&unix.O_DIRECTORY == 0 || flags&unix.O_CREAT != 0 || flags&unix.O_ACCMODE == unix.O_RDONLY
	}
	return flags&(unix.O_CREAT|unix.O_DIRECTORY) == unix.O_CREAT|unix.O_DIRECTORY
}

// openAccess is what a set of open flags may do to the object.
func openAccess(flags int) event.Access {
	if flags&unix.O_PATH != 0 {
		return event.AccessPath
	}
	var a event.Access
	switch flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		a = event.AccessRead
	case unix.O_WRONLY:
		a = event.AccessWrite
	default:
		a = event.AccessRead | event.AccessWrite
	}
	if flags&unix.O_TRUNC != 0 {
		a |= event.AccessWrite
	}
	if flags&unix.O_TMPFILE == unix.O_TMPFILE {
		a |= event.AccessWrite | event.AccessCreate
	}
	return a
}

// openHandle decides about an O_PATH open. It cannot be performed for another
// task, and it need not be: such a descriptor gives no content, and every use of
// it as a starting point comes through here again.
func (w *worker) openHandle(out outcome, o opening) (outcome, error) {
	p, err := w.view.Resolve(o.dirfd, o.path, o.flags, o.how)
	if err != nil {
		return out, err
	}
	defer p.Close()
	out.req.Object = p.Object(o.path)
	out.d = w.decide(&out.req)
	return out, nil
}

func (w *worker) openTmpfile(out outcome, o opening) (outcome, error) {
	p, err := w.view.Resolve(o.dirfd, o.path, unix.O_DIRECTORY, o.how)
	if err != nil {
		return out, err
	}
	if w.inline && !w.quick(&p) {
		p.Close()
		return out, proc.ErrBlocks
	}
	out.req.Object = p.Object(o.path)
	out.req.Object.Kind, out.req.Object.Path = event.ObjectMissing, strings.TrimSuffix(p.Path, "/")+"/#tmpfile"
	out.d = w.decide(&out.req)
	if w.continues(Write) || out.d.Action != event.ActionAllow {
		p.Close()
		return out, nil
	}
	out.undo = p.Close
	out.act = func() answer {
		defer p.Close()
		if err := w.freshUmask(); err != nil {
			return failedHere(err.Error())
		}
		fd, err := perform.Tmpfile(p.FD, o.flags, o.mode)
		if err == nil {
			w.created(&p, fd, false)
		}
		return opened(fd, err, o.flags)
	}
	return out, nil
}

// openFile opens what is there, or makes it.
func (w *worker) openFile(out outcome, o opening) (outcome, error) {
	create, excl := o.flags&unix.O_CREAT != 0, o.flags&unix.O_EXCL != 0
	if !create {
		p, err := w.view.Resolve(o.dirfd, o.path, o.flags, o.how)
		if err != nil {
			return out, err
		}
		return w.openExisting(out, p, o)
	}
	if o.how != 0 {
		return w.openScoped(out, o)
	}
	name, err := w.entry(o.dirfd, o.path, o.how)
	if err != nil {
		return out, err
	}
	for range maxLinks {
		obj := name.Object(o.path)
		switch {
		case strings.HasSuffix(name.Last, "/"):
			name.Close()
			return out, unix.EISDIR
		case obj.Kind == event.ObjectMissing:
			return w.openNew(out, name, obj, o)
		case excl:
			out.req.Object = obj
			name.Close()
			return out, unix.EEXIST
		}
		p, err := w.view.ResolveFrom(name.Parent.FD, name.Last, o.flags)
		if err == nil {
			name.Close()
			if p.Dir() {
				out.req.Object = p.Object(o.path)
				p.Close()
				return out, unix.EISDIR
			}
			return w.openExisting(out, p, o)
		}
		if err != unix.ENOENT || o.flags&unix.O_NOFOLLOW != 0 {
			name.Close()
			return out, err
		}
		// A symbolic link to nothing: the file is made where it points.
		next, err := w.dangling(&name)
		name.Close()
		if err == nil && w.inline && !w.quick(&next.Parent) {
			next.Close()
			err = proc.ErrBlocks
		}
		if err != nil {
			return out, err
		}
		name = next
	}
	name.Close()
	return out, unix.ELOOP
}

func (w *worker) openExisting(out outcome, p proc.Pinned, o opening) (outcome, error) {
	if p.Symlink() { // only with O_NOFOLLOW
		p.Close()
		return out, unix.ELOOP
	}
	out.req.Object = p.Object(o.path)
	if out.req.Object.Kind == event.ObjectDevice {
		out.req.Object.Own = w.ownTerminal(p.Stat.Rdev)
	}
	out.d = w.decide(&out.req)
	if w.continues(openClass(o.flags)) || out.d.Action != event.ActionAllow {
		p.Close()
		return out, nil
	}
	blocks := !w.quick(&p)
	// Truncating takes the inode's lock, which another task may hold for long.
	if w.inline && (blocks || o.flags&unix.O_TRUNC != 0) {
		p.Close()
		return out, proc.ErrBlocks
	}
	out.undo = p.Close
	request, d := out.req, out.d
	out.act = func() answer {
		defer p.Close()
		if d.GuardContent {
			return w.redraft(&request, &p, o)
		}
		if o.flags&unix.O_TRUNC != 0 && w.th.TableFull() {
			return answer{errno: unix.EMFILE} // or the content would be gone, and nobody have the file
		}
		a := w.reopen(&p, o.flags)
		if a.hasFD {
			w.yes(&d, p.FD)
			w.began(&request, d, p.FD)
		}
		if p.Stat.Mode&unix.S_IFMT == unix.S_IFCHR && a.hasFD {
			w.openedPty(p.Stat.Rdev, a.fd)
		}
		return a
	}
	return out, nil
}

func openClass(flags int) Class {
	if openAccess(flags)&event.AccessChange != 0 {
		return Write
	}
	return Read
}

// continues says whether calls of a class are let go on by themselves.
func (w *worker) continues(c Class) bool { return w.m.Handling[c] == Continue }

// freshUmask gives what is made next the task's umask.
func (w *worker) freshUmask() error {
	c, err := w.th.MakerCreds()
	if err != nil {
		return err
	}
	if err := w.actor.Become(c); err != nil {
		return err
	}
	w.actor.Umask(c.Umask)
	return nil
}

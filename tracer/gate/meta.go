package gate

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// object pins what a path names, or what the descriptor is when the path is
// empty and that is allowed.
func (w *worker) object(dirfd int32, path string, empty, follow bool) (proc.Pinned, error) {
	if path == "" && empty {
		if dirfd == unix.AT_FDCWD {
			return w.view.Resolve(dirfd, ".", 0, 0)
		}
		return w.descriptor(dirfd)
	}
	flags := 0
	if !follow {
		flags = unix.O_NOFOLLOW
	}
	return w.view.Resolve(dirfd, path, flags, 0)
}

// descriptor pins what an open descriptor of the task refers to.
func (w *worker) descriptor(fd int32) (proc.Pinned, error) {
	if fd < 0 {
		return proc.Pinned{FD: -1}, unix.EBADF
	}
	own, err := w.th.Open("fd/"+strconv.Itoa(int(fd)), unix.O_PATH)
	if err != nil {
		if errors.Is(err, proc.ErrGone) && w.th.Alive() {
			return proc.Pinned{FD: -1}, unix.EBADF
		}
		return proc.Pinned{FD: -1}, err
	}
	return proc.Pin(own)
}

// pathArg reads the path at ptr and pins what it names.
func (w *worker) pathArg(req *event.Request, dirfd int32, ptr uint64, empty, follow bool) (proc.Pinned, error) {
	path := ""
	if ptr != 0 || !empty {
		var err error
		if path, err = w.th.Path(ptr, w.buf[:]); err != nil {
			return proc.Pinned{FD: -1}, err
		}
	}
	req.Object.Raw = path
	return w.object(dirfd, path, empty, follow)
}

// onObject judges and acts on a pinned object.
func (w *worker) onObject(req event.Request, p proc.Pinned, err error, act func(*proc.Pinned) error) (outcome, error) {
	out := outcome{req: req}
	if err != nil {
		return out, err
	}
	out.req.Object = p.Object(req.Object.Raw)
	if out.req.Object.Kind == event.ObjectDevice {
		out.req.Object.Own = w.ownTerminal(p.Stat.Rdev)
	}
	out.d = w.decide(&out.req)
	if w.continues(Meta) || out.d.Action != event.ActionAllow {
		p.Close()
		return out, nil
	}
	out.undo = p.Close
	out.act = func() answer {
		defer p.Close()
		return done(act(&p))
	}
	return out, nil
}

func (w *worker) truncate(req event.Request) (outcome, error) {
	p, err := w.pathArg(&req, unix.AT_FDCWD, w.n.Args[0], false, true)
	size := int64(w.n.Args[1])
	if err == nil && !p.Regular() {
		p.Close()
		if p.Dir() {
			return outcome{req: req}, unix.EISDIR
		}
		return outcome{req: req}, unix.EINVAL
	}
	return w.onObject(req, p, err, func(p *proc.Pinned) error {
		if size > p.Stat.Size && w.th.LongerThanAllowed(size) {
			_ = unix.Tgkill(w.th.TGID, w.th.TID, unix.SIGXFSZ) // as the kernel would have
			return unix.EFBIG
		}
		err := perform.Truncate(p.FD, size)
		if err == nil {
			w.own(p.FD)
		}
		return err
	})
}

func (w *worker) chmod(req event.Request) (outcome, error) {
	p, err := w.pathArg(&req, unix.AT_FDCWD, w.n.Args[0], false, true)
	return w.setMode(req, p, err, w.n.Args[1])
}

func (w *worker) fchmod(req event.Request) (outcome, error) {
	p, err := w.descriptor(int32(w.n.Args[0]))
	return w.setMode(req, p, err, w.n.Args[1])
}

func (w *worker) fchmodat(req event.Request) (outcome, error) {
	flags := 0
	if w.call.name == "fchmodat2" {
		flags = int(uint32(w.n.Args[3]))
	}
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return outcome{req: req}, unix.EINVAL
	}
	p, err := w.pathArg(&req, int32(w.n.Args[0]), w.n.Args[1], flags&unix.AT_EMPTY_PATH != 0, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	return w.setMode(req, p, err, w.n.Args[2])
}

func (w *worker) setMode(req event.Request, p proc.Pinned, err error, mode uint64) (outcome, error) {
	req.Mode = uint32(mode)
	return w.onObject(req, p, err, func(p *proc.Pinned) error { return perform.Chmod(p, req.Mode) })
}

func (w *worker) chown(req event.Request) (outcome, error) {
	p, err := w.pathArg(&req, unix.AT_FDCWD, w.n.Args[0], false, w.call.name == "chown")
	return w.setOwner(req, p, err, w.n.Args[1], w.n.Args[2])
}

func (w *worker) fchown(req event.Request) (outcome, error) {
	p, err := w.descriptor(int32(w.n.Args[0]))
	return w.setOwner(req, p, err, w.n.Args[1], w.n.Args[2])
}

func (w *worker) fchownat(req event.Request) (outcome, error) {
	flags := int(uint32(w.n.Args[4]))
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return outcome{req: req}, unix.EINVAL
	}
	p, err := w.pathArg(&req, int32(w.n.Args[0]), w.n.Args[1], flags&unix.AT_EMPTY_PATH != 0, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	return w.setOwner(req, p, err, w.n.Args[2], w.n.Args[3])
}

func (w *worker) setOwner(req event.Request, p proc.Pinned, err error, uid, gid uint64) (outcome, error) {
	req.Target.Raw = fmt.Sprintf("owner %d:%d", int32(uid), int32(gid))
	return w.onObject(req, p, err, func(p *proc.Pinned) error {
		return perform.Chown(p.FD, int(int32(uid)), int(int32(gid)))
	})
}

// utime is utime(2) and utimes(2).
func (w *worker) utime(req event.Request) (outcome, error) {
	ts, err := w.times(w.n.Args[1])
	if err != nil {
		return outcome{req: req}, err
	}
	p, err := w.pathArg(&req, unix.AT_FDCWD, w.n.Args[0], false, true)
	return w.setTimes(req, p, err, ts)
}

// utimeat is futimesat(2) and utimensat(2); a null path means the descriptor.
func (w *worker) utimeat(req event.Request) (outcome, error) {
	flags := 0
	if w.call.name == "utimensat" {
		flags = int(uint32(w.n.Args[3]))
	}
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return outcome{req: req}, unix.EINVAL
	}
	ts, err := w.times(w.n.Args[2])
	if err != nil {
		return outcome{req: req}, err
	}
	empty := flags&unix.AT_EMPTY_PATH != 0 || (w.n.Args[1] == 0 && int32(w.n.Args[0]) != unix.AT_FDCWD)
	p, err := w.pathArg(&req, int32(w.n.Args[0]), w.n.Args[1], empty, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	return w.setTimes(req, p, err, ts)
}

func (w *worker) setTimes(req event.Request, p proc.Pinned, err error, ts *[2]unix.Timespec) (outcome, error) {
	return w.onObject(req, p, err, func(p *proc.Pinned) error { return perform.Utime(p, ts) })
}

// times reads the times of each of the four calls, nil for now.
func (w *worker) times(ptr uint64) (*[2]unix.Timespec, error) {
	if ptr == 0 {
		return nil, nil
	}
	n := 32
	if w.call.name == "utime" {
		n = 16
	}
	raw := make([]byte, n)
	if err := w.th.Read(ptr, raw); err != nil {
		return nil, err
	}
	v := func(i int) int64 { return int64(binary.NativeEndian.Uint64(raw[8*i:])) }
	switch w.call.name {
	case "utime":
		return &[2]unix.Timespec{{Sec: v(0)}, {Sec: v(1)}}, nil
	case "utimensat":
		return &[2]unix.Timespec{{Sec: v(0), Nsec: v(1)}, {Sec: v(2), Nsec: v(3)}}, nil
	}
	if v(1) < 0 || v(1) >= 1e6 || v(3) < 0 || v(3) >= 1e6 {
		return nil, unix.EINVAL
	}
	return &[2]unix.Timespec{{Sec: v(0), Nsec: v(1) * 1000}, {Sec: v(2), Nsec: v(3) * 1000}}, nil
}

const (
	xattrNameMax = 256     // XATTR_NAME_MAX and its NUL
	xattrSizeMax = 1 << 16 // XATTR_SIZE_MAX
)

// xattrObject is the object of the calls that name it in their first argument,
// by path, by path without following, or by descriptor.
func (w *worker) xattrObject(req *event.Request) (proc.Pinned, error) {
	switch w.call.name[0] {
	case 'f':
		return w.descriptor(int32(w.n.Args[0]))
	case 'l':
		return w.pathArg(req, unix.AT_FDCWD, w.n.Args[0], false, false)
	}
	return w.pathArg(req, unix.AT_FDCWD, w.n.Args[0], false, true)
}

func (w *worker) xattrName(ptr uint64) (_ string, err error) {
	w.attribute, err = w.th.String(ptr, w.buf[:], xattrNameMax)
	if errors.Is(err, proc.ErrTooLong) || (err == nil && w.attribute == "") {
		return "", unix.ERANGE
	}
	return w.attribute, err
}

// attributeText says what an attribute becomes: values are no text, may be long, and
// are nobody's business in a record, but an answer is for this one.
func attributeText(name string, value []byte) string {
	sum := sha256.Sum256(value)
	return fmt.Sprintf("%s, %d bytes, sha256 %x", name, len(value), sum[:16])
}

func (w *worker) setxattr(req event.Request) (outcome, error) {
	p, err := w.xattrObject(&req)
	return w.setAttr(req, p, err, w.n.Args[1], w.n.Args[2], w.n.Args[3], int(uint32(w.n.Args[4])))
}

func (w *worker) setAttr(req event.Request, p proc.Pinned, err error, namePtr, ptr, size uint64, flags int) (outcome, error) {
	if err != nil {
		return outcome{req: req}, err
	}
	name, err := w.xattrName(namePtr)
	if err == nil && size > xattrSizeMax {
		err = unix.E2BIG
	}
	var value []byte
	if err == nil {
		value = make([]byte, size)
		err = w.th.Read(ptr, value)
	}
	if err != nil {
		p.Close()
		return outcome{req: req}, err
	}
	req.Target.Raw, req.Flags = attributeText(name, value), uint64(flags)
	return w.onObject(req, p, nil, func(p *proc.Pinned) error { return perform.Setxattr(p, name, value, flags) })
}

// setxattrat takes value, size and flags from a struct xattr_args.
func (w *worker) setxattrat(req event.Request) (outcome, error) {
	if w.n.Args[5] < 16 || w.n.Args[5] > 4096 {
		return outcome{req: req}, unix.EINVAL
	}
	var raw [16]byte
	if err := w.th.Read(w.n.Args[4], raw[:]); err != nil {
		return outcome{req: req}, err
	}
	at := int(uint32(w.n.Args[2]))
	p, err := w.pathArg(&req, int32(w.n.Args[0]), w.n.Args[1], at&unix.AT_EMPTY_PATH != 0, at&unix.AT_SYMLINK_NOFOLLOW == 0)
	return w.setAttr(req, p, err, w.n.Args[3], binary.NativeEndian.Uint64(raw[:]),
		uint64(binary.NativeEndian.Uint32(raw[8:])), int(binary.NativeEndian.Uint32(raw[12:])))
}

func (w *worker) removexattr(req event.Request) (outcome, error) {
	p, err := w.xattrObject(&req)
	return w.removeAttr(req, p, err, w.n.Args[1])
}

func (w *worker) removexattrat(req event.Request) (outcome, error) {
	at := int(uint32(w.n.Args[2]))
	p, err := w.pathArg(&req, int32(w.n.Args[0]), w.n.Args[1], at&unix.AT_EMPTY_PATH != 0, at&unix.AT_SYMLINK_NOFOLLOW == 0)
	return w.removeAttr(req, p, err, w.n.Args[3])
}

func (w *worker) removeAttr(req event.Request, p proc.Pinned, err error, namePtr uint64) (outcome, error) {
	if err != nil {
		return outcome{req: req}, err
	}
	name, err := w.xattrName(namePtr)
	if err != nil {
		p.Close()
		return outcome{req: req}, err
	}
	req.Target.Raw = name + ", removed"
	return w.onObject(req, p, nil, func(p *proc.Pinned) error { return perform.Removexattr(p, name) })
}

// fileSetattr is file_setattr(2), which sets inode flags by path. Programs fall
// back to the ioctl, so where it would be performed it is refused as unknown.
func (w *worker) fileSetattr(req event.Request) (outcome, error) {
	at := int(uint32(w.n.Args[4]))
	p, err := w.pathArg(&req, int32(w.n.Args[0]), w.n.Args[1], at&unix.AT_EMPTY_PATH != 0, at&unix.AT_SYMLINK_NOFOLLOW == 0)
	return w.onObject(req, p, err, func(*proc.Pinned) error { return unix.EOPNOTSUPP })
}

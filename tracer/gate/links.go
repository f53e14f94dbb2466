package gate

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

func (w *worker) link(req event.Request) (outcome, error) {
	return w.makeLink(req, unix.AT_FDCWD, w.n.Args[0], unix.AT_FDCWD, w.n.Args[1], 0)
}

func (w *worker) linkat(req event.Request) (outcome, error) {
	return w.makeLink(req, int32(w.n.Args[0]), w.n.Args[1], int32(w.n.Args[2]), w.n.Args[3], int(uint32(w.n.Args[4])))
}

// makeLink gives a pinned object a second name.
func (w *worker) makeLink(req event.Request, fromfd int32, fromPtr uint64, tofd int32, toPtr uint64, flags int) (outcome, error) {
	out := outcome{req: req}
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return out, unix.EINVAL
	}
	from, err := w.th.Path(fromPtr, w.buf[:])
	if err != nil {
		return out, err
	}
	to, err := w.th.Path(toPtr, w.buf[:])
	out.req.Object.Raw, out.req.Target.Raw = from, to
	if err != nil {
		return out, err
	}
	src, err := w.linkSource(fromfd, from, flags)
	if err != nil {
		return out, err
	}
	name, err := w.entry(tofd, to, 0)
	if err != nil {
		src.close()
		return out, err
	}
	release := func() {
		w.unlockTree()
		src.close()
		name.Close()
	}
	if !w.lockTree() {
		src.close()
		name.Close()
		return out, proc.ErrBlocks
	}
	out.req.Access = event.AccessCreate
	out.req.Object, out.req.Target = src.obj.Object(from), name.Object(to)
	if out.req.Target.Kind != event.ObjectMissing || name.Root() {
		release()
		return out, unix.EEXIST
	}
	out.d = w.decide(&out.req)
	if w.continues(Tree) || out.d.Action != event.ActionAllow {
		release()
		return out, nil
	}
	out.act = func() answer {
		defer release()
		return done(src.linkTo(&name))
	}
	out.undo = release
	return out, nil
}

// linkSource is what is linked: an object, and for a symbolic link, which no
// descriptor path leads to, the entry that it was pinned at.
type linkSource struct {
	obj   proc.Pinned
	entry proc.Name
}

func (s *linkSource) close() {
	s.obj.Close()
	s.entry.Close()
}

// linkSource looks the source up once: what its path means afterwards, by another
// descriptor or working directory, is of no interest.
func (w *worker) linkSource(dirfd int32, path string, flags int) (s linkSource, err error) {
	s.entry.Parent.FD = -1
	if path == "" || flags&unix.AT_SYMLINK_FOLLOW != 0 {
		s.obj, err = w.object(dirfd, path, flags&unix.AT_EMPTY_PATH != 0, flags&unix.AT_SYMLINK_FOLLOW != 0)
		return s, err
	}
	if s.entry, err = w.entry(dirfd, path, 0); err != nil {
		s.entry.Parent.FD = -1
		return s, err
	}
	follow := 0
	if !strings.HasSuffix(path, "/") {
		follow = unix.O_NOFOLLOW
	}
	if s.obj, err = w.view.ResolveFrom(s.entry.Parent.FD, s.entry.Last, follow); err != nil {
		s.entry.Close()
	}
	return s, err
}

// linkTo links the object that was judged, or nothing. The tree lock is held, so
// the entry of a symbolic link cannot have become another object's.
func (s *linkSource) linkTo(name *proc.Name) error {
	if !s.obj.Symlink() {
		return perform.Link(&s.obj, -1, "", name.Parent.FD, name.Last)
	}
	if o := s.entry.Object(""); o.Dev != s.obj.Stat.Dev || o.Ino != s.obj.Stat.Ino {
		return unix.ENOENT
	}
	return perform.Link(&s.obj, s.entry.Parent.FD, s.entry.Last, name.Parent.FD, name.Last)
}

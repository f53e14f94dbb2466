package gate

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// Changes of names. Each pins the directory, decides about directory and name,
// and acts on just these, all under the gate's tree lock: nothing in the session
// can put another object under the name between judgement and act, nor move the
// directory somewhere else.

func (w *worker) unlink(req event.Request) (outcome, error) {
	return w.remove(req, unix.AT_FDCWD, w.n.Args[0], 0)
}

func (w *worker) rmdir(req event.Request) (outcome, error) {
	return w.remove(req, unix.AT_FDCWD, w.n.Args[0], unix.AT_REMOVEDIR)
}

func (w *worker) unlinkat(req event.Request) (outcome, error) {
	flags := int(uint32(w.n.Args[2]))
	if flags&^unix.AT_REMOVEDIR != 0 {
		return outcome{req: req}, unix.EINVAL
	}
	if flags&unix.AT_REMOVEDIR != 0 {
		req.Op = event.OpRmdir
	}
	return w.remove(req, int32(w.n.Args[0]), w.n.Args[1], flags)
}

func (w *worker) remove(req event.Request, dirfd int32, ptr uint64, flags int) (outcome, error) {
	req.Access = event.AccessDelete
	return w.onName(req, dirfd, ptr, func(n *proc.Name) error {
		was := n.Object("")
		err := perform.Unlink(n.Parent.FD, n.Last, flags)
		if err == nil && was.Kind == event.ObjectDir {
			w.g.repos.forget(FileID{was.Dev, was.Ino})
		}
		if err == nil {
			w.g.sockets.unbound(&was)
			w.g.acts.forget(&was)
		}
		return err
	})
}

func (w *worker) mkdir(req event.Request) (outcome, error) {
	return w.makeDir(req, unix.AT_FDCWD, w.n.Args[0], uint32(w.n.Args[1]))
}

func (w *worker) mkdirat(req event.Request) (outcome, error) {
	return w.makeDir(req, int32(w.n.Args[0]), w.n.Args[1], uint32(w.n.Args[2]))
}

func (w *worker) makeDir(req event.Request, dirfd int32, ptr uint64, mode uint32) (outcome, error) {
	req.Access, req.Mode = event.AccessCreate, mode
	return w.onName(req, dirfd, ptr, func(n *proc.Name) error {
		if err := w.freshUmask(); err != nil {
			return err
		}
		if err := perform.Mkdir(n.Parent.FD, n.Last, mode); err != nil {
			return err
		}
		w.g.repos.made(n)
		w.ownDir(n)
		return nil
	})
}

func (w *worker) mknod(req event.Request) (outcome, error) {
	return w.makeNode(req, unix.AT_FDCWD, w.n.Args[0], uint32(w.n.Args[1]), w.n.Args[2])
}

func (w *worker) mknodat(req event.Request) (outcome, error) {
	return w.makeNode(req, int32(w.n.Args[0]), w.n.Args[1], uint32(w.n.Args[2]), w.n.Args[3])
}

func (w *worker) makeNode(req event.Request, dirfd int32, ptr uint64, mode uint32, dev uint64) (outcome, error) {
	req.Access, req.Mode = event.AccessCreate, mode
	return w.onName(req, dirfd, ptr, func(n *proc.Name) error {
		if err := w.freshUmask(); err != nil {
			return err
		}
		return perform.Mknod(n.Parent.FD, n.Last, mode, dev)
	})
}

func (w *worker) symlink(req event.Request) (outcome, error) {
	return w.makeSymlink(req, w.n.Args[0], unix.AT_FDCWD, w.n.Args[1])
}

func (w *worker) symlinkat(req event.Request) (outcome, error) {
	return w.makeSymlink(req, w.n.Args[0], int32(w.n.Args[1]), w.n.Args[2])
}

func (w *worker) makeSymlink(req event.Request, targetPtr uint64, dirfd int32, ptr uint64) (outcome, error) {
	target, err := w.th.Path(targetPtr, w.buf[:])
	if err != nil {
		return outcome{}, err
	}
	if target == "" {
		return outcome{req: req}, unix.ENOENT
	}
	req.Access = event.AccessCreate
	req.Object = event.Object{Kind: event.ObjectSymlink, Raw: target}
	return w.onName(req, dirfd, ptr, func(n *proc.Name) error {
		return perform.Symlink(target, n.Parent.FD, n.Last)
	})
}

// onName judges and acts on one directory entry: the object of the request, or
// the new name of a symbolic link, whose object is the text that it holds.
func (w *worker) onName(req event.Request, dirfd int32, ptr uint64, act func(*proc.Name) error) (outcome, error) {
	path, err := w.th.Path(ptr, w.buf[:])
	out := outcome{req: req}
	entry := &out.req.Object
	if req.Op == event.OpSymlink {
		entry = &out.req.Target
	}
	entry.Raw = path
	if err != nil {
		return out, err
	}
	name, err := w.view.Entry(dirfd, path, 0)
	if err != nil {
		return out, err
	}
	if errno := atRoot(&name, req.Op); errno != 0 {
		name.Close()
		return out, errno
	}
	if !w.lockTree() {
		name.Close()
		return out, proc.ErrBlocks
	}
	*entry = name.Object(path)
	if entry.Kind != event.ObjectMissing && (req.Op == event.OpSymlink || req.Op == event.OpMknod) {
		w.unlockTree()
		name.Close()
		return out, unix.EEXIST
	}
	out.d = w.decide(&out.req)
	if w.continues(Tree) || out.d.Action != event.ActionAllow {
		w.unlockTree()
		name.Close()
		return out, nil
	}
	request, d := out.req, out.d
	out.act = func() answer {
		err := act(&name)
		if err == nil {
			w.beganAt(&request, d, &name)
		}
		w.unlockTree()
		name.Close()
		return done(err)
	}
	out.undo = func() {
		w.unlockTree()
		name.Close()
	}
	return out, nil
}

// atRoot is what the kernel says of changing the root's own name, 0 of others.
func atRoot(n *proc.Name, op event.Op) unix.Errno {
	switch {
	case !n.Root():
		return 0
	case op == event.OpDelete:
		return unix.EISDIR
	case op == event.OpRmdir, op == event.OpRename:
		return unix.EBUSY
	}
	return unix.EEXIST
}

// done is the answer of an action that returns nothing but success.
func done(err error) answer {
	var errno unix.Errno
	switch {
	case err == nil:
		return answer{}
	case errors.As(err, &errno):
		return answer{errno: errno}
	}
	return failedHere(err.Error())
}

// failedHere is a refusal for a reason of our own, found while acting.
func failedHere(reason string) answer {
	return answer{errno: unix.EACCES, denied: &event.Decision{Action: event.ActionDeny, By: "gate", Reason: reason}}
}

// pair are the two entries of a rename or a link.
type pair struct{ from, to proc.Name }

func (p *pair) close() {
	p.from.Close()
	p.to.Close()
}

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
	name, err := w.view.Entry(tofd, to, 0)
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
	if s.entry, err = w.view.Entry(dirfd, path, 0); err != nil {
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

func (w *worker) rename(req event.Request) (outcome, error) {
	return w.move(req, unix.AT_FDCWD, w.n.Args[0], unix.AT_FDCWD, w.n.Args[1], 0)
}

func (w *worker) renameat(req event.Request) (outcome, error) {
	var flags uint
	if w.call.name == "renameat2" {
		flags = uint(uint32(w.n.Args[4]))
	}
	return w.move(req, int32(w.n.Args[0]), w.n.Args[1], int32(w.n.Args[2]), w.n.Args[3], flags)
}

func (w *worker) move(req event.Request, fromfd int32, fromPtr uint64, tofd int32, toPtr uint64, flags uint) (outcome, error) {
	out := outcome{req: req}
	out.req.Flags, out.req.Access = uint64(flags), event.AccessDelete|event.AccessCreate
	from, err := w.th.Path(fromPtr, w.buf[:])
	if err != nil {
		return out, err
	}
	to, err := w.th.Path(toPtr, w.buf[:])
	out.req.Object.Raw, out.req.Target.Raw = from, to
	if err != nil {
		return out, err
	}
	var p pair
	if p.from, err = w.view.Entry(fromfd, from, 0); err != nil {
		return out, err
	}
	if p.to, err = w.view.Entry(tofd, to, 0); err != nil {
		p.from.Close()
		return out, err
	}
	release := func() {
		w.unlockTree()
		p.close()
	}
	if !w.lockTree() {
		p.close()
		return out, proc.ErrBlocks
	}
	out.req.Object, out.req.Target = p.from.Object(from), p.to.Object(to)
	err = p.from.Lookup()
	if p.from.Root() || p.to.Root() {
		err = unix.EBUSY
	}
	if err != nil {
		release()
		return out, err
	}
	out.d = w.decide(&out.req)
	if w.continues(Tree) || out.d.Action != event.ActionAllow {
		release()
		return out, nil
	}
	guarded := out.d.GuardContent
	request := out.req
	out.act = func() answer {
		defer release()
		if guarded {
			return w.moveChecked(&request, &p)
		}
		err := perform.Rename(p.from.Parent.FD, p.from.Last, p.to.Parent.FD, p.to.Last, flags)
		switch {
		case err != nil:
		case flags&unix.RENAME_EXCHANGE != 0:
			w.g.acts.forget(&request.Object)
			w.g.acts.forget(&request.Target)
		default: // What stood under the new name is gone.
			w.g.acts.forget(&request.Target)
			w.g.acts.moved(w.th.ID, &request.Object, request.Target.Path)
			w.g.sockets.unbound(&request.Target)
			w.g.repos.forget(FileID{request.Target.Dev, request.Target.Ino})
		}
		return done(err)
	}
	out.undo = release
	return out, nil
}

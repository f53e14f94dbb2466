package gate

import (
	"errors"

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
		gone := w.g.creations.losesName(n, &was)
		err := perform.Unlink(n.Parent.FD, n.Last, flags)
		if err == nil && was.Kind == event.ObjectDir {
			w.g.repos.forget(FileID{was.Dev, was.Ino})
		}
		if err == nil {
			w.g.sockets.unbound(&was)
			w.g.acts.forget(&was)
			gone()
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
	name, err := w.entry(dirfd, path, 0)
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

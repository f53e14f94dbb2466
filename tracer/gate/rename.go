package gate

import (
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// pair are the two entries of a rename or a link.
type pair struct{ from, to proc.Name }

func (p *pair) close() {
	p.from.Close()
	p.to.Close()
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
	if p.from, err = w.entry(fromfd, from, 0); err != nil {
		return out, err
	}
	if p.to, err = w.entry(tofd, to, 0); err != nil {
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
	switch {
	case p.from.Root(), p.to.Root(), p.from.Dots():
		err = unix.EBUSY
	case p.to.Dots() && flags&unix.RENAME_NOREPLACE != 0:
		err = unix.EEXIST
	case p.to.Dots():
		err = unix.EBUSY
	}
	if err != nil {
		release()
		return out, err
	}
	d := w.judge(&out.req)
	change := d.AskContent
	if change {
		d, change = w.keepsSettings(&out.req, &p, d)
	}
	out.d = w.settle(&out.req, d)
	if w.continues(Tree) || out.d.Action != event.ActionAllow {
		release()
		return out, nil
	}
	guarded := out.d.GuardContent
	request := out.req
	out.act = func() answer {
		defer release()
		if guarded || change {
			return w.moveChecked(&request, &p, change)
		}
		gone := w.g.creations.losesName(&p.to, &request.Target)
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
			gone()
		}
		return done(err)
	}
	out.undo = release
	return out, nil
}

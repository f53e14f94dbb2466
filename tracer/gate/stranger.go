package gate

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// elsewhere is the error of a path that leads where no object can be judged: by a
// stranger's magic link, or in another root directory.
type elsewhere interface {
	error
	Way() (raw, path string)
	Object() event.Object
}

// isElsewhere says of an error that it is one of those.
func isElsewhere(err error) bool {
	var e elsewhere
	return errors.As(err, &e)
}

// unfinished says of the error of a look-up that it tells nothing about what is there:
// it may not wait here, or waited until the task was killed or got a signal.
func unfinished(err error) bool {
	return err == proc.ErrBlocks || err == unix.EINTR || err == restart
}

// named puts into a request what the refused path leads to, so that the record
// names the object and not just the way. It is looked up as ourselves, since the
// task could perhaps not follow a link, and only here, after it was refused.
func (w *worker) named(req *event.Request, e elsewhere) *event.Request {
	raw, path := e.Way()
	at := &req.Object
	if req.Op == event.OpSymlink || raw == req.Target.Raw && raw != req.Object.Raw {
		at = &req.Target
	}
	if raw != "" && raw != at.Raw {
		return req // the interpreter of a script: the reason names it
	}
	o := event.Object{Kind: event.ObjectMissing, Path: path}
	if w.actor.Ourselves() == nil {
		_ = w.block(func() error { // killed meanwhile: then by its own name
			o = e.Object()
			return nil
		})
	}
	o.Raw, o.Family, o.Proto = at.Raw, at.Family, at.Proto
	*at = o
	return req
}

package gate

import (
	"errors"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// isStranger says of an error that it is a path by a stranger's magic link.
func isStranger(err error) bool {
	var s *proc.Stranger
	return errors.As(err, &s)
}

// strange puts into a request what the refused path leads to, so that the record
// names the object and not just the link. It is looked up as ourselves, since the
// task could perhaps not follow the link, and only here, after it was refused.
func (w *worker) strange(req *event.Request, s *proc.Stranger) *event.Request {
	at := &req.Object
	if req.Op == event.OpSymlink || s.Raw == req.Target.Raw && s.Raw != req.Object.Raw {
		at = &req.Target
	}
	if s.Raw != "" && s.Raw != at.Raw {
		return req // the interpreter of a script: the reason names it
	}
	o := event.Object{Kind: event.ObjectMissing, Path: s.Path}
	if w.actor.Ourselves() == nil {
		_ = w.block(func() error { // killed meanwhile: then by its own name
			o = s.Object()
			return nil
		})
	}
	o.Raw, o.Family, o.Proto = at.Raw, at.Family, at.Proto
	*at = o
	return req
}

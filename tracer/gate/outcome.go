package gate

import (
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// answer is how a served call is to be answered.
type answer struct {
	errno unix.Errno // fail with it, unless cont
	cont  bool
	val   int64
	fd    int // when hasFD: our descriptor, which serve closes
	hasFD bool
	// cloexec is for the descriptor in the task.
	cloexec bool
	// again: the object changed under the action; judge the call anew, in a
	// waiter if wait.
	again, wait bool
	// denied is a refusal that only the action could find.
	denied *event.Decision
}

// outcome is what a handler made of a call.
type outcome struct {
	req event.Request
	d   event.Decision
	// act carries the decision out. It runs after the event is acknowledged in
	// strict calls, before it is recorded otherwise. nil means continue or deny.
	act func() answer
	// undo lets go of what act would have used, when act is not to run.
	undo func()
}

// finish carries an outcome out, and says whether the call must be judged anew,
// and by a waiter.
func (w *worker) finish(out outcome) (again, wait bool) {
	if !w.g.cfg.Listener.Valid(w.n.ID) {
		out.drop() // nobody waits any more: nothing is done, so nothing happened
		return false, false
	}
	if out.d.Action == event.ActionAsk {
		out.drop()
		w.ask()
		return false, false
	}
	if out.d.Action != event.ActionAllow {
		out.drop()
		w.saidNo()
		w.conclude(&out.req, out.d, answer{errno: denyErrno(out.d)})
		return false, false
	}
	if out.act == nil {
		w.conclude(&out.req, out.d, answer{cont: true})
		return false, false
	}
	if w.strict && !w.quiet {
		// Said before it is done: the result is not known yet.
		if err := w.acked(&out.req, out.d, 0); err != nil {
			out.drop()
			w.send(answer{errno: unix.EACCES})
			return false, false
		}
	}
	a := w.carryOut(out.act)
	switch {
	case a.again:
		return true, a.wait
	case a.denied != nil:
		w.conclude(&out.req, *a.denied, a)
	case w.strict && !w.quiet:
		w.deliver(&out.req, out.d, a)
	default:
		w.conclude(&out.req, out.d, a)
	}
	return false, false
}

func (o *outcome) drop() {
	if o.undo != nil {
		o.undo()
	}
}

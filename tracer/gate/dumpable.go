package gate

import (
	"github.com/reeve-audit/reeve/tracer/event"
)

const reasonDumpable = "said, but not done: an ordinary user's reeve must read the task's memory to judge what it does"

// dumpable is PR_SET_DUMPABLE, by which agents that hold keys (gpg-agent, ssh-agent)
// hide their memory from other programs of their user. Where reeve is one of those it
// could then read none of the task's arguments, and would have to refuse all that it
// does; so the task is told that it is hidden, and is not. In the session nobody can
// look into it all the same, unless the policy allows ptrace.
func (w *worker) dumpable(req event.Request) outcome {
	out := outcome{req: req, d: event.Decision{Action: event.ActionAllow, By: "gate"}}
	out.req.Object = event.Object{Kind: event.ObjectKernel, Path: w.call.name}
	if w.n.Args[1] != 0 || w.actor.ReadsHidden() {
		w.quiet = true
		return out
	}
	out.d.Reason = reasonDumpable
	out.act = func() answer { return answer{} }
	return out
}

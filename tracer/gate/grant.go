package gate

import (
	"slices"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// grant is the answer to one question of a call.
type grant struct {
	request event.Request
	asked   event.Decision // the decider's
	d       event.Decision // the answer
	// known answers hold for the session.
	known bool
	// seen are the further steps that the approver was shown, also those of them
	// that this call has.
	seen, also []event.Request
	// stale says that the call leads to something else by now than was shown.
	stale bool
	// target, which may be nil, is what a rename among them would replace.
	target *proc.Pinned
}

// drop lets go of what a grant holds.
func (g *grant) drop() {
	if g.target != nil {
		g.target.Close()
		g.target = nil
	}
}

// maxQuestions bounds how often one call asks: a script may ask for itself and
// for its interpreters, and what changed meanwhile is asked anew.
const maxQuestions = 8

const reasonNobody = "asks, and there is nobody to ask"

// granted is the decision about a request that the decider asks about: the
// answer that the call has got, or to ask.
func (w *worker) granted(req *event.Request, d event.Decision) event.Decision {
	if g := w.grantOf(req); g != nil {
		return answered(d, g.d)
	}
	if a, ok := w.part(req, d); ok {
		a = answered(d, a)
		a.Reason = "a part of question " + a.Question
		return a
	}
	q := Question{Request: *req, Decision: d}
	q.Request.Task.Cwd = w.th.Cwd()
	switch {
	case w.m.Asker == nil:
		return Unasked(d)
	case req.Op == event.OpExec && req.Task.Cwd == "":
		return refused(d, "asks, and where it would run cannot be named")
	case w.questions() >= maxQuestions:
		return refused(d, "it changed whenever it was asked about")
	}
	if known, ok := w.m.Asker.Known(q); ok && !w.changed {
		w.grants = append(w.grants, grant{request: *req, asked: d, d: known.Decision, known: true, seen: known.Also})
		w.follows(req, follow(req))
		return answered(d, known.Decision)
	}
	w.asked = &q
	w.follows(req, follow(req))
	return d
}

// questions is how often this call has asked.
func (w *worker) questions() (n int) {
	for i := range w.grants {
		if !w.grants[i].known {
			n++
		}
	}
	return n
}

// grantOf is the answer to a request of this call, nil if there is none.
func (w *worker) grantOf(req *event.Request) *grant {
	for i := range w.grants {
		if g := &w.grants[i]; !g.stale && sameRequest(&g.request, req) {
			return g
		}
	}
	return nil
}

// part is the answer that a request is a part of: to another question of this
// call, or to an earlier call.
func (w *worker) part(req *event.Request, d event.Decision) (event.Decision, bool) {
	for i := range w.grants {
		g := &w.grants[i]
		if !g.stale && sameQuestion(g.asked, d) && slices.ContainsFunc(g.also, func(step event.Request) bool { return isStep(&step, req) }) {
			return g.d, true
		}
	}
	return w.covering(req, d)
}

// follows says what steps a call leads to: the question is to show them, and an
// answer is for those that it showed.
func (w *worker) follows(req *event.Request, steps []event.Request) {
	if w.asked != nil {
		w.asked.Also = steps
	} else if g := w.grantOf(req); g != nil {
		g.also = shown(steps, g.seen, g.known)
	}
}

// Unasked denies what the decider asks about where nobody is asked.
func Unasked(d event.Decision) event.Decision { return refused(d, reasonNobody) }

// refused denies what was asked about.
func refused(d event.Decision, why string) event.Decision {
	if d.Reason != "" {
		why = d.Reason + "; " + why
	}
	d.Action, d.Reason = event.ActionDeny, why
	return d
}

// answered is the decider's decision with the action of the answer.
func answered(d, answer event.Decision) event.Decision {
	if answer.Action != event.ActionAllow {
		answer.Action = event.ActionDeny
	}
	d.Action, d.By, d.Reason, d.Question = answer.Action, answer.By, answer.Reason, answer.Question
	return d
}

// sameRequest says whether a call means what it meant when it was asked about.
func sameRequest(a, b *event.Request) bool {
	object := func(a, b event.Object) bool {
		a.Raw, b.Raw, a.RawLen, b.RawLen = "", "", 0, 0
		return a == b
	}
	return a.Op == b.Op && a.Access == b.Access && object(a.Object, b.Object) && object(a.Target, b.Target) &&
		a.Flags == b.Flags && a.Mode == b.Mode && a.Task.ID == b.Task.ID && a.Task.Exe == b.Task.Exe && a.Told() == b.Told()
}

func drop(grants []grant) {
	for i := range grants {
		grants[i].drop()
	}
}

package policy

import (
	"slices"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Stack is the policies that hold for a session: its own last, before it those of
// the sessions that it is inside. The strictest counts.
type Stack []*Policy

// Own is the policy of the session itself.
func (s Stack) Own() *Policy { return s[len(s)-1] }

// holdsNothing reports whether all of them only record.
func (s Stack) holdsNothing() bool {
	return !slices.ContainsFunc(s, func(p *Policy) bool { return !p.recordOnly })
}

// decide is the decision of all, where by is that of one.
func (s Stack) decide(by func(i int) event.Decision) event.Decision {
	d := by(0)
	for i := range s[1:] {
		if d.Action == event.ActionDeny && !d.AskBorn {
			return d // those inside are not asked
		}
		d = Stricter(d, by(i+1))
	}
	return d
}

// ruling is a decision, and what it amounts to: unlike the decision that can be
// to ask.
type ruling struct {
	decision event.Decision
	action   event.Action
}

// rule decides about all that a request leads to: of an exec also about the
// interpreters, or a loader's program. The strictest counts.
func (s Stack) rule(req *event.Request, by func(i int, req *event.Request) event.Decision) ruling {
	var worst ruling
	for n, one := range judged(req) {
		r := rulingOf(s.decide(func(i int) event.Decision { return by(i, &one) }))
		if n == 0 || r.action > worst.action {
			worst = r
		}
	}
	return worst
}

// judged are the requests that are judged for one.
func judged(req *event.Request) []event.Request {
	out := []event.Request{*req}
	if req.Op != event.OpExec {
		return out
	}
	script := *req
	for i := range req.Interps {
		p := &req.Interps[i]
		if p.Loaded() {
			out = append(out, p.Request(req))
			continue
		}
		script = p.Request(&script)
		out = append(out, script)
	}
	return out
}

func rulingOf(d event.Decision) ruling {
	if d.Reason == noApprovals {
		return ruling{d, event.ActionAsk}
	}
	return ruling{d, d.Action}
}

// HoldsNothing reports whether the policy only records.
func (p *Policy) HoldsNothing() bool { return p.recordOnly }

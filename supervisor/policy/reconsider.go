package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Reconsidered is what came of deciding a recorded operation anew.
type Reconsidered struct {
	// Asked says that a policy decides about the operation. Of facts, of calls
	// that failed by themselves and of what the gate did on its own, none does:
	// they stay what they are, and the rest is zero.
	Asked bool
	// Open says in one clause why the operation cannot be decided anew; it is
	// empty where From and To are known.
	Open string
	// From is what the session's own policy said and To what the other one says.
	// What an approver answered was asked, whatever the answer.
	From, To event.Action
	// Decision is the other policy's.
	Decision event.Decision
}

// Changed reports whether the other policy says something else.
func (r *Reconsidered) Changed() bool { return r.Asked && r.Open == "" && r.From != r.To }

// What By says before a colon of decisions that a policy or, for it, a person made.
const (
	byPolicy   = "policy:"
	byApprover = "approver:"
)

// noApprovals is the reason of what asked where there were no approvals yet.
const noApprovals = "asks; approvals are not available, so denied"

// Review decides the operations of a recorded session anew, by another policy. It
// is given the records in the order of their stream, since what a session did
// before counts. It is for one goroutine.
//
// Of a script's interpreters those are judged that the session judged; a program
// that was refused at once is judged alone.
type Review struct {
	own, other *rerun
	now        time.Time
	made       recordMade
	// sameCommands is set when both say the same about commands.
	sameCommands bool
}

// NewReview begins a session's review. own is the policy of the session itself, on
// the same host: it tells what the gate looked up and the record only implies, and
// a record that does not fit it is left open.
func NewReview(own, other Stack) *Review {
	r := &Review{now: time.Unix(0, 0), sameCommands: own.sameCommands(other)}
	clock := func() time.Time { return r.now }
	r.own, r.other = newRerun(own, own, clock), newRerun(other, own, clock)
	return r
}

// Reconsider decides the next record.
func (r *Review) Reconsider(e *event.Event) Reconsidered {
	if e.Time.After(r.now) {
		r.now = e.Time
	}
	own, other := r.own.stack, r.other.stack
	if e.Kind != event.KindRequest {
		r.other.answered(e)
		return Reconsidered{}
	}
	defer r.made.note(e)
	if !strings.HasPrefix(e.By, byPolicy) && !strings.HasPrefix(e.By, byApprover) {
		if e.Action == event.ActionDeny && other.holdsNothing() && !own.holdsNothing() {
			return Reconsidered{Asked: true, Open: fmt.Sprintf("decided by the %s (%s), and profile %s holds nothing back", cmp.Or(e.By, "gate"), e.Reason, other.Own().name)}
		}
		return Reconsidered{}
	}
	req := e.Request()
	was := r.own.next(e, &req)
	asked := was.decision.AskBorn || req.Born // whose the repository, or the file, is
	if !asked {
		r.made.claim(&req)
	}
	is := r.other.next(e, &req)
	if e.Op == event.OpExec {
		if inPart(e) {
			return r.partial(e, &req, was, is)
		}
		was, is = r.remembered(e, &req, was, is)
	}
	out := Reconsidered{Asked: true, From: recorded(e, was.action), To: is.action, Decision: is.decision}
	// Content is judged by no profile: where it was looked at the answer holds.
	settled := was.decision.AskContent && e.Action == event.ActionAllow && !strings.HasPrefix(e.By, byApprover)
	if settled {
		was.action, out.From = event.ActionAllow, event.ActionAllow
	}
	switch {
	case !is.decision.AskContent:
	case settled:
		out.To = event.ActionAllow
	case !was.decision.AskContent:
		out.Open = "depends on how the settings file changed, which its own policy did not ask"
		return out
	}
	looked := was.decision.GuardContent && (was.action == event.ActionAllow || e.Action == event.ActionAllow)
	guarded := is.decision.GuardContent && is.action == event.ActionAllow
	switch {
	case out.From != was.action && (!looked || out.From != event.ActionDeny):
		out.Open = misfit(out.From, was.action)
	case is.decision.AskBorn && !asked && !r.other.onlyFiles(&req):
		out.Open = "depends on whether the session made the repository, which its own policy did not ask"
	case guarded && !looked:
		out.Open = "depends on what the settings file held, which its own policy did not ask"
	case guarded && e.Action == event.ActionDeny:
		out.To = event.ActionDeny
	}
	return out
}

func misfit(recorded, now event.Action) string {
	return fmt.Sprintf("recorded as %s, where its own policy now says %s", recorded, now)
}

// remembered corrects what an exec is decided by where the record shows that the
// session remembered something else than its stream tells: tasks that ran at once,
// or what another session did that it shares a memory with.
func (r *Review) remembered(e *event.Event, req *event.Request, was, is ruling) (ruling, ruling) {
	if recorded(e, was.action) == was.action {
		return was, is
	}
	for _, made := range []func(string) bool{func(string) bool { return true }, nil} {
		if w := r.own.exec(req, made); recorded(e, w.action) == w.action {
			return w, r.other.exec(req, made)
		}
	}
	return was, is
}

// recorded is what the session's policy said about a recorded operation. says is
// what it says now: a question that found nobody to answer it is recorded as a
// denial.
func recorded(e *event.Event, says event.Action) event.Action {
	asked := strings.HasPrefix(e.By, byApprover) || e.Reason == noApprovals
	if asked || e.Action == event.ActionDeny && says == event.ActionAsk {
		return event.ActionAsk
	}
	return e.Action
}

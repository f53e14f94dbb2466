package main

import (
	"context"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// openDesk makes the desk at which the session's questions wait, if anybody is
// to be asked.
func (l *live) openDesk(tap *tap) (err error) {
	if l.opts.ask == askDeny {
		return nil
	}
	timeout := l.opts.askTimeout
	if t := l.policy.Approval().Timeout; t > 0 && t < timeout {
		timeout = t
	}
	rules, err := l.rules()
	if err != nil {
		return err
	}
	l.desk, err = approval.New(approval.Config{
		Session: l.session.ID, Profile: l.policy.Name(), Engine: l.engine, Recorder: tap, Timeout: timeout, Rules: rules,
		Answered: l.ledgers.answered,
	})
	return err
}

// asker is what the gate asks; nil denies.
func (l *live) asker() gate.Asker {
	if l.desk == nil {
		return nil
	}
	return asker{l.desk}
}

// asker puts the gate's questions on the desk.
type asker struct{ desk *approval.Desk }

func (a asker) Known(q gate.Question) (gate.Answer, bool) {
	question := questionOf(&q)
	answer, known := a.desk.Known(&question)
	return gate.Answer{Decision: answer.Decide(q.Decision), Also: answer.Also}, known
}

func (a asker) Ask(ctx context.Context, q gate.Question) gate.Answer {
	answer := a.desk.Ask(ctx, questionOf(&q))
	return gate.Answer{Decision: answer.Decide(q.Decision), Also: answer.Also}
}

func questionOf(q *gate.Question) approval.Question {
	return approval.Question{
		Request: q.Request, Rule: q.Decision.Rule, Reason: q.Decision.Reason, Risk: q.Decision.Risk, Ancestry: q.Ancestry, Also: q.Also,
		Profile: strings.TrimPrefix(q.Decision.By, "policy:"), Broad: q.Decision.Risk == policy.RiskBulk,
	}
}

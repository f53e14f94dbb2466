package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// Exchange carries out the requests of approvers at one desk. It may be used
// from any number of goroutines.
type Exchange struct {
	desk *approval.Desk
	// remote approvers see no rules, and write none.
	remote bool
}

// NewExchange is the exchange of a desk. Remote approvers cannot allow always:
// the rule has to be shown to somebody on this machine.
func NewExchange(desk *approval.Desk, remote bool) *Exchange { return &Exchange{desk, remote} }

// Answer carries out a request to allow, deny or propose, by whom it comes from,
// and gives the last message of the reply; a proposed rule is in it.
func (x *Exchange) Answer(r *Request, by string) Message {
	switch r.Do {
	case Allow, Deny:
		return result(StatusAccepted, x.answer(r, by))
	case Propose:
		if x.remote {
			return refused(errors.New("rules are written on the machine of the session only: reeve asks"))
		}
		p, err := x.desk.Propose(r.ID)
		m := result(StatusOK, err)
		if err == nil {
			m.Rule = &Rule{p.File, p.Text}
		}
		return m
	}
	return refused(fmt.Errorf("%s is no answer", r.Do))
}

func (x *Exchange) answer(r *Request, by string) error {
	scope, err := r.scope()
	if err != nil {
		return err
	}
	if scope == approval.Always {
		if err := x.checkRule(r); err != nil {
			return err
		}
	}
	return x.desk.Answer(r.ID, approval.Answer{Allow: r.Do == Allow, Scope: scope, By: by, Reason: r.Reason})
}

// checkRule makes sure that what will be written is what was shown.
func (x *Exchange) checkRule(r *Request) error {
	if x.remote {
		return errors.New("scope always is for approvers on the machine of the session: reeve asks allow --scope always")
	}
	p, err := x.desk.Propose(r.ID)
	if err != nil {
		return err
	}
	if r.Rule.File != p.File || r.Rule.Text != p.Text {
		return errors.New("the rule that was shown is not the one that would be written now: look at it again")
	}
	return nil
}

// Follow tells emit of all questions that are pending, then that this was all
// (status ok), and then of each that comes or goes, until ctx ends or emit fails.
func (x *Exchange) Follow(ctx context.Context, emit func(*Message) error) error {
	changed := make(chan struct{}, 1)
	defer x.desk.Watch(changed)()
	seen := map[string]bool{}
	for first := true; ; first = false {
		if err := x.tell(seen, emit); err != nil {
			return err
		}
		if first {
			if err := emit(&Message{Status: StatusOK}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			// What ended with the session is told too.
			return errors.Join(ctx.Err(), x.tell(seen, emit))
		case <-changed:
		}
	}
}

// tell emits the difference between what was seen and what is pending.
func (x *Exchange) tell(seen map[string]bool, emit func(*Message) error) error {
	pending := x.desk.Pending()
	now := make(map[string]bool, len(pending))
	for i := range pending {
		now[pending[i].ID] = true
	}
	for id := range seen {
		if now[id] {
			continue
		}
		delete(seen, id)
		if err := emit(&Message{Closed: x.closed(id)}); err != nil {
			return err
		}
	}
	for i := range pending {
		q := &pending[i]
		if seen[q.ID] {
			continue
		}
		seen[q.ID] = true
		if err := emit(&Message{Question: q}); err != nil {
			return err
		}
	}
	return nil
}

func (x *Exchange) closed(id string) *Closed {
	if o, ok := x.desk.Outcome(id); ok {
		return closedBy(id, &o)
	}
	return &Closed{ID: id}
}

func closedBy(id string, o *approval.Outcome) *Closed {
	return &Closed{ID: id, Allow: o.Allow, Scope: o.Scope.String(), By: o.By, Reason: o.Reason}
}

// result is the message of what came of a request.
func result(good string, err error) Message {
	var gone *approval.ClosedError
	switch {
	case err == nil:
		return Message{Status: good}
	case errors.As(err, &gone):
		m := Message{Status: StatusClosed, Error: err.Error(), Closed: &Closed{ID: gone.ID}}
		if gone.Outcome != nil {
			m.Closed = closedBy(gone.ID, gone.Outcome)
		}
		return m
	}
	return refused(err)
}

func refused(err error) Message { return Message{Status: StatusRefused, Error: err.Error()} }

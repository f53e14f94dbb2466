package approval

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed says that a question is not pending: it was answered, its deadline
// passed, or its task is gone. It comes as a [*ClosedError].
var ErrClosed = errors.New("no such question is pending")

// Outcome is how a question ended.
type Outcome struct {
	Answer
	At time.Time
}

// ClosedError is [ErrClosed] with what is known of the question's end.
type ClosedError struct {
	ID string
	// Outcome is nil for a question that never was, or that is long answered.
	Outcome *Outcome
}

// Error says who answered what.
func (e *ClosedError) Error() string {
	if e.Outcome == nil {
		return fmt.Sprintf("question %s: %v", e.ID, ErrClosed)
	}
	return fmt.Sprintf("question %s is answered already: %s", e.ID, e.Outcome)
}

// Is makes it ErrClosed.
func (e *ClosedError) Is(target error) bool { return target == ErrClosed }

// String is the answer in a clause.
func (o *Outcome) String() string {
	text := "denied"
	if o.Allow {
		text = "allowed"
	}
	if o.By != byDeadline && o.By != byDesk {
		text += " " + o.Scope.String()
	}
	text += " by " + o.By
	if o.Reason != "" {
		text += " (" + o.Reason + ")"
	}
	return text
}

// maxOutcomes is how many ended questions a desk remembers, for those who
// answer late.
const maxOutcomes = 1024

// outcomes remembers how the last questions ended.
type outcomes struct {
	byID  map[string]*Outcome
	order []string // a ring, once it is full
	next  int
}

func (o *outcomes) add(id string, a Answer) {
	if o.byID == nil {
		o.byID = map[string]*Outcome{}
	}
	if len(o.order) < maxOutcomes {
		o.order = append(o.order, id)
	} else {
		delete(o.byID, o.order[o.next])
		o.order[o.next] = id
		o.next = (o.next + 1) % maxOutcomes
	}
	o.byID[id] = &Outcome{a, time.Now()}
}

// Outcome is how a question ended, if that is still known.
func (d *Desk) Outcome(id string) (Outcome, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.ended.byID[id]; o != nil {
		return *o, true
	}
	return Outcome{}, false
}

// notPending is the error of a question that is not pending; mu is held.
func (d *Desk) notPending(id string) error { return &ClosedError{ID: id, Outcome: d.ended.byID[id]} }

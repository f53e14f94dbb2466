package policy

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// maxBulk is the most files that a limit on bulk changes may name.
const maxBulk = 10000

// RiskBulk is the Risk of a decision about a change of many files; its answer is
// to be given to [Bulk.Granted] or [Bulk.Refused].
const RiskBulk = "bulk"

// Bulk holds back what changes more than a number of files within a time, from
// the first file that is too many on. It asks once: an answer holds as long as
// the change goes on without a pause as long as the window.
//
// Where the kernel's hooks see what the gate does not they count for both, see
// [Ledger.Join]; they alone can only deny. Else it counts without a lock: the times of the last changes stand in a ring, and a
// change is one too many when the one that many before it is within the window.
type Bulk struct {
	limit  BulkLimit
	hooks  Hooks        // count instead of the ring; nil where nobody else counts
	window int64        // ns
	now    func() int64 // ns since the beginning, never zero
	ring   []atomic.Int64
	next   atomic.Uint64
	// answered is how long the last answer holds, ns; zero is no answer. yes is
	// what it was, always that it holds for the session.
	answered    atomic.Int64
	yes, always atomic.Bool
}

// NewBulk begins to count. A limit that allows counts nothing.
func NewBulk(limit BulkLimit, now func() time.Time) *Bulk {
	began := now()
	return &Bulk{limit: limit, window: int64(limit.Window), now: func() int64 { return int64(now().Sub(began)) + 1 }, ring: make([]atomic.Int64, limit.Files)}
}

// off reports whether nothing is counted any more.
func (b *Bulk) off() bool {
	return b.limit.Action <= event.ActionAllow || b.always.Load()
}

// count takes n changes and says whether they may happen.
func (b *Bulk) count(n int) event.Decision {
	now := b.now()
	if until := b.answered.Load(); until > now {
		b.answered.CompareAndSwap(until, now+b.window)
		if b.yes.Load() {
			return event.Decision{Action: event.ActionAllow}
		}
		d := b.limit.hold()
		d.Action = event.ActionDeny
		return d
	}
	if b.hooks != nil {
		return b.joint(n)
	}
	over := n > len(b.ring)
	for range min(n, len(b.ring)) {
		was := b.ring[(b.next.Add(1)-1)%uint64(len(b.ring))].Swap(now)
		over = over || was != 0 && now-was < b.window
	}
	if over {
		return b.limit.hold()
	}
	return event.Decision{Action: event.ActionAllow}
}

// joint takes n changes to those that the hooks have counted.
func (b *Bulk) joint(n int) event.Decision {
	over, err := b.hooks.Lose(n)
	switch {
	case err != nil:
		d := b.limit.hold()
		d.Action, d.Reason = event.ActionDeny, err.Error()
		return d
	case over:
		return b.limit.hold()
	}
	return event.Decision{Action: event.ActionAllow}
}

// hold is the decision about one change too many.
func (l *BulkLimit) hold() event.Decision {
	return event.Decision{Action: l.Action, Risk: RiskBulk, Rule: l.label(), Reason: reasonBulk}
}

// bulkRule begins the names of limits in decisions.
const bulkRule = commandRule + "bulk: "

const reasonBulk = "many files that were there before are being deleted or overwritten"

func (l *BulkLimit) label() string {
	return fmt.Sprintf(bulkRule+"more than %d files in %v", l.Files, l.Window)
}

// Granted lets the change go on that was asked about: until it pauses, or, with
// session set, all there are in this session.
func (b *Bulk) Granted(session bool) { b.answer(true, session) }

// Refused denies what is left of the change that was asked about, without asking
// for each file.
func (b *Bulk) Refused() { b.answer(false, false) }

func (b *Bulk) answer(yes, session bool) {
	b.yes.Store(yes)
	b.always.Store(yes && session)
	b.answered.Store(b.now() + b.window)
}

package policy

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// rerun is the policies of a session with their memories, which a record fills
// again.
type rerun struct {
	stack   Stack
	ledgers []*Ledger
	// limits are the limits on bulk changes that are the session's own. What they
	// held back stands in the record; another limit counts anew.
	limits []BulkLimit
}

func newRerun(s, own Stack, clock func() time.Time) *rerun {
	r := &rerun{stack: s, limits: make([]BulkLimit, len(s))}
	for i, p := range s {
		l := NewLedger(p, clock)
		if i < len(own) && own[i].BulkLimit() == p.BulkLimit() {
			r.limits[i] = p.BulkLimit()
			l.bulk = NewBulk(BulkLimit{}, clock)
		}
		r.ledgers = append(r.ledgers, l)
	}
	return r
}

// next decides about the next operation, and remembers it. What was held back as
// one of many is held back again.
func (r *rerun) next(e *event.Event, req *event.Request) ruling {
	return r.stack.rule(req, func(i int, req *event.Request) event.Decision {
		limit := &r.limits[i]
		if !strings.HasPrefix(e.Rule, bulkRule) || limit.Files == 0 {
			return r.ledgers[i].Decide(req)
		}
		d := r.stack[i].Decide(req)
		if d.Action == event.ActionAllow && limit.label() == e.Rule {
			d = event.Decision{Action: limit.Action, Rule: e.Rule, Reason: reasonBulk, By: d.By}
		}
		return d
	})
}

// exec decides about an exec as if made said what the session made.
func (r *rerun) exec(req *event.Request, made func(path string) bool) ruling {
	return r.stack.rule(req, func(i int, req *event.Request) event.Decision {
		return r.stack[i].decideExec(req, surroundings{expendable: made})
	})
}

// look is what one policy decides, as far as it depends on no count, and without
// remembering it.
func (r *rerun) look(i int, req *event.Request) event.Decision {
	if req.Op == event.OpExec {
		return r.stack[i].decideExec(req, surroundings{expendable: r.ledgers[i].expendable})
	}
	return r.stack[i].Decide(req)
}

// answered takes an answer about a change of many files to the limits that count
// anew.
func (r *rerun) answered(e *event.Event) {
	if e.Op != event.OpAnswer || !strings.HasPrefix(e.Rule, bulkRule) || e.By == byDesk {
		return
	}
	var answer struct {
		Scope string `json:"scope"`
	}
	_ = json.Unmarshal([]byte(e.Detail), &answer) // without a scope it is for once
	for i, l := range r.ledgers {
		switch {
		case r.limits[i].Files != 0:
		case e.Action == event.ActionAllow:
			l.bulk.Granted(answer.Scope != "" && answer.Scope != scopeOnce)
		default:
			l.bulk.Refused()
		}
	}
}

// What the stream calls an answer for one change, and a question that ended
// without an answer.
const (
	scopeOnce = "once"
	byDesk    = byApprover + "approval"
)

package approval

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// Record is what the events of a question hold besides the operation: as JSON in
// Detail.
type Record struct {
	ID string `json:"id"`
	// Op is the operation that is asked about.
	Op   string `json:"op"`
	Risk string `json:"risk,omitempty"`
	// Deadline is stated by questions, and Also, which are the steps that the answer
	// is for besides: a word, and in quotes the target of a rename or the program of an
	// exec.
	Deadline *time.Time `json:"deadline,omitempty"`
	Also     []string   `json:"also,omitempty"`
	// The rest is stated by answers: how far they reach, how long the question
	// waited in nanoseconds, and for how many tasks it was.
	Scope   string `json:"scope,omitempty"`
	AfterNS int64  `json:"after_ns,omitempty"`
	Waiting int    `json:"waiting,omitempty"`
}

// asked is the event of a question.
func asked(q *Question, engine string) event.Event {
	e := about(q, event.OpAsk, engine, Record{Deadline: &q.Deadline, Also: stepTexts(q.Also)})
	e.Action, e.Reason, e.By, e.Time = event.ActionAsk, q.Reason, "policy:"+q.Profile, q.Asked.UTC()
	return e
}

func stepTexts(steps []event.Request) (out []string) {
	for i := range steps {
		s := &steps[i]
		text := s.Op.String()
		switch s.Op {
		case event.OpRename:
			text += " " + strconv.Quote(s.Target.Path)
		case event.OpExec:
			text += " " + strconv.Quote(s.Object.Path)
		}
		out = append(out, text)
	}
	return out
}

// answered is the event of an answer.
func answered(q *Question, a *Answer, engine string) event.Event {
	now := time.Now()
	r := Record{AfterNS: int64(now.Sub(q.Asked)), Waiting: q.Waiting}
	if a.By != byDeadline && a.By != byDesk {
		r.Scope = a.Scope.String()
	}
	e := about(q, event.OpAnswer, engine, r)
	e.Action, e.Reason, e.By, e.Time = a.action(), a.Reason, a.who(), now.UTC()
	return e
}

// about is an event on a question's operation.
func about(q *Question, op event.Op, engine string, r Record) event.Event {
	req := &q.Request
	r.ID, r.Op, r.Risk = q.ID, req.Op.String(), q.Risk
	text, err := json.Marshal(r)
	if err != nil {
		text = []byte("{}") // it holds nothing that could fail
	}
	e := event.Event{
		BootNS: proc.BootNS(), Engine: engine, Kind: event.KindFact, Op: op, Access: req.Access, Task: req.Task, Object: req.Object, Target: req.Target,
		Rule: q.Rule, Layer: "gate", Detail: string(text),
	}
	if req.Op == event.OpExec {
		e.Task.Argv = req.Argv
	}
	return e
}

func (a *Answer) action() event.Action {
	if a.Allow {
		return event.ActionAllow
	}
	return event.ActionDeny
}

// who is how decisions and events name the one who answered.
func (a *Answer) who() string { return "approver:" + a.By }

// Decide makes a decision of the answer to what a policy asked.
func (a *Answer) Decide(asked event.Decision) event.Decision {
	d := asked
	d.Action, d.By, d.Question = a.action(), a.who(), a.Question
	if a.Reason != "" {
		d.Reason = a.Reason
	}
	return d
}

package approval

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// Version is the version of the questions' JSON form, the field "v".
const Version = 1

// wire is a question in JSON. Operation and Ancestry are events, whose form keeps
// every byte of paths and arguments; those of the ancestry state only their task,
// those of Also their operation, its objects and the arguments of an exec.
// The arguments of an exec are those of the operation's task, as in the stream.
type wire struct {
	V         int           `json:"v"`
	ID        string        `json:"id"`
	Session   string        `json:"session"`
	Asked     time.Time     `json:"asked"`
	Deadline  time.Time     `json:"deadline"`
	Profile   string        `json:"profile,omitempty"`
	Risk      string        `json:"risk,omitempty"`
	Waiting   int           `json:"waiting"`
	Flags     uint64        `json:"flags,omitempty"`
	Mode      uint32        `json:"mode,omitempty"`
	Operation event.Event   `json:"operation"`
	Ancestry  []event.Event `json:"ancestry,omitempty"`
	Also      []event.Event `json:"also,omitempty"`
}

// MarshalJSON is the question as one JSON object.
func (q *Question) MarshalJSON() ([]byte, error) {
	r := &q.Request
	w := wire{
		V: Version, ID: q.ID, Session: q.Session, Asked: q.Asked.UTC(), Deadline: q.Deadline.UTC(), Profile: q.Profile, Risk: q.Risk,
		Waiting: q.Waiting, Flags: r.Flags, Mode: r.Mode,
		Operation: event.Event{
			Session: q.Session, Kind: event.KindRequest, Op: r.Op, Access: r.Access, Task: r.Task, Object: r.Object, Target: r.Target,
			Action: event.ActionAsk, Rule: q.Rule, Reason: q.Reason, Syscall: r.Syscall, Arch: r.Arch,
		},
	}
	if r.Op == event.OpExec {
		w.Operation.Task.Argv = r.Argv
	}
	for _, t := range q.Ancestry {
		w.Ancestry = append(w.Ancestry, event.Event{Task: t})
	}
	for i := range q.Also {
		s := &q.Also[i]
		e := event.Event{Op: s.Op, Access: s.Access, Object: s.Object, Target: s.Target}
		e.Task.Argv, _ = proc.CutArgv(s.Argv)
		w.Also = append(w.Also, e)
	}
	// Marshalled by reference: the events' form hangs on their pointers.
	return json.Marshal(&w)
}

// UnmarshalJSON is the inverse of MarshalJSON, but for the arguments that the
// task of an exec has now: the ancestry ends with them.
func (q *Question) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode question: %w", err)
	}
	if w.V != Version {
		return fmt.Errorf("decode question: version %d, this reeve knows %d", w.V, Version)
	}
	o := &w.Operation
	*q = Question{
		ID: w.ID, Session: w.Session, Asked: w.Asked, Deadline: w.Deadline, Profile: w.Profile, Risk: w.Risk, Waiting: w.Waiting,
		Rule: o.Rule, Reason: o.Reason,
		Request: event.Request{
			Op: o.Op, Access: o.Access, Task: o.Task, Object: o.Object, Target: o.Target, Flags: w.Flags, Mode: w.Mode,
			Syscall: o.Syscall, Arch: o.Arch,
		},
	}
	if o.Op == event.OpExec {
		q.Request.Argv, q.Request.Task.Argv = o.Task.Argv, nil
	}
	for i := range w.Ancestry {
		q.Ancestry = append(q.Ancestry, w.Ancestry[i].Task)
	}
	for i := range w.Also {
		e := &w.Also[i]
		q.Also = append(q.Also, event.Request{Op: e.Op, Access: e.Access, Object: e.Object, Target: e.Target, Argv: e.Task.Argv})
	}
	return nil
}

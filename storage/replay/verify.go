// Package replay reads a recorded session: it verifies the hash chain, rebuilds
// the process tree and the timeline as data, and writes and reads the portable
// file form of a session. What it looks like on a terminal is not its business.
package replay

import (
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Fault says what is wrong with a record.
type Fault string

// The faults.
const (
	// FaultMissing: records Seq to Last are not there.
	FaultMissing Fault = "missing"
	// FaultAltered: the record does not follow from its predecessor: its content,
	// its chain value or its predecessor's is not what was recorded.
	FaultAltered Fault = "altered"
	// FaultOrder: the record stands where a later one belongs, or twice.
	FaultOrder Fault = "out of order"
	// FaultForeign: the record is of another session.
	FaultForeign Fault = "foreign"
	// FaultUnreadable: what is stored is no record any more, or reading failed.
	FaultUnreadable Fault = "unreadable"
)

// Problem is one fault and where it is.
type Problem struct {
	Fault Fault `json:"fault"`
	// Seq is the record; Last is not equal only for a run of missing ones. For
	// an unreadable record, Seq is the first that could not be read. Both are 0
	// for what is no record but belongs to the session.
	Seq  uint64 `json:"seq"`
	Last uint64 `json:"last"`
	// Detail explains, for a person.
	Detail string `json:"detail"`
}

// Report is the result of verifying one session.
type Report struct {
	Session string `json:"session"`
	// Events were read, LastSeq is the largest sequence number.
	Events  uint64 `json:"events"`
	LastSeq uint64 `json:"last_seq"`
	// Ended says that the session's own last record is there. Without it the
	// session crashed or still runs, or its tail was removed: nothing in the
	// session can tell which.
	Ended bool `json:"ended"`
	// Head is the chain value of the last record, in hexadecimal. A copy of it
	// kept elsewhere proves that nothing was removed or rewritten since.
	Head     string    `json:"head"`
	Problems []Problem `json:"problems"`
	// More counts problems beyond the first MaxProblems.
	More int `json:"more,omitempty"`
}

// MaxProblems is how many problems a report names.
const MaxProblems = 1000

// OK reports whether every record is there and unaltered.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// Verifier verifies the records of one session as they come.
type Verifier struct {
	report Report
	chain  *event.Chain
	next   uint64
	broken bool // the predecessor of the next record is not known
	last   [32]byte
}

// NewVerifier is for the session called id.
func NewVerifier(id string) *Verifier {
	return &Verifier{report: Report{Session: id, Problems: []Problem{}}, chain: event.NewChain(id), next: 1}
}

// Add verifies the next record.
func (v *Verifier) Add(e *event.Event) {
	v.report.Events++
	switch {
	case e.Session != v.report.Session:
		v.problem(FaultForeign, e.Seq, e.Seq, "it belongs to session %q", e.Session)
		return
	case e.Seq < v.next:
		v.problem(FaultOrder, e.Seq, e.Seq, "seq %d was expected", v.next)
		return
	case e.Seq > v.next:
		v.problem(FaultMissing, v.next, e.Seq-1, "%d records before seq %d are not there", e.Seq-v.next, e.Seq)
		v.broken = true
	}
	v.next = e.Seq + 1
	v.report.LastSeq = e.Seq
	v.report.Ended = v.report.Ended || e.Kind == event.KindSession && e.Op == event.OpEnd
	err := v.chain.Verify(e)
	switch {
	case v.broken:
		// Its predecessor is among the missing: it vouches for what follows only.
		v.broken = false
	case err != nil:
		v.problem(FaultAltered, e.Seq, e.Seq, "%v", err)
	}
	v.last = e.Chain
}

// Fail notes that reading ended with an error.
func (v *Verifier) Fail(err error) {
	v.problem(FaultUnreadable, v.next, v.next, "%v", err)
}

func (v *Verifier) problem(fault Fault, seq, last uint64, format string, args ...any) {
	if len(v.report.Problems) >= MaxProblems {
		v.report.More++
		return
	}
	v.report.Problems = append(v.report.Problems, Problem{fault, seq, last, fmt.Sprintf(format, args...)})
}

// Report is the result so far.
func (v *Verifier) Report() Report {
	r := v.report
	r.Head = hex.EncodeToString(v.last[:])
	return r
}

// Verify verifies a whole session. lastSeq is the largest sequence number that
// the store's summary states, 0 if there is none: records missing at the end
// are found by it.
func Verify(id string, lastSeq uint64, events iter.Seq2[event.Event, error]) Report {
	v := NewVerifier(id)
	failed := false
	for e, err := range events {
		if err != nil {
			v.Fail(err)
			failed = true
			break
		}
		v.Add(&e)
	}
	if !failed && lastSeq >= v.next {
		v.problem(FaultMissing, v.next, lastSeq, "the last %d records are not there", lastSeq-v.next+1)
	}
	return v.Report()
}

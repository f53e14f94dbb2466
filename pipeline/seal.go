package pipeline

import (
	"fmt"

	"github.com/reeve-audit/reeve/tracer/event"
)

// seal makes one message of the first records of w.batch.
func (w *window) seal() (*message, error) {
	p := w.p
	first := w.batch[0].Seq
	n := 0
	records := w.records[:0]
	var t Totals
	var pieces []event.Origin
	for n < len(w.batch) && n < MaxBatch && len(records) < maxMessage {
		e := &w.batch[n]
		cutOversized(e)
		canonical, err := w.chain.Next(e)
		if err != nil {
			return nil, fmt.Errorf("bug: seal record %d: %w", e.Seq, err)
		}
		if len(canonical) > maxRecord {
			return nil, fmt.Errorf("bug: record %d has %d bytes after it was cut", e.Seq, len(canonical))
		}
		records = event.AppendSealed(records, canonical, &e.Chain)
		t.count(e)
		if e.Origin.Ring != 0 {
			pieces = appendPiece(pieces, e.Origin)
			w.marks.note(e.Origin)
		}
		n++
	}
	w.records = records
	last := w.batch[n-1].Seq
	head := event.AppendBatchHeader(make([]byte, 0, len(records)+64), p.cfg.Session, first, last)
	m := &message{
		id:   (&event.Batch{Session: p.cfg.Session, First: first, Last: last}).ID(),
		data: append(head, records...), last: last, pieces: pieces,
	}
	w.batch = w.batch[n:]
	w.journal(m)
	p.mu.Lock()
	p.totals.add(&t)
	p.totals.Chain = w.chain.Sum()
	p.mu.Unlock()
	return m, nil
}

func (t *Totals) count(e *event.Event) {
	switch e.Kind {
	case event.KindLost:
		t.Lost += e.Count
	case event.KindRequest:
		t.Requests++
	}
	if e.Kind != event.KindRequest {
		return
	}
	switch e.Action {
	case event.ActionAllow:
		t.Allowed++
	case event.ActionAsk:
		t.Asked++
	case event.ActionDeny:
		t.Denied++
	}
}

func (t *Totals) add(o *Totals) {
	t.Requests += o.Requests
	t.Allowed += o.Allowed
	t.Asked += o.Asked
	t.Denied += o.Denied
	t.Lost += o.Lost
}

// The largest texts of a record that is itself too large.
const (
	cutPath = 4096
	cutText = 64 << 10
)

// cutOversized bounds a record: texts are cut, and the full length stated where
// the record has a place for it, else in the text.
func cutOversized(e *event.Event) {
	total := len(e.Detail) + len(e.Rule) + len(e.Reason) + len(e.Task.Exe) + len(e.Task.Cwd) +
		len(e.Object.Path) + len(e.Object.Raw) + len(e.Target.Path) + len(e.Target.Raw)
	argv := 0
	for _, s := range e.Task.Argv {
		argv += len(s) + 1
	}
	if total+8*len(e.Task.Argv)+argv < maxRecord-8192 {
		return
	}
	if argv > cutText || 8*len(e.Task.Argv) > cutText {
		e.Task.ArgvLen = max(e.Task.ArgvLen, uint32(min(argv, 1<<32-1)))
		e.Task.Argv = cutArgv(e.Task.Argv)
	}
	for _, s := range []*string{&e.Detail, &e.Rule, &e.Reason, &e.Task.Exe, &e.Task.Cwd} {
		if len(*s) > cutText {
			*s = fmt.Sprintf("%s… (cut, %d bytes)", (*s)[:cutPath], len(*s))
		}
	}
	for _, o := range []*event.Object{&e.Object, &e.Target} {
		cutField(&o.Path, &o.PathLen)
		cutField(&o.Raw, &o.RawLen)
	}
}

// cutArgv keeps the first arguments, a copy: the caller's slice is its own.
func cutArgv(argv []string) []string {
	var out []string
	for left := cutText; left > 0 && len(out) < len(argv); {
		s := argv[len(out)]
		s = s[:min(len(s), left)]
		left -= len(s) + 8
		out = append(out, s)
	}
	return out
}

func cutField(s *string, full *uint32) {
	if len(*s) > cutText {
		*full = max(*full, uint32(min(len(*s), 1<<32-1)))
		*s = (*s)[:cutPath]
	}
}

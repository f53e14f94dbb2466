package sqlite

import (
	"context"
	"database/sql"

	"github.com/reeve-audit/reeve/tracer/event"
)

// tally is what inserted records add to the summary of their session.
type tally struct {
	start, end                              int64
	events, requests, denied, asked, ending int64
	lost, lastSeq                           int64
}

func (t *tally) add(e *event.Event) {
	if !e.Time.IsZero() {
		ns := e.Time.UnixNano()
		if t.start == 0 || ns < t.start {
			t.start = ns
		}
		t.end = max(t.end, ns)
	}
	t.events++
	t.lastSeq = max(t.lastSeq, int64(e.Seq))
	switch e.Kind {
	case event.KindRequest:
		t.requests++
		switch e.Action {
		case event.ActionDeny:
			t.denied++
		case event.ActionAsk:
			t.asked++
		}
	case event.KindLost:
		t.lost += int64(min(e.Count, uint64(1<<61-t.lost)))
	case event.KindSession:
		if e.Op == event.OpEnd {
			t.ending = 1
		}
	}
}

func (t *tally) update(ctx context.Context, update *sql.Stmt, sid int64) error {
	if t.events == 0 {
		return nil
	}
	if t.start == 0 {
		t.start = 1<<63 - 1
	}
	_, err := update.ExecContext(ctx,
		t.start, t.end, t.events, t.lastSeq, t.requests, t.denied, t.asked, t.lost, t.ending, sid)
	return err
}

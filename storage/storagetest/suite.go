// Package storagetest is the suite that every store passes: what storage.Store
// promises, tried on real records.
package storagetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// Harness is a kind of store under test.
type Harness struct {
	// Open opens the store called name, the same one for the same name, and
	// closes it with the test.
	Open func(t *testing.T, name string) storage.Store
	// Alter changes one column of one stored record behind the store's back, as
	// somebody with the file or the server's password could. The column is named
	// as in event.proto.
	Alter func(t *testing.T, name, session string, seq uint64, column string)
	// Drop removes one stored record behind the store's back.
	Drop func(t *testing.T, name, session string, seq uint64)
}

// Run holds a store to the promises of package storage.
func Run(t *testing.T, h Harness) {
	t.Run("RoundTrip", h.roundTrip)
	t.Run("Repetition", h.repetition)
	t.Run("ConcurrentWriters", h.concurrentWriters)
	t.Run("Queries", h.queries)
	t.Run("Sessions", h.sessions)
	t.Run("Remove", h.remove)
	t.Run("Cancel", h.cancel)
	t.Run("Tamper", h.tamper)
}

func mustAppend(t *testing.T, s storage.Store, d event.Delivery) {
	t.Helper()
	if err := s.Append(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, s storage.Store, q storage.Query) []event.Event {
	t.Helper()
	var out []event.Event
	for e, err := range s.Events(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// equal compares records and says which is the first that differs.
func equal(t *testing.T, got, want []event.Event) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("record %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

func (h Harness) roundTrip(t *testing.T) {
	s := h.Open(t, "roundtrip")
	b := Records(t, "01B", 3000)
	a := Records(t, "01A", 2500)
	mustAppend(t, s, Split(b[:1500], 512, 1))
	mustAppend(t, s, Split(a, 100, 4))
	mustAppend(t, s, Split(b[1500:], 1, 29))
	equal(t, collect(t, s, storage.Query{Session: "01A"}), a)
	equal(t, collect(t, s, storage.Query{Session: "01B"}), b)
	equal(t, collect(t, s, storage.Query{}), slices.Concat(a, b))
	// Another handle, as another process would have.
	equal(t, collect(t, h.Open(t, "roundtrip"), storage.Query{Session: "01B"}), b)
}

func (h Harness) repetition(t *testing.T) {
	s := h.Open(t, "repetition")
	want := Records(t, "01R", 1000)
	d := Split(want[:600], 50, 1)
	mustAppend(t, s, d)
	mustAppend(t, s, d)
	// The same records in other bounds, as after a restart.
	mustAppend(t, s, Split(want[:700], 70, 1))
	mustAppend(t, s, Split(want[500:], 33, 9))
	// Other content for a place that is taken does not get in.
	forged := slices.Clone(want[:10])
	for i := range forged {
		forged[i].Rule = "forged"
	}
	mustAppend(t, s, Split(forged, 10, 100))
	equal(t, collect(t, s, storage.Query{Session: "01R"}), want)
	v, err := s.Session(t.Context(), "01R")
	if err != nil || v.Events != 1000 || v.LastSeq != 1000 {
		t.Errorf("summary %+v, %v", v, err)
	}
	mustAppend(t, s, event.Delivery{})
}

func (h Harness) concurrentWriters(t *testing.T) {
	shared := Records(t, "01S", 800)
	var wg sync.WaitGroup
	for i := range 4 {
		s := h.Open(t, "concurrent")
		own := Records(t, "01W"+string(rune('A'+i)), 400)
		wg.Go(func() {
			for n := 0; n < 400; n += 100 {
				if err := s.Append(t.Context(), Split(own[n:n+100], 40, uint64(n+1))); err != nil {
					t.Error(err)
				}
				if err := s.Append(t.Context(), Split(shared[2*n:2*n+200], 25, uint64(n+1))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := h.Open(t, "concurrent")
	equal(t, collect(t, s, storage.Query{Session: "01S"}), shared)
	for i := range 4 {
		id := "01W" + string(rune('A'+i))
		equal(t, collect(t, s, storage.Query{Session: id}), Records(t, id, 400))
	}
}

func (h Harness) queries(t *testing.T) {
	s := h.Open(t, "queries")
	all := Records(t, "01Q", 4000)
	mustAppend(t, s, Split(all, 512, 1))
	middle := all[2000:]
	for middle[0].Time.IsZero() {
		middle = middle[1:]
	}
	mid := middle[0].Time
	glob, err := storage.NewGlob("/ws/dir-[12]/*.env")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		q    storage.Query
		keep func(*event.Event) bool
	}{
		"after":   {storage.Query{AfterSeq: 3990}, func(e *event.Event) bool { return e.Seq > 3990 }},
		"ops":     {storage.Query{Ops: []event.Op{event.OpOpen, event.OpExec}}, func(e *event.Event) bool { return e.Op == event.OpOpen || e.Op == event.OpExec }},
		"op none": {storage.Query{Ops: []event.Op{event.OpNone}}, func(e *event.Event) bool { return e.Op == event.OpNone }},
		"actions": {storage.Query{Actions: []event.Action{event.ActionDeny}}, func(e *event.Event) bool { return e.Action == event.ActionDeny }},
		"kinds":   {storage.Query{Kinds: []event.Kind{event.KindLost}}, func(e *event.Event) bool { return e.Kind == event.KindLost }},
		"path":    {storage.Query{Path: "/ws/dir-[12]/*.env"}, glob.MatchEvent},
		"since":   {storage.Query{Since: mid}, func(e *event.Event) bool { return !e.Time.IsZero() && !e.Time.Before(mid) }},
		"until":   {storage.Query{Since: time.Unix(1, 0), Until: mid}, func(e *event.Event) bool { return !e.Time.IsZero() && e.Time.Before(mid) }},
		"together": {storage.Query{AfterSeq: 100, Actions: []event.Action{event.ActionDeny, event.ActionAsk}, Path: "/ws/**", Since: mid},
			func(e *event.Event) bool {
				return e.Seq > 100 && e.Action >= event.ActionAsk && !e.Time.Before(mid) &&
					(len(e.Object.Path) > 4 && e.Object.Path[:4] == "/ws/" || len(e.Target.Path) > 4 && e.Target.Path[:4] == "/ws/")
			}},
		"nothing": {storage.Query{Path: "/nowhere/**"}, func(*event.Event) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []event.Event
			for i := range all {
				if tc.keep(&all[i]) {
					want = append(want, all[i])
				}
			}
			q := tc.q
			q.Session = "01Q"
			equal(t, collect(t, s, q), want)
			if len(want) > 5 {
				q.Limit = 5
				equal(t, collect(t, s, q), want[:5])
			}
		})
	}
	if got := collect(t, s, storage.Query{Session: "01NONE"}); len(got) > 0 {
		t.Errorf("an unknown session has %d records", len(got))
	}
	for _, err := range s.Events(t.Context(), storage.Query{AfterSeq: 1}) {
		if err == nil {
			t.Error("after-seq without a session was answered")
		}
	}
}

func (h Harness) sessions(t *testing.T) {
	s := h.Open(t, "sessions")
	if got, err := s.Sessions(t.Context(), 0); err != nil || len(got) != 0 {
		t.Fatalf("an empty store has %v, %v", got, err)
	}
	if _, err := s.Session(t.Context(), "last"); !errors.Is(err, storage.ErrNoSession) {
		t.Errorf("last of none: %v", err)
	}
	for _, id := range []string{"01AB", "01AA", "01B"} {
		mustAppend(t, s, Split(session(t, id), 4, 1))
	}
	all, err := s.Sessions(t.Context(), 0)
	if err != nil || len(all) != 3 || all[0].ID != "01AA" || all[2].ID != "01B" {
		t.Fatalf("sessions %+v, %v", all, err)
	}
	latest, err := s.Sessions(t.Context(), 2)
	if err != nil || len(latest) != 2 || latest[0].ID != "01AB" {
		t.Errorf("the latest two are %+v, %v", latest, err)
	}
	want := storage.Session{ID: "01B", Start: time.Unix(1780000001, 5).UTC(), End: time.Unix(1780000006, 5).UTC(),
		Events: 6, LastSeq: 6, Requests: 3, Denied: 1, Asked: 1, Lost: 7, Ended: true, Engine: "unotify", Detail: `{"argv":["true"]}`}
	if !reflect.DeepEqual(all[2], want) {
		t.Errorf("summary\n got %+v\nwant %+v", all[2], want)
	}
	for id, want := range map[string]string{"last": "01B", "01B": "01B", "01AA": "01AA", "01": "", "01A": "", "x": "", "": "", "01_": ""} {
		got, err := s.Session(t.Context(), id)
		if got.ID != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, storage.ErrNoSession) {
			t.Errorf("Session(%q) = %q, %v; want %q", id, got.ID, err, want)
		}
	}
}

// session is a small session with one of everything that summaries count.
func session(t *testing.T, id string) []event.Event {
	t.Helper()
	records := []event.Event{
		{Kind: event.KindSession, Op: event.OpStart, Engine: "unotify", Detail: `{"argv":["true"]}`},
		{Kind: event.KindRequest, Op: event.OpOpen, Action: event.ActionAllow},
		{Kind: event.KindRequest, Op: event.OpOpen, Action: event.ActionDeny},
		{Kind: event.KindRequest, Op: event.OpExec, Action: event.ActionAsk},
		{Kind: event.KindLost, Op: event.OpLoss, Count: 7},
		{Kind: event.KindSession, Op: event.OpEnd},
	}
	chain := event.NewChain(id)
	for i := range records {
		e := &records[i]
		e.Session, e.Seq, e.Time = id, uint64(i+1), time.Unix(1780000001+int64(i), 5).UTC()
		if _, err := chain.Next(e); err != nil {
			t.Fatal(err)
		}
	}
	return records
}

func (h Harness) remove(t *testing.T) {
	s := h.Open(t, "remove")
	keep, drop := Records(t, "01K", 300), Records(t, "01L", 11000)
	mustAppend(t, s, Split(keep, 512, 1))
	mustAppend(t, s, Split(drop, 512, 2))
	for range 2 {
		if err := s.Remove(t.Context(), "01L"); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, collect(t, s, storage.Query{}), keep)
	if _, err := s.Session(t.Context(), "01L"); !errors.Is(err, storage.ErrNoSession) {
		t.Errorf("after Remove: %v", err)
	}
}

func (h Harness) cancel(t *testing.T) {
	s := h.Open(t, "cancel")
	mustAppend(t, s, Split(Records(t, "01C", 5000), 512, 1))
	n := 0
	for _, err := range s.Events(t.Context(), storage.Query{Session: "01C"}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Append(ctx, Split(Records(t, "01D", 10), 10, 1)); err == nil {
		t.Error("Append with a context that has ended")
	}
	var last error
	for _, err := range s.Events(ctx, storage.Query{Session: "01C"}) {
		last = err
	}
	if last == nil {
		t.Error("Events with a context that has ended gave no error")
	}
	mustAppend(t, s, Split(Records(t, "01D", 10), 10, 1)) // the store still works
}

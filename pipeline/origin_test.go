package pipeline_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/tracer/event"
)

// ledger is a journal, and hears acks.
type ledger struct {
	mu    sync.Mutex
	notes map[uint64][]event.Origin
	acked []event.Origin
}

func (l *ledger) note(last uint64, marks []event.Origin) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notes == nil {
		l.notes = map[uint64][]event.Origin{}
	}
	l.notes[last] = slices.Clone(marks)
	return nil
}

func (l *ledger) ack(pieces []event.Origin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = append(l.acked, pieces...)
}

// bytes is how much of a ring is acked.
func (l *ledger) bytes(ring uint32) (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.acked {
		if p.Ring == ring {
			n += p.To - p.From
		}
	}
	return n
}

// fromRing is the nth record of a ring, 16 bytes long there.
func fromRing(ring, inner uint32, n int) event.Event {
	return event.Event{
		Kind: event.KindRequest, Op: event.OpOpen, HoldNS: uint64(n),
		Origin: event.Origin{Ring: ring, Inner: inner, From: uint64(16 * n), To: uint64(16*n + 16)},
	}
}

// TestOrigins: each message is journaled before it is published with all that was
// recorded of the rings up to its last record; a piece is acked when the bus has it,
// and not before.
func TestOrigins(t *testing.T) {
	bus, l := newFakeBus(), &ledger{}
	bus.hold = true
	p, _ := start(t, pipeline.PublisherConfig{Journal: l.note, Acked: l.ack})
	const each = 700
	for n := range each {
		p.Record(fromRing(1, 0, n))
		p.Record(fromRing(2, uint32(n%2), n))
		p.Record(event.Event{Kind: event.KindSession, Op: event.OpAsk}) // from no ring
	}
	p.Attach(bus)
	deadline := time.Now().Add(5 * time.Second)
	for {
		bus.mu.Lock()
		published := len(bus.order)
		bus.mu.Unlock()
		if published >= 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages", published)
		}
		time.Sleep(time.Millisecond)
	}
	if len(l.acked) > 0 {
		t.Error("acked before the bus did")
	}
	bus.release()
	mustClose(t, p)
	for ring := uint32(1); ring <= 2; ring++ {
		if got := l.bytes(ring); got != 16*each {
			t.Errorf("%d bytes of ring %d are acked, want %d", got, ring, 16*each)
		}
	}
	want := map[[2]uint32]uint64{}
	for _, e := range bus.events(t) {
		seq := e.Seq - 1
		n := seq / 3
		switch seq % 3 {
		case 0:
			want[[2]uint32{1, 0}] = 16*n + 16
		case 1:
			want[[2]uint32{2, uint32(n % 2)}] = 16*n + 16
		}
		marks, noted := l.notes[e.Seq]
		if !noted {
			continue
		}
		delete(l.notes, e.Seq)
		for _, m := range marks {
			if key := [2]uint32{m.Ring, m.Inner}; m.To != want[key] || m.From != 16*uint64(m.Inner) {
				t.Errorf("after record %d: %+v, want up to %d", e.Seq, m, want[key])
			}
		}
		if len(marks) != 3 {
			t.Errorf("after record %d: %d marks", e.Seq, len(marks))
		}
	}
	if len(l.notes) > 0 {
		t.Errorf("journaled, and not published: %v", l.notes)
	}
}

// TestManyInside: of more sessions inside than a journal takes the first are left
// out, and never the session's own.
func TestManyInside(t *testing.T) {
	bus, l := newFakeBus(), &ledger{}
	p, _ := start(t, pipeline.PublisherConfig{Journal: l.note})
	p.Attach(bus)
	for n := range 100 {
		p.Record(fromRing(1, uint32(n), n))
		p.Record(fromRing(2, 0, n))
	}
	mustClose(t, p)
	marks := l.notes[200]
	if len(marks) != pipeline.MaxMarks || marks[0].Inner != 0 || marks[1].Ring != 2 || marks[len(marks)-1].Inner != 99 {
		t.Errorf("%d marks: %+v", len(marks), marks)
	}
}

// TestGoesOn: a publisher that goes on with a session leaves no seam in it.
func TestGoesOn(t *testing.T) {
	bus, l := newFakeBus(), &ledger{}
	p, _ := start(t, pipeline.PublisherConfig{Journal: l.note})
	p.Attach(bus)
	for n := range 600 {
		p.Record(fromRing(1, 0, n))
	}
	before := mustClose(t, p)
	p, _ = start(t, pipeline.PublisherConfig{After: before.Acked, Chain: before.Chain, Marks: l.notes[600], Journal: l.note})
	p.Attach(bus)
	p.Record(fromRing(1, 0, 600))
	p.Record(fromRing(1, 0, 590)) // which was not known to be there
	after := mustClose(t, p)
	if events := bus.events(t); len(events) != 602 || after.Acked != 602 || after.Chain != events[601].Chain {
		t.Errorf("%d events, %+v", len(events), after)
	}
	if m := l.notes[602]; len(m) != 1 || m[0].From != 0 || m[0].To != 16*601 {
		t.Errorf("marks %+v", m)
	}
}

// TestRingWaits: what is in a ring waits there for the bus; it is not lost for want
// of room in memory, whatever the audit mode.
func TestRingWaits(t *testing.T) {
	bus := newFakeBus()
	p, _ := start(t, pipeline.PublisherConfig{Queue: 64})
	const total = 500
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range total {
			p.Record(fromRing(1, 0, n))
		}
	}()
	select {
	case <-done:
		t.Fatal("nobody took the records, and nobody waited")
	case <-time.After(20 * time.Millisecond):
	}
	p.Attach(bus)
	<-done
	if totals := mustClose(t, p); totals.Acked != total || totals.Lost != 0 {
		t.Errorf("%+v", totals)
	}
}

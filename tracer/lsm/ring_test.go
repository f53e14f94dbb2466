package lsm

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// count counts what it is told.
type count struct{ n, lost atomic.Int64 }

func (c *count) Access(Access) { c.n.Add(1) }
func (c *count) Lost(l Lost)   { c.lost.Add(int64(l.Count)) }

// TestRingAccounts: of what the hooks' code records through a ring that cannot take
// it all each record is either handed on or counted.
func TestRingAccounts(t *testing.T) {
	j := newJudge(t)
	var got count
	const times = 100_000 // more than the ring takes, and nobody reads yet
	if _, err := j.Ask(Question{Path: "/etc/passwd", Need: event.AccessRead, Times: times, Record: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Records(ctx, &got); err != nil {
		t.Fatal(err)
	}
	if n, lost := got.n.Load(), got.lost.Load(); n+lost != times || n == 0 || lost == 0 {
		t.Errorf("%d handed on, %d lost, of %d", n, lost, times)
	}
}

// BenchmarkRing is how many records a second go from the hooks' code through the
// ring and the decoder, and how many of them are lost, without what becomes of
// them then. The bench of the whole way is in tests/bench.
func BenchmarkRing(b *testing.B) {
	j := newJudge(b)
	var got count
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- j.Records(ctx, &got) }()
	const times = 20000
	sent := int64(0)
	began := time.Now()
	for b.Loop() {
		if _, err := j.Ask(Question{Path: "/usr/lib/x86_64-linux-gnu/libc.so.6", Need: event.AccessRead, Times: times, Record: true}); err != nil {
			b.Fatal(err)
		}
		sent += times
	}
	took := time.Since(began)
	cancel()
	if err := errors.Join(<-done); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(got.n.Load())/took.Seconds(), "records/s")
	b.ReportMetric(float64(sent-got.n.Load())/float64(sent), "lost")
}

package lsm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/ring"
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

// keeper keeps where records stood, and acks them when it is told.
type keeper struct {
	count
	mu   sync.Mutex
	read []event.Origin
}

func (k *keeper) Access(a Access) {
	k.count.Access(a)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read = append(k.read, a.Origin)
}

func (k *keeper) ack(set *ring.Set) {
	k.mu.Lock()
	defer k.mu.Unlock()
	set.Ack(k.read)
	k.read = nil
}

// TestRingKeeps: what was read takes room in the kernel's ring until it is acked,
// and of what finds none each record is counted. Once all is acked the kernel wakes
// the reader again.
func TestRingKeeps(t *testing.T) {
	j := newJudge(t)
	var got keeper
	var set ring.Set
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.RecordsKept(ctx, &set, 1, &got) }()
	ask := func(times int) {
		if _, err := j.Ask(Question{Path: "/etc/passwd", Need: event.AccessRead, Times: times, Record: true}); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(n int64) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); got.n.Load()+got.lost.Load() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d handed on and %d lost, of %d", got.n.Load(), got.lost.Load(), n)
			}
		}
	}
	const many = 100_000 // more than the ring takes
	ask(many / 2)
	time.Sleep(20 * time.Millisecond) // for some of it to be read, which makes no room
	ask(many / 2)
	wait(many)
	full := got.n.Load()
	if most := int64(DefaultFlowBytes / (recordSize + 8 + len("/etc/passwd"))); full > most || got.lost.Load() == 0 {
		t.Errorf("%d records were handed on, of which none was acked: the ring takes %d", full, most)
	}
	got.ack(&set)
	for n := range int64(100) {
		ask(1)
		wait(many + n + 1)
		if n%3 == 0 { // the next time nothing waits, or something does
			got.ack(&set)
		}
	}
	if got.n.Load() != full+100 {
		t.Errorf("%d more handed on after all was acked, want 100", got.n.Load()-full)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
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

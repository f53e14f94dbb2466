package lsm

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/reeve-audit/reeve/tracer/event"
)

// count counts what it is told.
type count struct{ n atomic.Int64 }

func (c *count) Access(Access) { c.n.Add(1) }
func (c *count) Lost(Lost)     {}

// BenchmarkRing is how many records a second go from the hooks' code through the
// ring and the decoder, and how many of them are lost, without what becomes of
// them then.
func BenchmarkRing(b *testing.B) {
	j := newJudge(b)
	ring, err := ringbuf.NewReader(j.objects.Flow)
	if err != nil {
		b.Fatal(err)
	}
	defer ring.Close()
	var got count
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- read(ctx, ring, &got, func() error { return nil }, nil) }()
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

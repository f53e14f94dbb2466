package bus_test

import (
	"path/filepath"
	"testing"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/tracer/event"
)

// BenchmarkCollectSmall collects messages of one record each, the shape of a
// strict session.
func BenchmarkCollectSmall(b *testing.B) {
	l, err := bus.Open(b.Context(), bus.Config{Dir: filepath.Join(b.TempDir(), "01B")})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	chain := event.NewChain("01B")
	window := make(chan struct{}, 256)
	for i := range b.N {
		e := event.Event{Session: "01B", Seq: uint64(i + 1), Kind: event.KindRequest}
		if _, err := chain.Next(&e); err != nil {
			b.Fatal(err)
		}
		batch := event.Batch{Session: "01B", First: e.Seq, Last: e.Seq, Events: []event.Event{e}}
		data, err := batch.AppendBinary(nil)
		if err != nil {
			b.Fatal(err)
		}
		window <- struct{}{}
		l.Publish(batch.ID(), data, func(err error) {
			if err != nil {
				b.Error(err)
			}
			<-window
		})
	}
	for range cap(window) {
		window <- struct{}{}
	}
	b.ResetTimer()
	source, err := l.Consume(b.Context(), bus.StoreConsumer, bus.PositionMemory)
	if err != nil {
		b.Fatal(err)
	}
	store := &memory{}
	c, err := pipeline.NewCollector(pipeline.CollectorConfig{Source: source, Store: store})
	if err != nil {
		b.Fatal(err)
	}
	c.Stop()
	if err := c.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	if c.Stored() != uint64(b.N) {
		b.Fatalf("%d of %d", c.Stored(), b.N)
	}
}

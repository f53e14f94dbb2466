package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/storage/sqlite"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/ring"
)

// The way of the hooks' records, which cannot be measured with hooks where those
// do not load: the same code judges paths and writes the same records into the
// same ring, at a rate that is asked for, for some seconds. It is read once as far
// as the record in Go, and once all the way to the default store.

// ringSeconds is for how long each rate is kept up.
const ringSeconds = 5

// rates are the records a second that are asked for; 0 is as fast as it goes.
var (
	decodeRates = []int{200_000, 500_000, 0}
	storeRates  = []int{25_000, 50_000, 100_000, 200_000}
)

func kernelRing() error {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "bench: the kernel's ring left out: not root")
		return nil
	}
	fmt.Printf("\n| kernel's ring, for %d s | records a second asked for | arrived a second | lost | of them in the ring |\n|---|---|---|---|---|\n", ringSeconds)
	for _, rate := range decodeRates {
		var c arrivals
		sent, took, err := produce(rate, &c, &c.set, func(time.Time) error { return nil })
		if err != nil {
			return err
		}
		report("to the record in Go", rate, sent, uint64(c.n.Load()), uint64(c.lost.Load()), took)
	}
	for _, rate := range storeRates {
		if err := ringToStore(rate); err != nil {
			return fmt.Errorf("ring to store: %w", err)
		}
	}
	return nil
}

func report(way string, rate int, sent, arrived, inRing uint64, took time.Duration) {
	asked := "as fast as it goes"
	if rate > 0 {
		asked = fmt.Sprint(rate)
	}
	lost := sent - arrived
	fmt.Printf("| %s | %s | %.0f | %d (%.2g %%) | %d |\n", way, asked, float64(arrived)/took.Seconds(), lost, 100*float64(lost)/float64(sent), inRing)
}

// arrivals counts, and gives back what a message would hold at a time.
type arrivals struct {
	n, lost atomic.Int64
	set     ring.Set
	piece   event.Origin
}

func (a *arrivals) Access(r lsm.Access) {
	if n := a.n.Add(1); n%pipeline.MaxBatch == 1 {
		a.set.Ack([]event.Origin{a.piece})
		a.piece = r.Origin
	}
	a.piece.To = r.Origin.To
}

func (a *arrivals) Lost(l lsm.Lost) { a.lost.Add(int64(l.Count)) }

// produce has the kernel record at a rate and hands the records on; then it calls
// finish with the time of the beginning. took is the time from then until finish
// has returned. What was read stays in the kernel's ring until it is acked in set.
func produce(rate int, to lsm.Sink, set *ring.Set, finish func(began time.Time) error) (sent uint64, took time.Duration, err error) {
	j, err := lsm.NewJudge(&lsm.Rules{Planes: []lsm.Plane{{Need: event.AccessRead, Outcomes: []lsm.Outcome{{Read: event.ActionAllow}}}}})
	if err != nil {
		return 0, 0, err
	}
	defer j.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reading := make(chan error, 1)
	go func() { reading <- j.RecordsKept(ctx, set, 1, to) }()
	const tick = 2 * time.Millisecond
	began := time.Now()
	for n := 0; time.Since(began) < ringSeconds*time.Second; n++ {
		burst := 1000
		if rate > 0 {
			due := uint64(time.Since(began).Seconds() * float64(rate))
			if burst = int(due - sent); burst == 0 {
				time.Sleep(tick)
				continue
			}
		}
		path := fmt.Sprintf("/usr/lib/x86_64-linux-gnu/libexample-%d.so.6", n%100)
		if _, err := j.Ask(lsm.Question{Path: path, Need: event.AccessRead, Times: burst, Record: true}); err != nil {
			return 0, 0, err
		}
		sent += uint64(burst)
		if rate > 0 {
			time.Sleep(tick)
		}
	}
	cancel() // what the ring holds is handed on still
	err = errors.Join(<-reading, finish(began))
	return sent, time.Since(began), err
}

// both hands on and counts what the ring lost.
type both struct {
	lsm.Sink
	lost atomic.Int64
}

func (b *both) Lost(l lsm.Lost) {
	b.lost.Add(int64(l.Count))
	b.Sink.Lost(l)
}

// allower decides nothing: what is measured is allowed.
type allower struct{}

func (allower) Decide(*event.Request) event.Decision {
	return event.Decision{Action: event.ActionAllow, Rule: "/usr", By: "policy:bench"}
}

func (allower) CheckContent(*event.Request, []byte) event.Decision {
	return event.Decision{Action: event.ActionAllow}
}

// ringToStore takes the records as a session does: events, the chain, the
// bus in this process, the collector, SQLite.
func ringToStore(rate int) (err error) {
	dir, err := os.MkdirTemp("", "bench-ring")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const id = "01J00000000000000000000000"
	local, err := bus.Open(ctx, bus.Config{Dir: filepath.Join(dir, "bus")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	store, err := sqlite.New(filepath.Join(dir, "store.db"), sqlite.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	source, err := local.Consume(ctx, "collect", bus.PositionMemory)
	if err != nil {
		return err
	}
	collector, err := pipeline.NewCollector(pipeline.CollectorConfig{Source: source, Store: store, Trim: local.Trim})
	if err != nil {
		return err
	}
	var set ring.Set
	journal := tracer.Journal(dir)
	defer func() { err = errors.Join(err, journal.Close()) }()
	pub, err := pipeline.NewPublisher(pipeline.PublisherConfig{Session: id, Journal: journal.Note, Acked: set.Ack})
	if err != nil {
		return err
	}
	pub.Attach(local)
	var group errgroup.Group
	group.Go(func() error { return pub.Run(ctx) })
	group.Go(func() error { return collector.Run(ctx) })
	sink := &both{Sink: tracer.NewSink(allower{}, pub)}
	var totals pipeline.Totals
	var acked time.Duration
	sent, took, err := produce(rate, sink, &set, func(began time.Time) error {
		var err error
		totals, err = pub.Close(ctx)
		acked = time.Since(began)
		collector.Stop()
		return errors.Join(err, group.Wait())
	})
	if err != nil {
		return err
	}
	if stored := collector.Stored(); stored != totals.Events || totals.Requests+totals.Lost != sent {
		return fmt.Errorf("%d of %d records are stored; %d operations and %d lost of %d are told", stored, totals.Events, totals.Requests, totals.Lost, sent)
	}
	report("to the bus, acknowledged", rate, sent, totals.Requests, uint64(sink.lost.Load()), acked)
	report("to the store", rate, sent, totals.Requests, uint64(sink.lost.Load()), took)
	return nil
}

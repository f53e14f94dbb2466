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
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/storage/sqlite"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/ring"
)

// The way of the hooks' records, which cannot be measured with hooks where those
// do not load: the same code judges paths and writes the same records into the
// same ring, at a rate that is asked for, for some seconds. It is read once as far
// as the record in Go, and once all the way to the default store. There the paths
// are those of many files, and what the witness tells comes between, see traffic.

// rates are the records a second that are asked for; 0 is as fast as it goes.
var (
	decodeRates = []int{200_000, 500_000, 0}
	storeRates  = []int{50_000, 100_000, 200_000, 250_000}
)

// ringBench keeps each rate up for some time, the same for all.
type ringBench struct {
	lasts time.Duration
	rates []int // to the store
}

func (b ringBench) run() error {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "bench: the kernel's ring left out: not root")
		return nil
	}
	fmt.Printf("\n| kernel's ring, for %v | records a second asked for | arrived a second | lost | of them in the ring | after the last, ms | CPU a record, all of it, µs |\n|---|---|---|---|---|---|---|\n", b.lasts)
	if len(b.rates) == 0 {
		b.rates = storeRates
		for _, rate := range decodeRates {
			var c arrivals
			r := result{way: "to the record in Go", rate: rate}
			if err := b.produce(&r, &c, &c.set, func(time.Time) error { return nil }); err != nil {
				return err
			}
			r.arrived, r.inRing = uint64(c.n.Load()), uint64(c.lost.Load())
			r.print()
		}
	}
	for _, rate := range b.rates {
		if err := b.toStore(rate); err != nil {
			return fmt.Errorf("ring to store: %w", err)
		}
	}
	return nil
}

// result is what came of one rate.
type result struct {
	way                   string
	rate                  int
	sent, arrived, inRing uint64
	// took is the time from the first record until all have arrived, made until the
	// last one was made; cpu is what this process and the kernel for it used.
	took, made, cpu time.Duration
}

func (r *result) print() {
	asked := "as fast as it goes"
	if r.rate > 0 {
		asked = fmt.Sprint(r.rate)
	}
	lost := r.sent - r.arrived
	fmt.Printf("| %s | %s | %.0f | %d (%.2g %%) | %d | %d | %.1f |\n", r.way, asked, float64(r.arrived)/r.took.Seconds(), lost,
		100*float64(lost)/float64(r.sent), r.inRing, (r.took - r.made).Milliseconds(), r.cpu.Seconds()*1e6/float64(r.sent))
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
// finish with the time of the beginning, which returns when all have arrived. What
// was read stays in the kernel's ring until it is acked in set.
func (b ringBench) produce(r *result, to lsm.Sink, set *ring.Set, finish func(began time.Time) error) error {
	j, err := lsm.NewJudge(&lsm.Rules{Planes: []lsm.Plane{{Need: event.AccessRead, Outcomes: []lsm.Outcome{{Read: event.ActionAllow}}}}})
	if err != nil {
		return err
	}
	defer j.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reading := make(chan error, 1)
	go func() { reading <- j.RecordsKept(ctx, set, 1, to) }()
	const tick = 2 * time.Millisecond
	used, began := cpuTime(), time.Now()
	for n := 0; time.Since(began) < b.lasts; n++ {
		burst := 1000
		if r.rate > 0 {
			due := uint64(time.Since(began).Seconds() * float64(r.rate))
			if burst = int(due - r.sent); burst == 0 {
				time.Sleep(tick)
				continue
			}
		}
		path := fmt.Sprintf("/usr/lib/x86_64-linux-gnu/libexample-%d.so.6", n%100)
		if _, err := j.Ask(lsm.Question{Path: path, Need: event.AccessRead, Times: burst, Record: true}); err != nil {
			return err
		}
		r.sent += uint64(burst)
		if r.rate > 0 {
			time.Sleep(tick)
		}
	}
	r.made = time.Since(began)
	cancel() // what the ring holds is handed on still
	err = errors.Join(<-reading, finish(began))
	r.took, r.cpu = time.Since(began), cpuTime()-used
	return err
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

// decider names the rules of what was recorded, as in a session under the profile
// that is reeve's own.
func decider() (*policy.Policy, error) {
	return policy.Load(nil, policy.DefaultProfile, policy.Host{Home: "/root", User: "root", Workspaces: []string{"/srv/ws"}, Tmp: "/tmp/reeve", StateDir: "/var/lib/reeve"})
}

// toStore takes the records as a session does: events, the chain, the bus in this
// process, the collector, SQLite.
func (b ringBench) toStore(rate int) (err error) {
	dir, err := os.MkdirTemp("", "bench-ring")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rules, err := decider()
	if err != nil {
		return err
	}
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
	sink := newTraffic(&both{Sink: tracer.NewSink(rules, pub)}, pub)
	var totals pipeline.Totals
	var acked time.Duration
	r := result{way: "to the store", rate: rate}
	err = b.produce(&r, sink, &set, func(began time.Time) error {
		var err error
		totals, err = pub.Close(ctx)
		acked = time.Since(began)
		collector.Stop()
		return errors.Join(err, group.Wait())
	})
	if err != nil {
		return err
	}
	r.sent += sink.facts
	if stored := collector.Stored(); stored != totals.Events || totals.Lost == 0 && totals.Events != r.sent || totals.Requests+sink.facts+totals.Lost < r.sent {
		return fmt.Errorf("%d of %d records are stored; %d operations, %d facts and %d lost of %d are told",
			stored, totals.Events, totals.Requests, sink.facts, totals.Lost, r.sent)
	}
	r.arrived, r.inRing = r.sent-totals.Lost, uint64(sink.to.lost.Load())
	onBus := r
	onBus.way, onBus.took = "to the bus, acknowledged", acked
	onBus.print()
	r.print()
	info, err := os.Stat(filepath.Join(dir, "store.db"))
	if err == nil {
		fmt.Fprintf(os.Stderr, "bench: %d bytes of the store a record\n", info.Size()/int64(max(totals.Events, 1)))
	}
	return err
}

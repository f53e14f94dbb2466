package chserver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/clickhouse"
	"github.com/reeve-audit/reeve/storage/replay"
	"github.com/reeve-audit/reeve/storage/sqlite"
	"github.com/reeve-audit/reeve/storage/storagetest"
	"github.com/reeve-audit/reeve/tests/chserver"
	"github.com/reeve-audit/reeve/tracer/event"
)

func closing(tb testing.TB, c interface{ Close() error }) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
}

func newSQLite(tb testing.TB) storage.Store {
	tb.Helper()
	s, err := sqlite.New(filepath.Join(tb.TempDir(), "reeve.db"), sqlite.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	closing(tb, s)
	return s
}

func newClickHouse(tb testing.TB, server *chserver.Server, database string) storage.Store {
	tb.Helper()
	s, err := clickhouse.New(clickhouse.Config{URL: server.URL(database)})
	if err != nil {
		tb.Fatal(err)
	}
	closing(tb, s)
	return s
}

func openBus(tb testing.TB, session string) *bus.Bus {
	tb.Helper()
	b, err := bus.Open(tb.Context(), bus.Config{Dir: filepath.Join(tb.TempDir(), session)})
	if err != nil {
		tb.Fatal(err)
	}
	closing(tb, b)
	return b
}

// publish records n typical records and waits for their acks.
func publish(tb testing.TB, b pipeline.Bus, session string, n int) {
	tb.Helper()
	p, err := pipeline.NewPublisher(pipeline.PublisherConfig{Session: session, Strict: true})
	if err != nil {
		tb.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- p.Run(tb.Context()) }()
	p.Attach(b)
	for _, e := range storagetest.Typical(session, n) {
		p.Record(e)
	}
	if _, err := p.Close(tb.Context()); err != nil {
		tb.Error(err)
	}
	if err := <-ran; err != nil {
		tb.Error(err)
	}
}

func collector(tb testing.TB, b *bus.Bus, pos bus.Position, store pipeline.Store, rows int) *pipeline.Collector {
	tb.Helper()
	source, err := b.Consume(tb.Context(), bus.StoreConsumer, pos)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := pipeline.NewCollector(pipeline.CollectorConfig{
		Source: source, Store: store, Rows: rows, Trim: b.Trim, TrimEvery: 64,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// verified wants exactly records 1 to n of a session, chained.
func verified(t *testing.T, s storage.Reader, session string, n uint64) {
	t.Helper()
	r := replay.Verify(session, n, s.Events(t.Context(), storage.Query{Session: session}))
	if !r.OK() || r.Events != n {
		t.Errorf("%d records, want %d; problems %+v", r.Events, n, r.Problems)
	}
}

// TestClickHouseRestarts kills ClickHouse several times while records flow, and
// wants every one of them there once (E05).
func TestClickHouseRestarts(t *testing.T) {
	const n = 120000
	server := chserver.Start(t)
	store := newClickHouse(t, server, "restarts")
	b := openBus(t, "01RESTART")
	c := collector(t, b, bus.PositionMemory, store, 2000)
	collected := make(chan error, 1)
	go func() { collected <- c.Run(t.Context()) }()
	published := make(chan struct{})
	go func() { defer close(published); publish(t, b, "01RESTART", n) }()
	for range 4 {
		time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond)
		server.Kill(t)
		server.Restart(t)
	}
	<-published
	c.Stop()
	if err := <-collected; err != nil {
		t.Fatal(err)
	}
	verified(t, store, "01RESTART", n)
	if got := strings.TrimSpace(server.Query(t, "SELECT count() FROM restarts.events")); got != fmt.Sprint(n) {
		t.Errorf("%s rows, want %d", got, n)
	}
}

// TestCollectorRestarts stops the collector at random places, between insert and
// ack too, and wants every record once in either store.
func TestCollectorRestarts(t *testing.T) {
	const n = 40000
	stores := map[string]func(t *testing.T) storage.Store{
		"sqlite":     func(t *testing.T) storage.Store { return newSQLite(t) },
		"clickhouse": func(t *testing.T) storage.Store { return newClickHouse(t, chserver.Start(t), "collector") },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			b := openBus(t, "01COLLECT")
			publish(t, b, "01COLLECT", n)
			stops := 0
			for done := false; !done; {
				ctx, cancel := context.WithCancel(t.Context())
				flaky := &flaky{Store: store, cancel: cancel, calls: 1 + rand.IntN(4)}
				c := collector(t, b, bus.PositionDurable, flaky, 1000)
				c.Stop()
				err := c.Run(ctx)
				cancel()
				switch {
				case err == nil:
					done = true
				case errors.Is(err, context.Canceled):
					stops++
				default:
					t.Fatal(err)
				}
			}
			verified(t, store, "01COLLECT", n)
			v, err := store.Session(t.Context(), "01COLLECT")
			if err != nil || v.Events != n || v.Requests != n {
				t.Errorf("summary %+v, %v", v, err)
			}
			if stops < 3 {
				t.Errorf("only %d stops", stops)
			}
		})
	}
}

// flaky is a store whose process dies right after it has kept a delivery.
type flaky struct {
	storage.Store
	cancel context.CancelFunc
	calls  int
}

func (f *flaky) Append(ctx context.Context, d event.Delivery) error {
	if err := f.Store.Append(ctx, d); err != nil {
		return err
	}
	if f.calls--; f.calls == 0 {
		f.cancel()
		return errors.New("the answer is lost")
	}
	return nil
}

func BenchmarkEndToEnd(b *testing.B) {
	for _, name := range []string{"sqlite", "clickhouse"} {
		b.Run(name, func(b *testing.B) {
			var store storage.Store
			if name == "sqlite" {
				store = newSQLite(b)
			} else {
				store = newClickHouse(b, chserver.Start(b), "bench")
			}
			const n = 100000
			for i := 0; b.Loop(); i++ {
				session := fmt.Sprintf("01%010d", i)
				l := openBus(b, session)
				c := collector(b, l, bus.PositionMemory, store, 8192)
				collected := make(chan error, 1)
				go func() { collected <- c.Run(b.Context()) }()
				publish(b, l, session, n)
				c.Stop()
				if err := <-collected; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkShortSession is everything the record of a session of 20 records
// costs: bus, publisher, collector, store.
func BenchmarkShortSession(b *testing.B) {
	path := filepath.Join(b.TempDir(), "reeve.db")
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		session := fmt.Sprintf("01%010d", i)
		store, err := sqlite.New(path, sqlite.Config{MaxAge: time.Hour, MaxBytes: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		l, err := bus.Open(b.Context(), bus.Config{Dir: filepath.Join(dir, session)})
		if err != nil {
			b.Fatal(err)
		}
		c := collector(b, l, bus.PositionMemory, store, 8192)
		collected := make(chan error, 1)
		go func() { collected <- c.Run(b.Context()) }()
		publish(b, l, session, 20)
		c.Stop()
		if err := errors.Join(<-collected, l.Discard(), store.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

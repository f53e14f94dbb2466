package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/pipeline"
)

func openBus(t testing.TB, dir string) *Bus {
	t.Helper()
	b, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// publish publishes n messages and waits for their acks.
func publish(t testing.TB, b *Bus, from, n int) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		b.Publish(fmt.Sprintf("S:%d-%d", from+i, from+i), fmt.Appendf(nil, "m%d", from+i), func(err error) { errs <- err })
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

// fetchAll fetches and acks until the stream has nothing more.
func fetchAll(t testing.TB, c *Consumer) []pipeline.Message {
	t.Helper()
	var all []pipeline.Message
	for {
		msgs, err := c.Fetch(t.Context(), 100, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(msgs) == 0 {
			return all
		}
		for _, m := range msgs {
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, msgs...)
	}
}

func TestPublishOnceInOrder(t *testing.T) {
	b := openBus(t, filepath.Join(t.TempDir(), "S"))
	publish(t, b, 1, 1000)
	publish(t, b, 500, 600) // half of them repeated
	c, err := b.Consume(t.Context(), "store", PositionMemory)
	if err != nil {
		t.Fatal(err)
	}
	msgs := fetchAll(t, c)
	if len(msgs) != 1099 {
		t.Fatalf("%d messages, want 1099", len(msgs))
	}
	for i, m := range msgs {
		if string(m.Data) != fmt.Sprintf("m%d", i+1) || m.Seq != uint64(i+1) {
			t.Fatalf("message %d is %s with seq %d", i, m.Data, m.Seq)
		}
	}
}

func TestReopenKeepsWhatWasAcked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "S")
	b := openBus(t, dir)
	publish(t, b, 1, 10)
	fwd, err := b.Consume(t.Context(), "forward", PositionDurable)
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := fwd.Fetch(t.Context(), 4, true)
	for err == nil && len(msgs) < 4 {
		var more []pipeline.Message
		more, err = fwd.Fetch(t.Context(), 4-len(msgs), true)
		msgs = append(msgs, more...)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openBus(t, dir)
	for name, want := range map[string]struct {
		pos Position
		n   int
	}{"forward": {PositionDurable, 6}, "store": {PositionMemory, 10}} {
		c, err := b.Consume(t.Context(), name, want.pos)
		if err != nil {
			t.Fatal(err)
		}
		if got := fetchAll(t, c); len(got) != want.n {
			t.Errorf("%s: %d messages after the restart, want %d", name, len(got), want.n)
		}
	}
	// Acks are fire and forget: the server has them in a moment.
	for range 200 {
		if err := b.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		info, err := b.stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("Trim leaves messages that every consumer has acked")
}

func TestFetchEndsWithContext(t *testing.T) {
	b := openBus(t, filepath.Join(t.TempDir(), "S"))
	c, err := b.Consume(t.Context(), "store", PositionMemory)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Fetch(ctx, 1, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

func TestSecondOpenIsLive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "S")
	b := openBus(t, dir)
	if _, err := Open(t.Context(), Config{Dir: dir}); !errors.Is(err, ErrLive) {
		t.Errorf("second Open: %v, want ErrLive", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	openBus(t, dir)
}

func TestDiscard(t *testing.T) {
	root := t.TempDir()
	b := openBus(t, filepath.Join(root, "A"))
	publish(t, b, 1, 3)
	if _, err := b.Consume(t.Context(), ForwardConsumer, PositionDurable); err != nil {
		t.Fatal(err)
	}
	if err := b.Discard(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cfg  Config
		want error
	}{
		"below a file":  {Config{Dir: filepath.Join(file, "x")}, unix.ENOTDIR},
		"not there":     {Config{Dir: filepath.Join(t.TempDir(), "x"), Existing: true}, fs.ErrNotExist},
		"not for files": {Config{Dir: "/proc/self/fdinfo"}, nil},
	} {
		b, err := Open(t.Context(), tc.cfg)
		if err == nil {
			t.Errorf("%s: opened", name)
			_ = b.Close()
		} else if tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestPublishAfterCloseAndBadID(t *testing.T) {
	b := openBus(t, filepath.Join(t.TempDir(), "S"))
	for _, id := range []string{"", "nocolon", ":1-1", "a.b:1-1", "*:1-1", "a b:1-1"} {
		var got error
		b.Publish(id, nil, func(err error) { got = err })
		if got == nil || !strings.Contains(got.Error(), "bug:") {
			t.Errorf("id %q: %v", id, got)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var got error
	b.Publish("S:1-1", nil, func(err error) { got = err })
	if !errors.Is(got, ErrClosed) {
		t.Errorf("after Close: %v", got)
	}
}

func TestCheckStream(t *testing.T) {
	good := jetstream.StreamConfig{
		Subjects: []string{subjects}, Storage: jetstream.FileStorage, MaxMsgSize: -1,
		Duplicates: time.Hour, MaxBytes: -1, Discard: jetstream.DiscardNew, DenyDelete: true,
	}
	for name, tc := range map[string]struct {
		change func(*jetstream.StreamConfig)
		made   bool
		want   string
	}{
		"good":            {func(*jetstream.StreamConfig) {}, true, ""},
		"memory":          {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, false, "storage"},
		"no acks":         {func(c *jetstream.StreamConfig) { c.NoAck = true }, false, "ack"},
		"other subjects":  {func(c *jetstream.StreamConfig) { c.Subjects = []string{"x"} }, false, "cover"},
		"all subjects":    {func(c *jetstream.StreamConfig) { c.Subjects = []string{">"} }, false, ""},
		"small messages":  {func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }, false, "1000"},
		"no dedup":        {func(c *jetstream.StreamConfig) { c.Duplicates = 0 }, false, "repetitions"},
		"work queue":      {func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, false, "retention"},
		"field left out":  {func(c *jetstream.StreamConfig) { c.DenyDelete = false }, true, "deny_delete"},
		"older, not ours": {func(c *jetstream.StreamConfig) { c.DenyDelete = false }, false, ""},
	} {
		got := good
		tc.change(&got)
		err := checkStream(good, got, tc.made)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestRedact(t *testing.T) {
	got := redact("nats://user:secret@a:1, tls://token@b:2")
	if strings.Contains(got, "secret") || strings.Contains(got, "token") {
		t.Error(got)
	}
}

func BenchmarkStartToFirstAck(b *testing.B) {
	dir := b.TempDir()
	var opened, acked, consumed, closed time.Duration
	for i := range b.N {
		t0 := time.Now()
		bus, err := Open(b.Context(), Config{Dir: filepath.Join(dir, fmt.Sprint(i))})
		if err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		publish(b, bus, 1, 1)
		t2 := time.Now()
		c, err := bus.Consume(b.Context(), "store", PositionMemory)
		if err != nil {
			b.Fatal(err)
		}
		fetchAll(b, c)
		t3 := time.Now()
		if err := bus.Discard(); err != nil {
			b.Fatal(err)
		}
		t4 := time.Now()
		opened, acked, consumed, closed = opened+t1.Sub(t0), acked+t2.Sub(t1), consumed+t3.Sub(t2), closed+t4.Sub(t3)
	}
	for name, d := range map[string]time.Duration{"open": opened, "ack": acked, "consume": consumed, "discard": closed} {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N)/1000, name+"-ms/op")
	}
}

func BenchmarkPublish(b *testing.B) {
	bus := openBus(b, filepath.Join(b.TempDir(), "S"))
	data := make([]byte, 400)
	var wg sync.WaitGroup
	window := make(chan struct{}, 64)
	for i := range b.N {
		wg.Add(1)
		window <- struct{}{}
		bus.Publish(fmt.Sprintf("S:%d-%d", i, i), data, func(err error) {
			if err != nil {
				b.Error(err)
			}
			<-window
			wg.Done()
		})
	}
	wg.Wait()
}

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/tracer/event"
)

const session = "01JTESTTESTTESTTESTTESTTES"

// fakeBus keeps messages by id; refuse, when set, answers instead.
type fakeBus struct {
	mu     sync.Mutex
	msgs   map[string][]byte
	order  []string
	refuse func(n int) error // n counts calls of Publish
	hold   bool              // keep answers until release
	held   []func()
	calls  int
}

func newFakeBus() *fakeBus { return &fakeBus{msgs: map[string][]byte{}} }

func (b *fakeBus) Publish(id string, data []byte, done func(error)) {
	b.mu.Lock()
	b.calls++
	if b.refuse != nil {
		if err := b.refuse(b.calls); err != nil {
			b.mu.Unlock()
			done(err)
			return
		}
	}
	if _, ok := b.msgs[id]; !ok {
		b.msgs[id] = data
		b.order = append(b.order, id)
	}
	if b.hold {
		b.held = append(b.held, func() { done(nil) })
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	done(nil)
}

func (b *fakeBus) release() {
	b.mu.Lock()
	held := b.held
	b.held, b.hold = nil, false
	b.mu.Unlock()
	for _, f := range held {
		f()
	}
}

// events decodes what the bus has, by seq, and verifies chain and gaplessness.
func (b *fakeBus) events(t *testing.T) []event.Event {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	at := map[uint64]event.Event{}
	for id, data := range b.msgs {
		var batch event.Batch
		if err := batch.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		if batch.ID() != id {
			t.Fatalf("message %s holds %s", id, batch.ID())
		}
		for _, e := range batch.Events {
			at[e.Seq] = e
		}
	}
	chain := event.NewChain(session)
	var out []event.Event
	for seq := uint64(1); seq <= uint64(len(at)); seq++ {
		e, ok := at[seq]
		if !ok {
			t.Fatalf("seq %d is missing of %d", seq, len(at))
		}
		if err := chain.Verify(&e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// start runs a Publisher and returns what ends it.
func start(t testing.TB, cfg pipeline.PublisherConfig) (*pipeline.Publisher, context.CancelFunc) {
	t.Helper()
	cfg.Session = session
	p, err := pipeline.NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return p, cancel
}

func mustClose(t testing.TB, p *pipeline.Publisher) pipeline.Totals {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	totals, err := p.Close(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return totals
}

func sample(i int) event.Event {
	return event.Event{
		Kind: event.KindRequest, Op: event.OpOpen, Access: event.AccessRead, Engine: "unotify",
		Task:   event.Task{ID: "12-34", PID: 12, TID: 12, PPID: 1, Exe: "/usr/bin/cat"},
		Object: event.Object{Kind: event.ObjectFile, Path: fmt.Sprintf("/usr/include/file-%d.h", i), Dev: 0xfe00, Ino: uint64(i), Mode: 0o100644},
		Action: event.ActionAllow, Rule: ":minimal", By: "policy:workspace-edit-no-net", Layer: "gate",
		HoldNS: 9000, Syscall: "openat", Arch: "x86_64",
	}
}

func TestRecordsBeforeTheBusWaitInOrder(t *testing.T) {
	bus := newFakeBus()
	p, _ := start(t, pipeline.PublisherConfig{})
	for i := range 3000 {
		p.Record(sample(i))
	}
	p.Attach(bus)
	for i := range 3000 {
		p.Record(sample(3000 + i))
	}
	totals := mustClose(t, p)
	events := bus.events(t)
	if len(events) != 6000 || totals.Events != 6000 || totals.Acked != 6000 || totals.Allowed != 6000 || totals.Lost != 0 {
		t.Fatalf("%d events, totals %+v", len(events), totals)
	}
	for i, e := range events {
		if e.Object.Ino != uint64(i) || e.Time.IsZero() || e.BootNS == 0 {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
	if totals.Chain != events[5999].Chain {
		t.Error("Totals.Chain is not that of the last record")
	}
}

func TestConcurrentRecorders(t *testing.T) {
	bus := newFakeBus()
	p, _ := start(t, pipeline.PublisherConfig{})
	p.Attach(bus)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				if i%100 == 0 {
					if err := p.RecordAcked(context.Background(), sample(i)); err != nil {
						t.Error(err)
					}
					continue
				}
				p.Record(sample(i))
			}
		})
	}
	wg.Wait()
	mustClose(t, p)
	if n := len(bus.events(t)); n != 16000 {
		t.Errorf("%d events, want 16000", n)
	}
}

func TestFullQueueIsStated(t *testing.T) {
	bus := newFakeBus()
	p, _ := start(t, pipeline.PublisherConfig{Queue: 100})
	for i := range 130 {
		p.Record(sample(i))
	}
	var refused error
	p.RecordThen(sample(0), func(err error) { refused = err })
	if refused == nil {
		t.Error("a lost record's caller was not told")
	}
	p.Attach(bus)
	totals := mustClose(t, p)
	events := bus.events(t)
	last := events[len(events)-1]
	if len(events) != 101 || last.Kind != event.KindLost || last.Op != event.OpLoss || last.Count != 31 {
		t.Errorf("%d events, last %+v", len(events), last)
	}
	if totals.Lost != 31 || totals.Events != 101 {
		t.Errorf("totals %+v", totals)
	}
}

func TestStrictWaitsForRoom(t *testing.T) {
	bus := newFakeBus()
	p, _ := start(t, pipeline.PublisherConfig{Queue: 10, Strict: true})
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		for i := range 50 {
			p.Record(sample(i))
		}
	}()
	select {
	case <-recorded:
		t.Fatal("50 records went into a queue of 10")
	case <-time.After(50 * time.Millisecond):
	}
	p.Attach(bus)
	<-recorded
	if totals := mustClose(t, p); totals.Lost != 0 || totals.Acked != 50 {
		t.Errorf("totals %+v", totals)
	}
}

func TestStrictIsReleasedWhenRunEnds(t *testing.T) {
	p, cancel := start(t, pipeline.PublisherConfig{Queue: 1, Strict: true})
	p.Record(sample(0))
	done := make(chan struct{})
	go func() { p.Record(sample(1)); close(done) }()
	cancel()
	<-done
	var err error
	p.RecordThen(sample(2), func(e error) { err = e })
	if !errors.Is(err, pipeline.ErrClosed) {
		t.Errorf("after Run: %v", err)
	}
	if totals := p.Totals(); totals.Lost != 2 || totals.Events-totals.Acked != 1 {
		t.Errorf("totals %+v", totals)
	}
}

func TestAckedMeansStoredWithAllBefore(t *testing.T) {
	bus := newFakeBus()
	bus.hold = true
	p, _ := start(t, pipeline.PublisherConfig{})
	p.Attach(bus)
	p.Record(sample(0))
	acked := make(chan error, 1)
	p.RecordThen(sample(1), func(err error) { acked <- err })
	select {
	case err := <-acked:
		t.Fatalf("acked (%v) while the bus held its answers", err)
	case <-time.After(50 * time.Millisecond):
	}
	bus.release()
	if err := <-acked; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	bus.mu.Lock()
	bus.hold = true
	bus.mu.Unlock()
	if err := p.RecordAcked(ctx, sample(2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("RecordAcked without an ack: %v", err)
	}
	bus.release()
	mustClose(t, p)
}

func TestRefusedMessagesAreRepeated(t *testing.T) {
	bus := newFakeBus()
	bus.refuse = func(n int) error {
		if n%3 != 0 {
			return errors.New("no space left on device")
		}
		return nil
	}
	p, _ := start(t, pipeline.PublisherConfig{})
	p.Attach(bus)
	for i := range 2000 {
		p.Record(sample(i))
	}
	mustClose(t, p)
	if n := len(bus.events(t)); n != 2000 {
		t.Errorf("%d events, want 2000", n)
	}
}

func TestDeadBusFailsWaitersAndClose(t *testing.T) {
	bus := newFakeBus()
	bus.refuse = func(int) error { return errors.New("no space left on device") }
	p, _ := start(t, pipeline.PublisherConfig{})
	p.Attach(bus)
	err := p.RecordAcked(context.Background(), sample(0))
	if err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("RecordAcked: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 of 1 records") {
		t.Errorf("Close: %v", err)
	}
}

// TestAnotherBus: what one bus refused says nothing about the next.
func TestAnotherBus(t *testing.T) {
	first, second := newFakeBus(), newFakeBus()
	first.refuse = func(int) error { return errors.New("over") }
	second.hold = true
	p, _ := start(t, pipeline.PublisherConfig{})
	p.Attach(first)
	p.Record(sample(0))
	for deadline := time.Now().Add(10 * time.Second); p.Err() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no error of the first bus")
		}
	}
	p.Attach(second)
	if err := p.Err(); err != nil {
		t.Errorf("of the second bus, which has said nothing: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, second.release)
	mustClose(t, p)
	if n := len(second.events(t)); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// TestReplacedBus: while another bus is on its way, however long it takes, nothing is
// refused and who waits for an ack waits on.
func TestReplacedBus(t *testing.T) {
	first, second := newFakeBus(), newFakeBus()
	var times atomic.Int64
	first.refuse = func(int) error { times.Add(1); return pipeline.ErrReplaced }
	p, _ := start(t, pipeline.PublisherConfig{})
	p.Attach(first)
	acked := make(chan error, 1)
	go func() { acked <- p.RecordAcked(t.Context(), sample(0)) }()
	for deadline := time.Now().Add(20 * time.Second); times.Load() < 6; time.Sleep(time.Millisecond) { // more often than a bus may refuse
		if time.Now().After(deadline) {
			t.Fatal("it is not published again")
		}
	}
	select {
	case err := <-acked:
		t.Errorf("acknowledged by no bus: %v", err)
	default:
	}
	if p.Failing() {
		t.Errorf("it counts as a refusal: %v", p.Err())
	}
	p.Attach(second)
	if err := <-acked; err != nil {
		t.Error(err)
	}
	mustClose(t, p)
	if n := len(second.events(t)); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestOversizedRecordIsCutAndSaysSo(t *testing.T) {
	bus := newFakeBus()
	p, _ := start(t, pipeline.PublisherConfig{})
	p.Attach(bus)
	big := strings.Repeat("x", 2<<20)
	e := sample(0)
	e.Detail, e.Object.Path, e.Task.Argv = big, big, []string{"a", big, big}
	many := sample(1)
	many.Task.Argv = make([]string, 1<<20)
	p.Record(e)
	p.Record(many)
	p.Record(sample(2))
	mustClose(t, p)
	events := bus.events(t)
	if len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	got := events[0]
	if got.Object.PathLen != 2<<20 || got.Task.ArgvLen != 4<<20+4 || !strings.Contains(got.Detail, "2097152 bytes") {
		t.Errorf("lengths: path %d argv %d detail %s", got.Object.PathLen, got.Task.ArgvLen, got.Detail[len(got.Detail)-40:])
	}
	if len(e.Task.Argv[1]) != 2<<20 {
		t.Error("the caller's slice was changed")
	}
	if events[1].Task.ArgvLen != 1<<20 {
		t.Errorf("argv_len = %d", events[1].Task.ArgvLen)
	}
	for id, data := range bus.msgs {
		if len(data) > 1<<20-4096 {
			t.Errorf("message %s has %d bytes", id, len(data))
		}
	}
}

// BenchmarkRecord is what the gate's thread pays for a record, and
// BenchmarkThroughput how fast records are sealed when nothing else is slow.
func BenchmarkRecord(b *testing.B) {
	p, _ := start(b, pipeline.PublisherConfig{})
	p.Attach(discard{newFakeBus()})
	e := sample(1)
	e.Time, e.BootNS = time.Now(), 1
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Record(e)
		if i%1000 == 999 {
			b.StopTimer()
			for t := p.Totals(); t.Acked < t.Events; t = p.Totals() {
				time.Sleep(50 * time.Microsecond)
			}
			b.StartTimer()
		}
	}
	if lost := mustClose(b, p).Lost; lost > 0 {
		b.Errorf("%d lost", lost)
	}
}

func BenchmarkThroughput(b *testing.B) {
	p, _ := start(b, pipeline.PublisherConfig{Strict: true})
	p.Attach(discard{newFakeBus()})
	e := sample(1)
	for b.Loop() {
		p.Record(e)
	}
	mustClose(b, p)
}

// discard acks and keeps nothing.
type discard struct{ *fakeBus }

func (discard) Publish(_ string, _ []byte, done func(error)) { done(nil) }

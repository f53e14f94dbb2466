// Package pipeline moves the records of a session, once each and in order, from
// whoever makes them to a store: Publisher to a bus, Forwarder from one bus to
// another, Collector from a bus into a store. It knows buses and stores by the
// small interfaces it declares; package bus beside it is JetStream.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Bus takes messages. Publish hands over one message and returns at once; done
// is called exactly once, from any goroutine, with nil when the bus has stored
// the message. A message whose id it stored before is dropped and acked. The
// callee may keep data until done is called, and does not change it.
type Bus interface {
	Publish(id string, data []byte, done func(error))
}

// The limits of a message and of what waits for the bus.
const (
	// MaxBatch is the largest number of records in one message.
	MaxBatch = 512
	// maxMessage is where a message is closed, in bytes; maxRecord is where a
	// record is cut. Their sum stays below a NATS server's default limit, 1 MiB.
	maxMessage = 512 << 10
	maxRecord  = 448 << 10
	// DefaultQueue is how many records wait in memory for the bus, some 40 MB.
	DefaultQueue = 1 << 15
	// DefaultWindow is how many messages wait for their ack.
	DefaultWindow = 64
	// DefaultLinger is how long a record waits for company after a message left.
	DefaultLinger = 3 * time.Millisecond
	// failAfter is how often a message is refused before those who wait for its
	// ack are told; it is tried again all the same.
	failAfter = 3
)

// ErrReplaced is the answer of a bus in whose place another comes, which may take a
// while: it is no refusal. What it answers is published again until the other is
// there, and who waits for an ack waits on.
var ErrReplaced = errors.New("another bus takes the place of this one")

// ErrClosed is what those get who still wait for an ack when Run has ended.
var ErrClosed = errors.New("the recorder is closed")

// PublisherConfig is what a Publisher needs; all but Session has a usable zero.
type PublisherConfig struct {
	Session string
	// Strict makes Record wait for room when the queue is full. Otherwise the
	// record is counted, and the stream gets a "lost" record as soon as there
	// is room.
	Strict bool
	// Queue, Window and Linger replace their defaults.
	Queue, Window int
	Linger        time.Duration
	// After and Chain are the sequence number and chain value of the last record
	// that is kept of a session which is continued, Marks what the journal was told
	// of it.
	After uint64
	Chain [32]byte
	Marks []event.Origin
	// Journal, which may be nil, is told of a message that holds records from the
	// kernel's rings before it is published for the first time: marks are the pieces
	// of the rings that all records up to sequence number last come from, one for
	// each ring and session inside. They are valid during the call.
	Journal func(last uint64, marks []event.Origin) error
	// Acked, which may be nil, is told of the pieces whose records are on the bus,
	// on the goroutine of Run; it must be quick.
	Acked func(pieces []event.Origin)
	// Now gives wall time and CLOCK_BOOTTIME in nanoseconds.
	Now func() (time.Time, uint64)
	Log *slog.Logger
}

// Publisher numbers, chains and publishes the records of one session. Record,
// RecordThen, RecordAcked and Attach may be called from any goroutine.
type Publisher struct {
	cfg  PublisherConfig
	wake chan struct{} // capacity 1
	done chan struct{} // closed when Run has returned

	mu      sync.Mutex
	room    sync.Cond // on mu: the queue was taken, or Run has ended
	queue   queue
	waiters []waiter // in the order of seq
	acks    []ack    // answers of the bus that Run has not seen
	seq     uint64
	lost    uint64 // not yet stated by a record
	engine  string // of the last record
	bus     Bus
	wakeAt  int  // length of the queue at which Record wakes Run
	urgent  bool // somebody waits for the ack of a queued record
	closing bool
	ended   bool
	totals  Totals
	lastErr error       // of the bus
	failing atomic.Bool // lastErr is not nil; it is set with mu
}

type waiter struct {
	seq  uint64
	done func(error)
}

// NewPublisher is a Publisher that takes records from now on and hands them to
// a bus once Run runs and Attach was called.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	if cfg.Session == "" {
		return nil, errors.New("publish: no session id")
	}
	if cfg.Queue <= 0 {
		cfg.Queue = DefaultQueue
	}
	if cfg.Window <= 0 {
		cfg.Window = DefaultWindow
	}
	if cfg.Linger <= 0 {
		cfg.Linger = DefaultLinger
	}
	if cfg.Now == nil {
		cfg.Now = now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Publisher{cfg: cfg, wake: make(chan struct{}, 1), done: make(chan struct{}), wakeAt: 1, seq: cfg.After}
	p.totals.Acked = cfg.After
	p.room.L = &p.mu
	return p, nil
}

func now() (time.Time, uint64) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Now(), 0
	}
	return time.Now(), uint64(ts.Nano())
}

// Record takes a record. It sets Session, Seq and, later, Chain, and Time and
// BootNS where they are zero. It never waits for the bus, unless the queue is full
// and the Publisher is strict, or the record comes from a ring of the kernel, where
// it is kept until it is acked: what the ring has no room for then, the kernel
// counts. Slices of e must not be changed afterwards.
func (p *Publisher) Record(e event.Event) { p.record(&e, nil) }

// RecordThen is Record, and calls done exactly once: with nil when the bus has
// stored the record and all before it, else with the reason why that is not
// known. done is called on the goroutine of Run (or of the caller, after Run
// has ended) and must not block.
func (p *Publisher) RecordThen(e event.Event, done func(error)) { p.record(&e, done) }

// RecordAcked is Record, and waits until the bus has stored the record.
func (p *Publisher) RecordAcked(ctx context.Context, e event.Event) error {
	acked := make(chan error, 1)
	p.record(&e, func(err error) { acked <- err })
	select {
	case err := <-acked:
		return err
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lastErr != nil {
			return fmt.Errorf("record: %w (the bus says: %w)", ctx.Err(), p.lastErr)
		}
		return fmt.Errorf("record: %w before the bus acked", ctx.Err())
	}
}

func (p *Publisher) record(e *event.Event, done func(error)) {
	if e.Time.IsZero() {
		e.Time, e.BootNS = p.cfg.Now()
	}
	wake, err := p.enqueue(e, done)
	switch {
	case errors.Is(err, errFull) && done != nil:
		done(fmt.Errorf("record: %d records already wait for the bus", p.cfg.Queue))
	case err != nil && done != nil:
		done(err)
	case wake:
		p.signal()
	}
}

var errFull = errors.New("the queue is full")

// enqueue queues a record; wake says that Run should look. A panic here does not leave
// the lock behind: whoever recovers it has to record that.
func (p *Publisher) enqueue(e *event.Event, done func(error)) (wake bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.cfg.Strict || e.Origin.Ring != 0) && p.queue.n >= p.cfg.Queue && !p.ended {
		p.room.Wait()
	}
	switch {
	case p.ended:
		p.lost++
		return false, ErrClosed
	case p.queue.n >= p.cfg.Queue:
		p.lost++
		return false, errFull
	}
	p.stateLoss()
	p.push(e)
	if done != nil {
		p.waiters = append(p.waiters, waiter{p.seq, done})
		p.urgent = true
	}
	return p.queue.n >= p.wakeAt || p.urgent, nil
}

// stateLoss puts a "lost" record in the place of what was lost. Call with mu.
func (p *Publisher) stateLoss() {
	if p.lost == 0 {
		return
	}
	e := event.Event{
		Kind: event.KindLost, Op: event.OpLoss, Count: p.lost, Engine: p.engine, By: "recorder",
		Reason: fmt.Sprintf("%d records already waited for the bus", p.cfg.Queue),
	}
	e.Time, e.BootNS = p.cfg.Now()
	p.lost = 0
	p.push(&e)
}

// push numbers and queues a record. Call with mu.
func (p *Publisher) push(e *event.Event) {
	p.seq++
	p.engine = e.Engine
	q := p.queue.push(e)
	q.Session, q.Seq = p.cfg.Session, p.seq
	q.Time = q.Time.UTC()
}

func (p *Publisher) signal() {
	select {
	case p.wake <- struct{}{}:
	default: // Run is about to look anyway
	}
}

// Attach says that the bus is up. What was recorded so far goes first.
func (p *Publisher) Attach(bus Bus) {
	p.mu.Lock()
	p.bus = bus
	p.fails(nil) // it was another's
	p.mu.Unlock()
	p.signal()
}

// Close lets Run publish what is queued, waits until the bus has acked it all,
// and returns the totals. After ctx it gives up; the error then says how many
// records are not known to be on the bus. Records that come later are lost, and
// counted in the totals of a later call.
func (p *Publisher) Close(ctx context.Context) (Totals, error) {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.signal()
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	t, err := p.Totals(), error(nil)
	if missing := t.Events - t.Acked; missing > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		err = fmt.Errorf("close recorder: %d of %d records are not acked by the bus", missing, t.Events)
		if p.lastErr != nil {
			err = fmt.Errorf("%w: %w", err, p.lastErr)
		}
	}
	return t, err
}

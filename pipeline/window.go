package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// message is a batch on its way to the bus.
type message struct {
	id       string
	data     []byte
	last     uint64 // seq of its last record
	pieces   []event.Origin
	acked    bool
	attempts int
	retryAt  time.Time // when it is published again; zero while the bus has it
}

// ack is the answer of the bus to one message.
type ack struct {
	m    *message
	err  error
	from Bus
}

// window is the state of Run: nobody else touches it.
type window struct {
	p        *Publisher
	bus      Bus // that was published to last
	chain    *event.Chain
	chunk    []event.Event // taken from the queue
	batch    []event.Event // the rest of it that is not yet sealed
	records  []byte        // of the message being sealed, kept for its capacity
	marks    marks
	inflight []*message // in order
	left     time.Time  // when a message last left
	timer    *time.Timer
}

// Run publishes what is recorded until Close has seen the last ack or ctx ends;
// records that are not acked by then stay counted in Totals. Call it once.
func (p *Publisher) Run(ctx context.Context) error {
	w := &window{p: p, chain: p.chain(), timer: time.NewTimer(time.Hour), marks: slices.Clone(p.cfg.Marks)}
	defer w.timer.Stop()
	defer p.end()
	for {
		w.answer()
		bus := w.take()
		more, err := w.send(bus)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		finished, wait := w.park(bus)
		if finished {
			return nil
		}
		w.timer.Reset(wait)
		select {
		case <-p.wake:
		case <-w.timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// chain is the chain before the first record that is published.
func (p *Publisher) chain() *event.Chain {
	if p.cfg.After > 0 {
		return event.ResumeChain(p.cfg.Chain)
	}
	return event.NewChain(p.cfg.Session)
}

// end tells everybody that nothing more is published.
func (p *Publisher) end() {
	p.mu.Lock()
	p.ended = true
	waiters, err := p.waiters, p.lastErr
	p.waiters = nil
	p.room.Broadcast()
	p.mu.Unlock()
	if err == nil {
		err = ErrClosed
	}
	for _, w := range waiters {
		w.done(err)
	}
	close(p.done)
}

// answer takes the answers of the bus, moves the watermark and tells waiters.
func (w *window) answer() {
	p := w.p
	p.mu.Lock()
	acks, bus := p.acks, p.bus
	p.acks = nil
	p.mu.Unlock()
	var failed error
	for _, a := range acks {
		if a.err == nil {
			a.m.acked = true
			continue
		}
		if a.from != bus { // there is another now, which did not refuse it
			a.m.retryAt = time.Now()
			continue
		}
		if errors.Is(a.err, ErrReplaced) {
			a.m.attempts = 0
		} else {
			failed = a.err
		}
		a.m.retryAt = time.Now().Add(backoff(a.m.attempts))
		if a.m.attempts == failAfter {
			p.cfg.Log.Warn("the bus does not take records; trying again", "message", a.m.id, "err", a.err)
		}
	}
	var acked uint64
	for len(w.inflight) > 0 && w.inflight[0].acked {
		acked = w.inflight[0].last
		if pieces := w.inflight[0].pieces; len(pieces) > 0 && p.cfg.Acked != nil {
			p.cfg.Acked(pieces)
		}
		w.inflight[0] = nil
		w.inflight = w.inflight[1:]
	}
	if acked == 0 && failed == nil {
		return
	}
	p.mu.Lock()
	if acked > 0 {
		p.totals.Acked = acked
		p.fails(nil)
	}
	if failed != nil {
		p.fails(fmt.Errorf("publish: %w", failed))
	}
	due, err := w.dueWaiters()
	p.mu.Unlock()
	for i, wt := range due {
		if wt.seq <= p.totals.Acked { // written by this goroutine alone
			due[i].done(nil)
		} else {
			due[i].done(err)
		}
	}
}

// dueWaiters takes the waiters whose record is acked, or whose message was
// refused too often. Call with mu.
func (w *window) dueWaiters() ([]waiter, error) {
	upTo := w.p.totals.Acked
	for _, m := range w.inflight {
		if m.attempts >= failAfter && !m.retryAt.IsZero() {
			upTo = max(upTo, m.last)
		}
	}
	n := 0
	for n < len(w.p.waiters) && w.p.waiters[n].seq <= upTo {
		n++
	}
	due := w.p.waiters[:n:n]
	w.p.waiters = w.p.waiters[n:]
	return due, w.p.lastErr
}

// take takes a chunk of the queue when it is time for it, and returns the bus.
func (w *window) take() Bus {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bus == nil || len(w.batch) > 0 || len(w.inflight) >= p.cfg.Window {
		return p.bus
	}
	if w.chunk != nil {
		p.queue.recycle(w.chunk)
		w.chunk = nil
	}
	p.stateLoss()
	if n := p.queue.n; n >= MaxBatch || n > 0 && (p.urgent || p.closing || time.Since(w.left) >= p.cfg.Linger) {
		w.chunk = p.queue.take()
		w.batch = w.chunk
		p.urgent = p.urgent && p.queue.n > 0
		p.room.Broadcast()
	}
	return p.bus
}

// send publishes again what is due, then new messages while the window has
// room. more says that there may be another chunk to take.
func (w *window) send(bus Bus) (more bool, err error) {
	if bus == nil {
		return false, nil
	}
	t := time.Now()
	if bus != w.bus { // what the one before refused need not wait
		w.bus = bus
		for _, m := range w.inflight {
			if !m.retryAt.IsZero() {
				m.attempts, m.retryAt = 0, t
			}
		}
	}
	for _, m := range w.inflight {
		if !m.retryAt.IsZero() && !m.acked && !t.Before(m.retryAt) {
			w.publish(bus, m)
		}
	}
	sent := false
	for len(w.batch) > 0 && len(w.inflight) < w.p.cfg.Window {
		m, err := w.seal()
		if err != nil {
			return false, err
		}
		w.inflight = append(w.inflight, m)
		w.publish(bus, m)
		w.left = t
		sent = true
	}
	if sent && len(w.batch) == 0 {
		clear(w.chunk) // for the garbage collector, outside the lock
	}
	return sent, nil
}

// publish hands m to the bus.
func (w *window) publish(bus Bus, m *message) {
	m.attempts++
	m.retryAt = time.Time{}
	p := w.p
	bus.Publish(m.id, m.data, func(err error) {
		p.mu.Lock()
		p.acks = append(p.acks, ack{m, err, bus})
		p.mu.Unlock()
		p.signal()
	})
}

// park decides whether Run is finished, else how long it sleeps unless woken,
// and tells Record from which length of the queue on waking is worth it.
func (w *window) park(bus Bus) (finished bool, wait time.Duration) {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = time.Hour
	for _, m := range w.inflight {
		if !m.retryAt.IsZero() {
			wait = min(wait, max(time.Until(m.retryAt), time.Millisecond))
		}
	}
	queued := p.queue.n
	idle := len(w.batch) == 0 && len(w.inflight) == 0
	if p.closing && idle && queued == 0 && p.lost == 0 {
		p.ended = true // under the lock that looked: no record slips in between
		return true, 0
	}
	switch lingers := p.cfg.Linger - time.Since(w.left); {
	case bus == nil || len(w.inflight) >= p.cfg.Window:
		p.wakeAt = 1 << 62 // only Attach or an ack helps
	case queued > 0:
		p.wakeAt = MaxBatch
		wait = min(wait, max(lingers, 0))
	case lingers > 0:
		// What comes now waits for company, so look again when it may leave.
		p.wakeAt = MaxBatch
		wait = min(wait, lingers)
	default:
		p.wakeAt = 1
	}
	return false, wait
}

// backoff is how long to wait after the nth attempt.
func backoff(n int) time.Duration {
	return min(50*time.Millisecond<<min(n, 10), 2*time.Second)
}

package gate

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// restart is the kernel's own ERESTARTSYS: the call returns so that a pending
// signal can be handled, and then starts over or fails with EINTR, whichever
// the handler was installed for. It is only ever sent when a signal is pending.
const restart = unix.Errno(512)

// pending are the waiters that are inside a call which may block for long.
type pending struct {
	mu sync.Mutex // guards m
	m  map[*blocked]struct{}
}

type blocked struct {
	id      uint64
	os      int // our OS thread
	th      *proc.Thread
	since   time.Time
	verdict unix.Errno // set under pending.mu: why it was interrupted
}

const anySignal = ^proc.Signals(0)

// grace is how long a call may block before anybody looks at it.
const grace = 2 * time.Millisecond

// looksAtOnce bounds how many tasks are asked for pending signals at one look,
// which costs some 15 µs each.
const looksAtOnce = 50

// enter notes that the worker is about to be inside a call which may block.
func (w *worker) enter() *blocked {
	p := &w.g.pending
	b := &blocked{id: w.n.ID, os: unix.Gettid(), th: w.th, since: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil {
		p.m = map[*blocked]struct{}{}
	}
	p.m[b] = struct{}{}
	return b
}

func (p *pending) leave(b *blocked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.m, b)
}

// carryOut runs what was decided on. A call of it that waits for a file system's server
// fails with EINTR when the task is killed or has a signal to handle, as the task's own
// would.
func (w *worker) carryOut(act func() answer) (a answer) {
	if w.inline {
		return act()
	}
	b := w.enter()
	defer w.g.pending.leave(b)
	if proc.Interruptible(func() error { a = act(); return nil }) != nil {
		a = act() // it has not been run
	}
	return a
}

// block runs f, which may block. EINTR means that the task was killed; restart
// that it has a signal to handle.
func (w *worker) block(f func() error) error {
	p, b := &w.g.pending, w.enter()
	defer p.leave(b)
	for {
		err := proc.Interruptible(f)
		if err != unix.EINTR {
			return err
		}
		p.mu.Lock()
		v := b.verdict
		p.mu.Unlock()
		if v != 0 {
			return v
		}
	}
}

// any says whether somebody is inside such a call.
func (p *pending) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.m) > 0
}

// check interrupts waiters whose task is gone or has a signal to handle. The
// interruption is repeated at every look until the waiter has left its call.
func (p *pending) check(l seccomp.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	looks := looksAtOnce
	for b := range p.m { // in no order, so that everybody's turn comes
		if b.verdict == 0 {
			switch {
			case time.Since(b.since) < grace:
				continue
			case !l.Valid(b.id):
				b.verdict = unix.EINTR
			case looks > 0:
				looks--
				if !b.th.Deliverable(anySignal) {
					continue
				}
				b.verdict = restart
			default:
				continue
			}
		}
		proc.Interrupt(b.os)
	}
}

// settle waits until no waiter is inside a call of a task that is gone, so that a
// FIFO has no end of ours for which there is no task.
func (p *pending) settle(l seccomp.Listener) {
	for range 100 {
		if !p.stale(l) {
			return
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func (p *pending) stale(l seccomp.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := false
	for b := range p.m {
		if !l.Valid(b.id) {
			b.verdict = unix.EINTR
			proc.Interrupt(b.os)
			found = true
		}
	}
	return found
}

// cancelAll interrupts every waiter: the session is over.
func (p *pending) cancelAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.m {
		b.verdict = unix.EINTR
		proc.Interrupt(b.os)
	}
}

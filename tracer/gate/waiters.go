package gate

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// later hands a call on to a waiter.
func (g *Gate) later(wg *sync.WaitGroup, n seccomp.Notification) {
	switch {
	case g.free.Load() > 0:
		g.free.Add(-1) // only here, so that no two calls count on one waiter
	case g.waiters.Load() < int64(g.cfg.MaxWaiters):
		g.waiters.Add(1)
		wg.Go(g.waiter)
	default:
		g.overflow(&n)
		return
	}
	g.waiting <- n // has room for as many as there are waiters
}

func (g *Gate) waiter() {
	runtime.LockOSThread()
	defer g.waiters.Add(-1)
	w, err := g.newWorker(false)
	if err != nil {
		g.cfg.Log.Error("no thread to wait in", "error", err)
		if n, ok := <-g.waiting; ok {
			g.overflow(&n)
		}
		return
	}
	for n := range g.waiting {
		w.serve(&n)
		g.free.Add(1)
	}
}

// overflow refuses a call for which there is no waiter.
func (g *Gate) overflow(n *seccomp.Notification) {
	d := event.Decision{Action: event.ActionDeny, By: "gate", Reason: "too many operations wait already", Errno: int32(unix.EAGAIN)}
	g.cfg.Recorder.Record(g.event(&event.Request{Op: event.OpUnknown, Syscall: g.callName(n)}, d, time.Now(), unix.EAGAIN))
	_ = g.cfg.Listener.Fail(n.ID, unix.EAGAIN)
}

// watch keeps the table small, and lets go of calls that waiters hold for tasks
// that were killed or have a signal to handle.
func (g *Gate) watch(ctx context.Context) {
	const (
		idle, busy = 20 * time.Millisecond, 4 * time.Millisecond
		// rests is how many times as long as a check the pause behind it is. For each
		// call that is looked at the kernel goes through all that wait, with a lock
		// that everybody's answers need.
		rests = 9
	)
	tick := time.NewTicker(idle)
	defer tick.Stop()
	swept := time.Now()
	for {
		select {
		case <-ctx.Done():
			// Waiters end with the session, those included that are only now
			// about to enter a call.
			for g.waiters.Load() > 0 {
				g.pending.cancelAll()
				time.Sleep(time.Millisecond)
			}
			return
		case <-tick.C:
		}
		began := time.Now()
		g.pending.check(g.cfg.Listener)
		rest := rests * time.Since(began)
		g.acts.sweep(time.Now())
		if g.pending.any() {
			tick.Reset(max(busy, rest))
		} else {
			tick.Reset(idle)
		}
		if time.Since(swept) > time.Second && g.table.Len() > 64 {
			g.table.Sweep()
			swept = time.Now()
		}
	}
}

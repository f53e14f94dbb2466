package lsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"
)

// lossInterval is how often the kernel's loss counters are looked at.
const lossInterval = 200 * time.Millisecond

// Sink takes what the hooks tell. Its methods are called by two goroutines at
// once, must be quick, and get the records of each ring in its order.
type Sink interface {
	Access(Access)
	Lost(Lost)
}

// Run hands records on until ctx is done; then it hands over what the rings still
// hold and returns nil. After Close it returns nil at once. It is called once.
func (e *Engine) Run(ctx context.Context, to Sink) error {
	var group errgroup.Group
	defer close(e.settle.over)
	group.Go(func() error {
		return read(ctx, e.urgent, to, func() error { return e.losses.since(to.Lost) }, e.settle.flushed[0])
	})
	group.Go(func() error { return read(ctx, e.flow, to, func() error { return nil }, e.settle.flushed[1]) })
	return group.Wait()
}

// settling is how Settle and Run talk.
type settling struct {
	mu      sync.Mutex // held by who settles
	flushed [2]chan struct{}
	over    chan struct{}
}

func (s *settling) init() {
	s.over = make(chan struct{})
	for i := range s.flushed {
		s.flushed[i] = make(chan struct{})
	}
}

// Settle returns when Run has handed on all that was recorded before, or has
// ended.
func (e *Engine) Settle() error {
	e.settle.mu.Lock()
	defer e.settle.mu.Unlock()
	for i, ring := range []*ringbuf.Reader{e.urgent, e.flow} {
		if err := ring.Flush(); err != nil {
			return fmt.Errorf("flush the hooks' ring: %w", err)
		}
		select {
		case <-e.settle.flushed[i]:
		case <-e.settle.over:
		}
	}
	return nil
}

// read hands on the records of one ring; count is called now and then, and flushed
// is told when the ring was flushed and ctx is not done.
func read(ctx context.Context, ring *ringbuf.Reader, to Sink, count func() error, flushed chan<- struct{}) error {
	stop := context.AfterFunc(ctx, func() { _ = ring.Flush() })
	defer stop()
	var raw ringbuf.Record
	next := time.Now().Add(lossInterval)
	for {
		ring.SetDeadline(next)
		err := ring.ReadInto(&raw)
		switch {
		case err == nil:
			hand(raw.RawSample, to)
		case errors.Is(err, ringbuf.ErrFlushed):
			if ctx.Err() != nil {
				return count()
			}
			select {
			case flushed <- struct{}{}:
			case <-ctx.Done():
			}
		case errors.Is(err, ringbuf.ErrClosed):
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("read the hooks' ring: %w", err)
		}
		if now := time.Now(); !now.Before(next) {
			if err := count(); err != nil {
				return err
			}
			next = now.Add(lossInterval)
		}
	}
}

func hand(sample []byte, to Sink) {
	a, err := decode(sample)
	if err != nil {
		to.Lost(Lost{Cause: CauseMalformed, Count: 1})
		return
	}
	to.Access(a)
}

package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/ring"
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
	for i, r := range e.Rings() {
		if err := r.Flush(); err != nil {
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
func read(ctx context.Context, r *ring.Reader, to Sink, count func() error, flushed chan<- struct{}) error {
	stop := context.AfterFunc(ctx, func() { _ = r.Flush() })
	defer stop()
	next := time.Now().Add(lossInterval)
	for {
		sample, at, err := r.Read(next)
		switch {
		case err == nil:
			hand(sample, at, to)
		case errors.Is(err, ring.ErrFlushed):
			if ctx.Err() != nil {
				return count()
			}
			select {
			case flushed <- struct{}{}:
			case <-ctx.Done():
			}
		case errors.Is(err, ring.ErrClosed):
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

func hand(sample []byte, at event.Origin, to Sink) {
	a, err := decode(sample)
	if err != nil {
		to.Lost(Lost{Cause: CauseMalformed, Count: 1, Origin: at})
		return
	}
	a.Origin = at
	to.Access(a)
}

// Hand is what Run does with one record of a ring that was read elsewhere.
func Hand(s ring.Sample, to Sink) { hand(s.Data, s.At, to) }

// SampleTime is the time of a record, nanoseconds of CLOCK_BOOTTIME, 0 if it is
// none. It stands at the same place in the witness's.
func SampleTime(s ring.Sample) uint64 {
	if len(s.Data) < timeEnd {
		return 0
	}
	return binary.NativeEndian.Uint64(s.Data[timeEnd-8:])
}

// timeEnd is where the time of a record ends.
const timeEnd = 16

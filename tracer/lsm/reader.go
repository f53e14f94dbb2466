package lsm

import (
	"context"
	"errors"
	"fmt"
	"os"
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
// hold and returns nil. After Close it returns nil at once. Only one Run may be
// active.
func (e *Engine) Run(ctx context.Context, to Sink) error {
	var group errgroup.Group
	group.Go(func() error {
		return read(ctx, e.urgent, to, func() error { return e.losses.since(to.Lost) })
	})
	group.Go(func() error { return read(ctx, e.flow, to, func() error { return nil }) })
	return group.Wait()
}

// read hands on the records of one ring; count is called now and then.
func read(ctx context.Context, ring *ringbuf.Reader, to Sink, count func() error) error {
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
			return count()
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

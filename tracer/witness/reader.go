package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// lossInterval is how often the kernel's loss counters are looked at.
const lossInterval = 200 * time.Millisecond

// Run hands every record to report, in the order of the ring, and losses as they
// are noticed, until ctx is done; then it hands over what the ring still holds
// and returns nil. After Close it returns nil at once. Only one Run may be active.
//
// report must be quick: while it runs the ring fills, and what finds no room is
// lost (and counted).
func (w *Witness) Run(ctx context.Context, report func(Record)) error {
	stop := context.AfterFunc(ctx, func() { _ = w.reader.Flush() })
	defer stop()
	var raw ringbuf.Record
	next := time.Now().Add(lossInterval)
	for {
		w.reader.SetDeadline(next)
		err := w.reader.ReadInto(&raw)
		switch {
		case err == nil:
			w.hand(raw.RawSample, report)
		case errors.Is(err, ringbuf.ErrFlushed):
			return w.losses.since(report)
		case errors.Is(err, ringbuf.ErrClosed):
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("read witness ring: %w", err)
		}
		if now := time.Now(); !now.Before(next) {
			if err := w.losses.since(report); err != nil {
				return err
			}
			next = now.Add(lossInterval)
		}
	}
}

func (w *Witness) hand(sample []byte, report func(Record)) {
	r, err := decode(sample)
	if err != nil {
		report(Lost{Cause: CauseMalformed, Count: 1})
		return
	}
	report(r)
}

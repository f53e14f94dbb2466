package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/ring"
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
	next := time.Now().Add(lossInterval)
	for {
		sample, at, err := w.reader.Read(next)
		switch {
		case err == nil:
			w.at = at
			report(read(sample))
			w.at = event.Origin{}
		case errors.Is(err, ring.ErrFlushed):
			return w.losses.since(report)
		case errors.Is(err, ring.ErrClosed):
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

// Origin is where the record stands that is being reported; it is for report alone.
// Losses that were only counted have none.
func (w *Witness) Origin() event.Origin { return w.at }

// Ring is the witness's.
func (w *Witness) Ring() *ring.Reader { return w.reader }

func read(sample []byte) Record {
	r, err := decode(sample)
	if err != nil {
		return Lost{Cause: CauseMalformed, Count: 1}
	}
	return r
}

// Read is what Run reports of one record of the ring that was read elsewhere.
func Read(s ring.Sample) Record { return read(s.Data) }

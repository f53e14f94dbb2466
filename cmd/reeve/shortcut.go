package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// brief is how long a session lives without a bus. To set one up, and to take it
// down again, is most of what a short command would wait for. Until then records
// go to the store directly, which is open sooner.
const brief = 50 * time.Millisecond

// mayBeBrief says whether the session could do without a bus. One that
// acknowledges each record, forwards them, or has a store that may be away, needs
// it from the start.
func (s *stream) mayBeBrief() bool {
	return !s.cfg.strict && s.cfg.nats == "" && strings.HasPrefix(s.cfg.storeURL, "sqlite:")
}

// isBrief waits until it is known whether the session is over before it needs a
// bus. It may be called from any goroutine.
func (s *stream) isBrief() bool {
	if !s.mayBeBrief() {
		return false
	}
	long := time.NewTimer(brief)
	defer long.Stop()
	select {
	case <-s.closing:
		return true
	case <-long.C:
	case <-s.ctx.Done():
	}
	return false
}

// shortcut takes records to the store without a bus between, and reports whether
// the session is over and that was all. If not, what comes from now on, and what
// the store did not take, goes to the bus that is then opened; the store drops
// what it has.
func (s *stream) shortcut() bool {
	if !s.mayBeBrief() {
		return false
	}
	var err error
	if s.store, err = openStore(s.cfg.storeURL); err != nil {
		return false // open will say it
	}
	if o, ok := s.store.(interface{ Open(context.Context) error }); ok && o.Open(s.ctx) != nil {
		return false // the first Append will say it
	}
	direct := &directBus{store: s.store, queue: make(chan directMessage, pipeline.DefaultWindow), failed: make(chan struct{}), over: make(chan struct{})}
	s.group.Go(func() error {
		direct.run(s.ctx, s.published)
		return nil
	})
	s.pub.Attach(direct)
	long := time.NewTimer(brief)
	defer long.Stop()
	select {
	case <-s.closing:
		select {
		case <-s.published:
			return true
		case <-direct.failed:
		case <-s.ctx.Done():
		}
	case <-long.C:
	case <-direct.failed:
	case <-s.ctx.Done():
	}
	close(direct.over)
	return false
}

// directBus is a bus that is a store: what it acks is stored.
type directBus struct {
	store  storage.Writer
	queue  chan directMessage
	once   sync.Once
	failed chan struct{} // closed when the store did not take a message
	over   chan struct{} // closed when another bus takes its place
}

type directMessage struct {
	id   string
	data []byte
	done func(error)
}

// Publish is that of pipeline.Bus.
func (b *directBus) Publish(id string, data []byte, done func(error)) {
	select {
	case b.queue <- directMessage{id, data, done}:
	default:
		done(fmt.Errorf("bug: more than %d messages wait for the store", cap(b.queue)))
	}
}

// run appends what is published, until nothing is published any more. What still
// waits when another bus takes over is left to be published there.
func (b *directBus) run(ctx context.Context, published <-chan struct{}) {
	for {
		select {
		case m := <-b.queue:
			select {
			case <-b.over:
				m.done(pipeline.ErrReplaced)
				continue
			default:
			}
			err := b.append(ctx, m)
			if err != nil {
				b.once.Do(func() { close(b.failed) })
			}
			m.done(err)
		case <-published:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (b *directBus) append(ctx context.Context, m directMessage) error {
	var batch event.Batch
	if err := batch.UnmarshalBinary(m.data); err != nil {
		return fmt.Errorf("bug: message %s: %w", m.id, err)
	}
	return b.store.Append(ctx, event.Delivery{Stream: batch.Session, First: batch.First, Last: batch.Last, Batches: []event.Batch{batch}})
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/reeve-audit/reeve/pipeline"
)

// The names of the consumers of a session's own stream.
const (
	StoreConsumer   = "store"
	ForwardConsumer = "forward"
)

// The bounds of what a consumer holds.
const (
	prefetchBytes    = 4 << 20
	prefetchMessages = 64
	maxAckPending    = 1 << 14
	// ackWait is how long a message waits for the ack of the process that got it,
	// before it is sent to another.
	ackWait = time.Minute
	// askAgain is how long to wait for messages that the server has not sent yet,
	// maxTries how often when it says that it has none, and askSlowly how long then
	// for those that another process got and has not acked.
	askAgain  = 5 * time.Millisecond
	maxTries  = 200
	askSlowly = 100 * time.Millisecond
	// longAgo keeps a consumer whose process is stopped for a while.
	longAgo = 24 * time.Hour
)

// Position says where a consumer's progress is kept.
type Position int

// The positions.
const (
	// PositionMemory forgets progress with the server; a new consumer begins at
	// the start. It costs no file, and suits a store that drops repetitions.
	PositionMemory Position = iota
	// PositionDurable keeps it with the stream.
	PositionDurable
)

// Consumer is one reader of the stream, a pipeline.Source. Fetch is for one
// goroutine. On a server elsewhere, processes may share a durable name and with
// it the messages; in a local stream a name is for one Consumer at a time.
type Consumer struct {
	b        *Bus
	name     string
	pos      Position
	cons     jetstream.Consumer
	running  jetstream.ConsumeContext
	msgs     chan jetstream.Msg
	received atomic.Uint64
	held     atomic.Int64 // messages that were fetched and neither acked nor refused
	before   uint64       // deliveries to earlier consumers of the name
	quit     chan struct{}
}

// Consume starts the consumer called name.
func (b *Bus) Consume(ctx context.Context, name string, pos Position) (*Consumer, error) {
	cfg := jetstream.ConsumerConfig{
		Durable: name, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: maxAckPending,
		AckWait: ackWait, FilterSubject: subjects, InactiveThreshold: 0,
	}
	if pos == PositionMemory {
		cfg.MemoryStorage, cfg.InactiveThreshold = true, longAgo
	}
	if b.local != nil && pos == PositionDurable {
		if err := b.takeOver(ctx, name, &cfg); err != nil {
			return nil, fmt.Errorf("consumer %s: %w", name, err)
		}
	}
	cons, err := b.stream.CreateOrUpdateConsumer(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", name, err)
	}
	c := &Consumer{
		b: b, name: name, pos: pos, cons: cons, msgs: make(chan jetstream.Msg, prefetchMessages), quit: make(chan struct{}),
		before: cons.CachedInfo().Delivered.Consumer,
	}
	c.running, err = cons.Consume(c.receive, jetstream.PullMaxBytes(prefetchBytes),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			b.log.Debug("consume", "consumer", name, "err", err) // it pulls again by itself
		}))
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", name, err)
	}
	b.mu.Lock()
	b.consumers = append(b.consumers, c)
	b.mu.Unlock()
	return c, nil
}

// takeOver replaces a durable consumer that a process left behind by one that
// begins where that one's acks end, so that what was on its way to the dead
// process comes at once and not after AckWait. Nobody else has a local stream.
func (b *Bus) takeOver(ctx context.Context, name string, cfg *jetstream.ConsumerConfig) error {
	old, err := b.stream.Consumer(ctx, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if floor := old.CachedInfo().AckFloor.Stream; floor > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, floor+1
	}
	return b.stream.DeleteConsumer(ctx, name)
}

func (c *Consumer) receive(m jetstream.Msg) {
	select {
	case c.msgs <- m:
		c.received.Add(1) // after it can be fetched: Fetch relies on it
	case <-c.quit:
	}
}

func (c *Consumer) stop() {
	close(c.quit)
	c.running.Stop()
}

// Fetch is that of pipeline.Source. Without wait it returns none only when the
// stream has nothing that was not fetched before, and nothing that another process
// of the name fetched and left without an ack: it may have died.
func (c *Consumer) Fetch(ctx context.Context, limit int, wait bool) ([]pipeline.Message, error) {
	if out := c.ready(nil, limit); len(out) > 0 {
		return out, nil
	}
	if wait {
		select {
		case m := <-c.msgs:
			return c.ready(c.add(nil, m), limit), nil
		case <-c.quit:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	pause, began := askAgain, time.Now()
	for tries := 0; ; tries++ {
		if tries == maxTries {
			pause = askSlowly
			c.b.log.Info("waiting for messages that another process has and does not ack", "consumer", c.name, "longest", 2*ackWait)
		}
		empty, err := c.drained(ctx, tries, time.Since(began))
		if err != nil {
			return nil, err
		}
		if empty {
			return c.ready(nil, limit), nil
		}
		again := time.NewTimer(pause)
		select {
		case m := <-c.msgs:
			again.Stop()
			return c.ready(c.add(nil, m), limit), nil
		case <-again.C:
		case <-c.quit:
			again.Stop()
			return nil, ErrClosed
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		}
	}
}

// drained reports whether everything in the stream has been received; tries is
// how often it was asked in a row, and for how long. The consumer's own count of what is
// pending lags behind the stream, also behind messages that the server has acked, so the
// stream's last sequence number decides. Where that does not help (the stream
// holds other subjects, or processes share the consumer and what was delivered
// went to another one), the count does, when it has stood still for a while. What went
// to another process and is not acked comes to us after ackWait, or is acked; if
// neither, that process lives and holds on to it. Whoever holds messages of ours should
// see to them first, and is not kept waiting.
func (c *Consumer) drained(ctx context.Context, tries int, waited time.Duration) (bool, error) {
	info, err := c.cons.Info(ctx)
	if err != nil {
		return false, fmt.Errorf("consumer info: %w", err)
	}
	if info.NumPending > 0 {
		return false, nil
	}
	stream, err := c.b.stream.Info(ctx)
	if err != nil {
		return false, fmt.Errorf("stream info: %w", err)
	}
	arrived := c.before+c.received.Load() >= info.Delivered.Consumer
	all := stream.State.Msgs == 0 || info.Delivered.Stream >= stream.State.LastSeq
	elsewhere := c.b.local == nil && c.held.Load() == 0 && info.NumAckPending > 0 && waited < 2*ackWait
	return (arrived && all || tries >= maxTries) && !elsewhere, nil
}

// ready appends what has arrived.
func (c *Consumer) ready(out []pipeline.Message, limit int) []pipeline.Message {
	for len(out) < limit {
		select {
		case m := <-c.msgs:
			out = c.add(out, m)
		default:
			return out
		}
	}
	return out
}

func (c *Consumer) add(out []pipeline.Message, m jetstream.Msg) []pipeline.Message {
	meta, err := m.Metadata()
	if err != nil {
		// Not of a stream: somebody publishes to our inbox.
		c.b.log.Warn("a message without stream metadata is left out", "subject", m.Subject(), "err", err)
		return out
	}
	c.held.Add(1)
	return append(out, pipeline.Message{
		Stream: c.b.name, Seq: meta.Sequence.Stream, ID: m.Headers().Get(jetstream.MsgIDHeader), Data: m.Data(),
		Ack:     func() error { c.held.Add(-1); return m.Ack() },
		AckSync: func(ctx context.Context) error { c.held.Add(-1); return m.DoubleAck(ctx) },
		Refuse:  func() error { c.held.Add(-1); return m.Term() },
	})
}

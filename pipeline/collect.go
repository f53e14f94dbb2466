package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Message is one message of a stream, as a consumer got it.
type Message struct {
	// Stream names the stream for good, Seq is the message's place in it.
	Stream string
	Seq    uint64
	// ID is the id it was published with.
	ID   string
	Data []byte
	// Ack tells the stream that this consumer is done with the message; AckSync
	// also waits until the stream knows, of this one and those acked before.
	Ack     func() error
	AckSync func(context.Context) error
	// Refuse tells it that the message can never be handled.
	Refuse func() error
}

// Source is one consumer's view of a stream: messages in the order of the
// stream, each again until it is acked.
type Source interface {
	// Fetch waits until there is a message, at most until ctx ends, and returns
	// what is there, at most most messages. Without wait, or when ctx ends, it may return
	// none. The error is a broken connection and the like.
	Fetch(ctx context.Context, most int, wait bool) ([]Message, error)
}

// Store keeps deliveries. Append returns when all of d is kept; a record of d
// that it already has, by session and seq, is not kept twice, so the same
// delivery, or a part of it in another delivery, may be appended again. The records
// of d are another's once it has returned nil.
type Store interface {
	Append(ctx context.Context, d event.Delivery) error
}

// CollectorConfig is what a Collector needs; the zero of Linger, Rows and Log
// is usable.
type CollectorConfig struct {
	Source Source
	Store  Store
	// Linger is how long the first message waits for others before the store
	// is bothered: 50 ms.
	Linger time.Duration
	// Rows is how many records make a delivery complete: 4096, some 4 MB.
	Rows int
	// Trim is called every TrimEvery messages (64, some 10 MB), so that the
	// stream can drop what every consumer has acked: a server holds each block of
	// its file, 8 MB, in memory for a while. It may be nil.
	Trim      func(context.Context) error
	TrimEvery int
	// Hopeless says of an error of the store's that no trying again helps: after
	// Stop, Run returns it instead. It may be nil.
	Hopeless func(error) bool
	Log      *slog.Logger
}

// Collector moves messages from a source into a store: append, then ack.
// A crash at any point repeats a delivery, and the store drops repetitions.
type Collector struct {
	cfg     CollectorConfig
	stop    stopper
	stored  uint64
	refused uint64
	acked   int             // messages since the last Trim
	free    [][]event.Event // of batches that are stored
}

// NewCollector wires a Collector; it is for one goroutine, Stop excepted.
func NewCollector(cfg CollectorConfig) (*Collector, error) {
	if cfg.Source == nil || cfg.Store == nil {
		return nil, errors.New("collect: needs a source and a store")
	}
	if cfg.Linger <= 0 {
		cfg.Linger = 50 * time.Millisecond
	}
	if cfg.Rows <= 0 {
		cfg.Rows = 4096
	}
	if cfg.TrimEvery <= 0 {
		cfg.TrimEvery = 64
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Collector{cfg: cfg, stop: newStopper()}, nil
}

// Stop makes Run return once the stream is empty. It never blocks, and works
// before Run too.
func (c *Collector) Stop() { c.stop.stop() }

// Stored is the number of records that were appended, Refused the number of
// messages that are no batch of records. Read them after Run.
func (c *Collector) Stored() uint64 { return c.stored }

// Refused is the number of messages that are no batch of records, see Stored.
func (c *Collector) Refused() uint64 { return c.refused }

// Run collects until ctx ends (its error is returned) or, after Stop, until the
// stream has nothing more (nil). A store or stream that fails is tried again
// with back-off for as long as ctx lasts.
func (c *Collector) Run(ctx context.Context) error {
	waiting, release := c.stop.watch(ctx)
	defer release()
	for attempt := 0; ; {
		stopping := waiting.Err() != nil
		g, err := c.gather(ctx, waiting)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if g.seen == 0 && err == nil && stopping {
			return nil
		}
		if err := c.deliver(ctx, waiting, g); err != nil {
			return err
		}
		if err == nil {
			attempt = 0
			continue
		}
		c.cfg.Log.Warn("the stream cannot be read; trying again", "err", err)
		if !pause(ctx, backoff(attempt)) {
			return ctx.Err()
		}
		attempt++
	}
}

// gathered is a delivery and the messages that it was made of.
type gathered struct {
	d    event.Delivery
	msgs []Message
	rows int
	seen int // messages, those that were refused included
}

// gather waits for messages and makes a delivery of what comes within Linger.
// On error, what came before it is good.
func (c *Collector) gather(ctx, waiting context.Context) (*gathered, error) {
	g := &gathered{}
	for g.rows < c.cfg.Rows {
		limit := max(1, (c.cfg.Rows-g.rows)/MaxBatch)
		stopping := waiting.Err() != nil
		fetch := waiting
		if stopping {
			fetch = ctx
		}
		msgs, err := c.cfg.Source.Fetch(fetch, limit, !stopping)
		if err != nil && !stopping && waiting.Err() != nil && ctx.Err() == nil {
			return g, nil // Linger is over, or Stop was called
		}
		if err != nil || len(msgs) == 0 {
			return g, err
		}
		if g.seen == 0 && !stopping {
			var cancel context.CancelFunc
			waiting, cancel = context.WithTimeout(waiting, c.cfg.Linger)
			defer cancel()
		}
		c.add(g, msgs)
		if !stopping && waiting.Err() != nil {
			return g, nil
		}
	}
	return g, nil
}

// add decodes messages into the delivery; what is no batch of ours is refused.
func (c *Collector) add(g *gathered, msgs []Message) {
	for _, m := range msgs {
		g.seen++
		var b event.Batch
		if n := len(c.free); n > 0 {
			b.Events, c.free = c.free[n-1], c.free[:n-1]
		}
		if err := b.UnmarshalBinary(m.Data); err != nil {
			c.refused++
			c.cfg.Log.Error("a message of the stream is no batch of records; it is left out",
				"stream", m.Stream, "seq", m.Seq, "id", m.ID, "err", err)
			if err := m.Refuse(); err != nil {
				c.cfg.Log.Warn("a message cannot be refused", "seq", m.Seq, "err", err)
			}
			continue
		}
		if len(g.msgs) == 0 {
			g.d.Stream, g.d.First = m.Stream, m.Seq
		}
		g.d.Last = m.Seq
		g.d.Batches = append(g.d.Batches, b)
		g.msgs = append(g.msgs, m)
		g.rows += len(b.Events)
	}
}

// deliver appends a delivery, however often it takes, and acks its messages. Once
// waiting is over it takes a store's word that nothing helps.
func (c *Collector) deliver(ctx, waiting context.Context, g *gathered) error {
	if len(g.msgs) == 0 {
		return nil
	}
	var why error // of the last try that ctx did not end
	for attempt := 0; ; attempt++ {
		err := c.cfg.Store.Append(ctx, g.d)
		if err == nil {
			break
		}
		if ctx.Err() == nil || why == nil {
			why = err
		}
		if ctx.Err() == nil {
			c.cfg.Log.Warn("the store does not take records; trying again", "err", err, "attempt", attempt+1)
		}
		again := ctx
		if c.cfg.Hopeless != nil && c.cfg.Hopeless(err) {
			again = waiting
		}
		if !pause(again, backoff(attempt)) {
			return fmt.Errorf("collect %s %d-%d: %w", g.d.Stream, g.d.First, g.d.Last, cutShort(ctx, why))
		}
	}
	for i := range g.d.Batches {
		c.free = append(c.free, g.d.Batches[i].Events)
	}
	c.stored += uint64(g.rows)
	c.ack(ctx, g.msgs)
	c.trim(ctx, len(g.msgs))
	return nil
}

// ackTimeout is how long the stream may take to say that it has the acks.
const ackTimeout = 5 * time.Second

// ack acks messages, and waits for the last one, so that Trim finds them acked.
// One that cannot be acked comes again, and the store knows it.
func (c *Collector) ack(ctx context.Context, msgs []Message) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	for i := range msgs {
		var err error
		if i == len(msgs)-1 {
			err = msgs[i].AckSync(ctx)
		} else {
			err = msgs[i].Ack()
		}
		if err != nil {
			c.cfg.Log.Debug("a message cannot be acked", "seq", msgs[i].Seq, "err", err)
		}
	}
}

func (c *Collector) trim(ctx context.Context, acked int) {
	if c.acked += acked; c.cfg.Trim == nil || c.acked < c.cfg.TrimEvery {
		return
	}
	c.acked = 0
	if err := c.cfg.Trim(ctx); err != nil {
		c.cfg.Log.Warn("the stream keeps what is stored already", "err", err)
	}
}

// pause waits, and reports whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

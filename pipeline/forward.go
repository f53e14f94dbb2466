package pipeline

import (
	"context"
	"errors"
	"log/slog"
)

// ForwarderConfig is what a Forwarder needs; the zero of Window and Log is usable.
type ForwarderConfig struct {
	Source Source
	To     Bus
	// Window is how many messages wait for the far ack at once: 64.
	Window int
	Log    *slog.Logger
}

// Forwarder copies the messages of one stream to another bus, unchanged and
// under their own ids, and acks each when the other bus has it. While that is
// away the messages stay where they are. A crash at any point repeats messages,
// which the other bus drops by their ids.
type Forwarder struct {
	cfg  ForwarderConfig
	stop stopper
	sent uint64
}

// NewForwarder wires a Forwarder; it is for one goroutine, Stop excepted.
func NewForwarder(cfg ForwarderConfig) (*Forwarder, error) {
	if cfg.Source == nil || cfg.To == nil {
		return nil, errors.New("forward: needs a source and a bus")
	}
	if cfg.Window <= 0 {
		cfg.Window = DefaultWindow
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Forwarder{cfg: cfg, stop: newStopper()}, nil
}

// Stop makes Run return once everything was forwarded. It never blocks, and
// works before Run too.
func (f *Forwarder) Stop() { f.stop.stop() }

// Sent is the number of messages that the other bus has acked. Read it after Run.
func (f *Forwarder) Sent() uint64 { return f.sent }

// Run forwards until ctx ends (its error is returned: what was not acked stays
// in the source) or, after Stop, until the source has nothing more (nil).
func (f *Forwarder) Run(ctx context.Context) error {
	waiting, release := f.stop.watch(ctx)
	defer release()
	for attempt := 0; ; {
		stopping := waiting.Err() != nil
		fetchCtx := waiting
		if stopping {
			fetchCtx = ctx
		}
		msgs, err := f.cfg.Source.Fetch(fetchCtx, f.cfg.Window, !stopping)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !stopping && waiting.Err() != nil:
			continue // stopped while waiting
		case err != nil:
			f.cfg.Log.Warn("the stream cannot be read; trying again", "err", err)
			if !pause(ctx, backoff(attempt)) {
				return ctx.Err()
			}
			attempt++
			continue
		case len(msgs) == 0 && stopping:
			return nil
		}
		attempt = 0
		if err := f.send(ctx, msgs); err != nil {
			return err
		}
	}
}

// send publishes msgs until the other bus has acked every one of them.
func (f *Forwarder) send(ctx context.Context, msgs []Message) error {
	type answer struct {
		i   int
		err error
	}
	todo := make([]int, len(msgs))
	for i := range todo {
		todo[i] = i
	}
	var why error // of the last message that was not taken
	for attempt := 0; len(todo) > 0; attempt++ {
		answers := make(chan answer, len(todo)) // room for all: done never blocks
		for _, i := range todo {
			f.cfg.To.Publish(msgs[i].ID, msgs[i].Data, func(err error) { answers <- answer{i, err} })
		}
		var failed []int
		for range todo {
			select {
			case a := <-answers:
				if a.err != nil {
					failed, why = append(failed, a.i), a.err
					continue
				}
				f.sent++
				if err := msgs[a.i].Ack(); err != nil {
					f.cfg.Log.Debug("a message cannot be acked", "seq", msgs[a.i].Seq, "err", err)
				}
			case <-ctx.Done():
				return cutShort(ctx, why)
			}
		}
		if todo = failed; len(todo) > 0 {
			f.cfg.Log.Warn("the server does not take messages; they are kept", "messages", len(todo), "err", why)
			if !pause(ctx, backoff(attempt)) {
				return cutShort(ctx, why)
			}
		}
	}
	return nil
}

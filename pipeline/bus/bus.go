// Package bus is the door to NATS JetStream: a server inside this process that
// nobody else can reach, with its file store in a session's directory, or a
// connection to a server elsewhere. Both give a pipeline.Bus to publish to and
// pipeline.Sources to read from.
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The names on the bus. The subject of a session's messages is the prefix and
// the session id.
const (
	StreamName    = "REEVE"
	subjectPrefix = "reeve.events."
	subjects      = subjectPrefix + ">"
)

// ackTimeout is how long a server may take to ack a message before it is
// published again.
const ackTimeout = 10 * time.Second

// ErrClosed is the answer to what is published after Close.
var ErrClosed = errors.New("the bus is closed")

// Bus is a connection to a stream. Its methods may be called from any goroutine.
type Bus struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	name   string // of the stream, for good
	log    *slog.Logger
	local  *local // nil for a server elsewhere

	mu        sync.Mutex
	pending   map[string]func(error) // by message id
	consumers []*Consumer
	closed    bool
	broken    error // why nothing can be published any more
}

// attach makes a Bus of a connection; use ensures the stream.
func attach(nc *nats.Conn, log *slog.Logger) (*Bus, error) {
	b := &Bus{nc: nc, log: log, pending: make(map[string]func(error))}
	js, err := jetstream.New(nc,
		jetstream.WithDefaultTimeout(startTimeout), // a busy machine answers late
		jetstream.WithPublishAsyncTimeout(ackTimeout),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) {
			b.answer(m.Header.Get(jetstream.MsgIDHeader), nil)
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			b.answer(m.Header.Get(jetstream.MsgIDHeader), b.explain(err))
		}))
	b.js = js
	return b, err
}

// explain adds what the embedded server logged about an error it answered with.
func (b *Bus) explain(err error) error {
	if b.local == nil {
		return err
	}
	if said := b.local.log.last(); said != "" {
		return fmt.Errorf("%w (the embedded server says: %s)", err, said)
	}
	return err
}

// Publish is that of pipeline.Bus. The session, and with it the subject, is
// what stands before the colon in id.
func (b *Bus) Publish(id string, data []byte, done func(error)) {
	session, _, ok := strings.Cut(id, ":")
	if !ok || session == "" || strings.ContainsAny(session, ".*> \t\r\n") {
		done(fmt.Errorf("bug: message id %q does not begin with a session id", id))
		return
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		done(ErrClosed)
		return
	}
	if err := b.broken; err != nil {
		b.mu.Unlock()
		done(err)
		return
	}
	if !b.nc.IsConnected() {
		// The client would buffer it, and its ack would go to the old connection.
		b.mu.Unlock()
		done(nats.ErrDisconnected)
		return
	}
	before := b.pending[id]
	b.pending[id] = done
	b.mu.Unlock()
	if before != nil {
		before(errors.New("published again before it was answered"))
	}
	m := &nats.Msg{
		Subject: subjectPrefix + session, Data: data,
		Header: nats.Header{jetstream.MsgIDHeader: []string{id}},
	}
	if _, err := b.js.PublishMsgAsync(m); err != nil {
		b.answer(id, b.explain(err))
	}
}

// fail answers everything, now and from now on, with err.
func (b *Bus) fail(err error) {
	b.mu.Lock()
	b.broken = err
	pending := b.pending
	b.pending = make(map[string]func(error))
	b.mu.Unlock()
	for _, done := range pending {
		done(err)
	}
}

func (b *Bus) answer(id string, err error) {
	b.mu.Lock()
	done := b.pending[id]
	delete(b.pending, id)
	b.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// LastSeq is the sequence number of the last message of the stream.
func (b *Bus) LastSeq(ctx context.Context) (uint64, error) {
	info, err := b.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("stream info: %w", err)
	}
	return info.State.LastSeq, nil
}

// Trim removes from a local stream what every consumer has acked, so that a
// long session does not fill the disk. A stream elsewhere is left alone.
func (b *Bus) Trim(ctx context.Context) error {
	if b.local == nil {
		return nil
	}
	// The server's list, not ours: a durable consumer may wait for its process.
	list := b.stream.ListConsumers(ctx)
	first := true
	var floor uint64
	for info := range list.Info() {
		if first || info.AckFloor.Stream < floor {
			first, floor = false, info.AckFloor.Stream
		}
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("trim stream: %w", err)
	}
	if floor == 0 {
		return nil
	}
	if err := b.stream.Purge(ctx, jetstream.WithPurgeSequence(floor+1)); err != nil {
		return fmt.Errorf("trim stream: %w", err)
	}
	return nil
}

// Close ends consumers and connection and, with a server inside this process,
// shuts that down; what it stored stays. Unanswered messages get ErrClosed.
func (b *Bus) Close() error { return b.close(false) }

// close is Close; forget says that durable consumers are not needed any more.
func (b *Bus) close(forget bool) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	pending, consumers := b.pending, b.consumers
	b.pending = make(map[string]func(error))
	b.mu.Unlock()
	for _, c := range consumers {
		c.stop()
		if b.local != nil && (forget || c.pos == PositionMemory) {
			// A server that has pull requests waiting takes 50 ms to shut down.
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if err := b.stream.DeleteConsumer(ctx, c.name); err != nil {
				b.log.Debug("delete consumer on close", "consumer", c.name, "err", err)
			}
			cancel()
		}
	}
	if b.nc.IsConnected() {
		// Acks are fire and forget: see them off. What is lost comes again.
		if err := b.nc.FlushTimeout(time.Second); err != nil {
			b.log.Debug("flush on close", "err", err)
		}
	}
	b.nc.Close()
	for _, done := range pending {
		done(ErrClosed)
	}
	if b.local != nil {
		return b.local.close()
	}
	return nil
}

// ensure gets the stream, or makes it (made: it cannot be there yet), and checks that it is what is needed:
// servers silently leave out what they do not know.
func (b *Bus) ensure(ctx context.Context, want jetstream.StreamConfig, made bool) error {
	var err error
	if !made {
		b.stream, err = b.js.Stream(ctx, want.Name)
		made = errors.Is(err, jetstream.ErrStreamNotFound)
	}
	if made {
		b.stream, err = b.js.CreateStream(ctx, want)
	}
	if err != nil {
		return b.explain(fmt.Errorf("stream %s: %w", want.Name, err))
	}
	info := b.stream.CachedInfo()
	if err := checkStream(want, info.Config, made); err != nil {
		return fmt.Errorf("stream %s: %w", want.Name, err)
	}
	b.name = fmt.Sprintf("%s@%d", want.Name, info.Created.UnixNano())
	return nil
}

// checkStream compares what was asked for with what the server has. A stream
// that somebody else made may be larger or older, but must be able to hold
// records and drop repetitions.
func checkStream(want, got jetstream.StreamConfig, made bool) error {
	var bad []string
	note := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	covered := false
	for _, s := range got.Subjects {
		covered = covered || s == subjects || s == ">" || s == "reeve.>"
	}
	note(covered, "subjects %v do not cover %s", got.Subjects, subjects)
	note(got.Storage == jetstream.FileStorage, "storage is %s, want file", got.Storage)
	note(!got.NoAck, "it does not ack")
	note(got.MaxMsgSize < 0 || got.MaxMsgSize >= 1<<20, "messages are limited to %d bytes, want 1 MiB", got.MaxMsgSize)
	note(got.Duplicates >= time.Minute, "repetitions are known for %s, want a minute or more", got.Duplicates)
	note(got.Retention == jetstream.LimitsPolicy, "retention is %s, want limits", got.Retention)
	if made {
		note(got.Discard == want.Discard, "discard is %s, want %s", got.Discard, want.Discard)
		note(got.DenyDelete == want.DenyDelete, "deny_delete was left out")
		note(got.MaxBytes == want.MaxBytes, "max_bytes is %d, want %d", got.MaxBytes, want.MaxBytes)
	}
	if len(bad) > 0 {
		return fmt.Errorf("the server's configuration does not fit: %s", strings.Join(bad, "; "))
	}
	return nil
}

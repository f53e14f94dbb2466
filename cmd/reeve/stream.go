package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/ring"
)

// stream takes a session's records to the bus and from there to the store. The
// bus and the store are opened beside the command, once it runs: it does not
// wait for them, and its records wait in order, in memory, until one is up. A
// session that is over before it got a bus does without: see shortcut.
type stream struct {
	cfg    streamConfig
	pub    *pipeline.Publisher
	group  *errgroup.Group
	ctx    context.Context // of the group
	cancel context.CancelFunc
	// ending ends when readers should stop as soon as there is nothing more.
	ending    context.Context
	endReader context.CancelFunc
	closing   chan struct{} // closed when the session is over
	published chan struct{} // closed when nothing is published any more
	up        chan struct{} // closed when the bus is up, or will not be
	// The rest is set before up is closed.
	bus   *bus.Bus
	store storage.Store
	last  errgroup.Group // the store's closing
	// unstored and unforwarded are how storing and forwarding ended; gaveUp says that
	// they were not waited for any longer. For end to read, and whoever comes after it.
	unstored, unforwarded error
	gaveUp                bool
}

type streamConfig struct {
	session, busDir, storeURL, nats string
	strict                          bool
	// journal notes which of the kernel's records are in a message, and acked hears
	// which are safe.
	journal *ring.Journal
	acked   func([]event.Origin)
	// noteLoss keeps how many records there are when the bus has not taken them all.
	noteLoss func(made uint64) error
	// waits, which may be nil, is called when the end takes long.
	waits func()
	log   *slog.Logger
}

// openStream starts recording, in memory until connect is called.
func openStream(ctx context.Context, cfg streamConfig) (*stream, error) {
	pub, err := pipeline.NewPublisher(pipeline.PublisherConfig{
		Session: cfg.session, Strict: cfg.strict, Journal: cfg.journal.Note, Acked: cfg.acked, Log: cfg.log,
	})
	if err != nil {
		return nil, err
	}
	s := &stream{cfg: cfg, pub: pub, closing: make(chan struct{}), published: make(chan struct{}), up: make(chan struct{})}
	ctx, s.cancel = context.WithCancel(ctx)
	s.ending, s.endReader = context.WithCancel(context.Background())
	s.group, s.ctx = errgroup.WithContext(ctx)
	s.group.Go(func() error {
		defer close(s.published)
		return errors.Join(pub.Run(s.ctx), cfg.journal.Close())
	})
	return s, nil
}

// connect opens the bus beside the caller, and whoever reads from it.
func (s *stream) connect() {
	s.group.Go(func() error {
		defer close(s.up)
		if s.shortcut() {
			return nil
		}
		return s.open(s.ctx)
	})
}

// broken is for how long the bus may refuse records before the session ends:
// what cannot be recorded must not happen.
const broken = time.Second

// watch ends the stream, and with it the session, when the bus stays broken.
func (s *stream) watch(ctx context.Context) error {
	tick := time.NewTicker(broken / 10)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.ending.Done():
			return nil
		case now := <-tick.C:
			switch err := s.pub.Err(); {
			case err == nil:
				since = time.Time{}
			case since.IsZero():
				since = now
			case now.Sub(since) >= broken:
				return err
			}
		}
	}
}

func (s *stream) open(ctx context.Context) (err error) {
	if s.bus, err = bus.Open(ctx, bus.Config{Dir: s.cfg.busDir, Log: s.cfg.log}); err != nil {
		return fmt.Errorf("open the session's bus: %w", err)
	}
	s.pub.Attach(s.bus)
	s.group.Go(func() error { return s.watch(ctx) })
	if s.store == nil {
		if s.store, err = openStore(s.cfg.storeURL); err != nil {
			return err
		}
	}
	if s.cfg.nats != "" { // before anything is trimmed
		if err := s.forward(ctx); err != nil {
			return err
		}
	}
	source, err := s.bus.Consume(ctx, "collect", bus.PositionMemory)
	if err != nil {
		return err
	}
	collector, err := pipeline.NewCollector(pipeline.CollectorConfig{Source: source, Store: s.store, Trim: s.bus.Trim, Hopeless: hopeless, Log: s.cfg.log})
	if err != nil {
		return err
	}
	context.AfterFunc(s.ending, collector.Stop)
	s.group.Go(func() error {
		s.unstored = collector.Run(ctx)
		return s.unstored
	})
	return nil
}

// forward also sends the records to a server elsewhere.
func (s *stream) forward(ctx context.Context) error {
	source, err := s.bus.Consume(ctx, "forward", bus.PositionDurable)
	if err != nil {
		return err
	}
	s.group.Go(func() (err error) {
		defer func() { s.unforwarded = err }()
		remote, err := bus.DialRetry(ctx, bus.DialConfig{URL: s.cfg.nats, Log: s.cfg.log})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remote.Close()) }()
		f, err := pipeline.NewForwarder(pipeline.ForwarderConfig{Source: source, To: remote, Log: s.cfg.log})
		if err != nil {
			return err
		}
		context.AfterFunc(s.ending, f.Stop)
		return f.Run(ctx)
	})
	return nil
}

// How long the end of a session waits for the bus, and for a store that is not
// there: what it has not got by then stays on disk for the next reeve to store.
const (
	busPatience   = 30 * time.Second
	storePatience = 10 * time.Second
	noticeable    = time.Second // when a person is told
)

// end publishes what is left, and stores it if the store is there. stored says
// that the store has all of it.
func (s *stream) end() (totals pipeline.Totals, stored bool, err error) {
	close(s.closing)
	ctx, cancel := context.WithTimeout(context.Background(), busPatience)
	defer cancel()
	totals, err = s.pub.Close(ctx)
	if made := totals.Events + totals.Unstated; made > totals.Acked {
		err = errors.Join(err, s.cfg.noteLoss(made))
	}
	<-s.up
	s.endReader()
	late := time.AfterFunc(storePatience, s.cancel)
	if s.cfg.waits != nil {
		defer time.AfterFunc(noticeable, s.cfg.waits).Stop()
	}
	if s.bus == nil {
		s.cancel() // nobody else will
	}
	runErr := s.group.Wait()
	inTime := late.Stop()
	s.cancel()
	stored = err == nil && runErr == nil
	s.gaveUp = !inTime || hopeless(runErr)
	if errors.Is(runErr, context.Canceled) || hopeless(runErr) || !inTime && errors.Is(runErr, s.unforwarded) {
		runErr = nil // see undelivered
	}
	return totals, stored, errors.Join(err, runErr, s.close(stored))
}

// undelivered says, after end, what somebody who did not answer in time, or never
// will, has not got, and why.
func (s *stream) undelivered() error {
	if !s.gaveUp {
		return nil
	}
	reason := func(what string, err error) error {
		if err == nil || hopeless(err) {
			return err
		}
		if err.Error() == context.Canceled.Error() {
			err = fmt.Errorf("no answer within %v", storePatience)
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return errors.Join(reason("not all records are stored", s.unstored), reason("not all records are forwarded", s.unforwarded))
}

// abandon ends a stream that was not connected, of a session that did not start.
func (s *stream) abandon() {
	s.cancel()
	s.endReader()
	_ = s.group.Wait() // it was told to stop
}

// close closes the bus, and begins to close the store.
func (s *stream) close(stored bool) error {
	if s.store != nil {
		s.last.Go(s.store.Close)
	}
	switch {
	case s.bus == nil:
		return nil
	case stored:
		return s.bus.Discard()
	}
	return s.bus.Close()
}

// closed waits for the store to be closed: it has all records since end, and now
// they are on the disk.
func (s *stream) closed() error { return s.last.Wait() }

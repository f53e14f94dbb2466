package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
)

// forwarderName is the durable consumer of a session's own stream by which its
// records go to a server elsewhere.
const forwarderName = "forward"

// drainPatience is how long one session's leftovers may take to reach a store or
// server that may be away. They stay where they are when it is over.
const drainPatience = 20 * time.Second

// drain stores what crashed sessions left in their streams. What cannot be
// stored now is said, stays, and is tried again next time: a verb that reads
// should still show what there is.
func drain(ctx context.Context, warn io.Writer, st *session.State, own storage.Store) {
	ids, err := st.Pending()
	if err != nil {
		say(warn, err)
		return
	}
	away := map[session.Target]int{} // by target, how many sessions did not get there
	defer func() {
		for _, n := range away {
			if n > 1 {
				say(warn, fmt.Errorf("what %d more sessions left was not tried, since it goes to the same place", n-1))
			}
		}
	}()
	for _, id := range ids {
		if ctx.Err() != nil {
			return
		}
		claim, err := st.Claim(id)
		if errors.Is(err, session.ErrLive) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		switch {
		case err != nil:
		case claim.HasBus() || tracer.HasLeftovers(claim.Dir):
			err = drainOne(ctx, st, claim, own, away)
		case claim.Unclean(): // it died before it had recorded anything
			err = claim.Stored()
		}
		if claim != nil {
			err = errors.Join(err, claim.Release())
		}
		if err != nil {
			say(warn, withHint(fmt.Errorf("store what session %s left: %w", id, err), "it stays in the state directory and is tried again next time; `reeve sessions rm "+id+"` gives it up"))
		}
	}
}

// drainOne stores what one session left, unless what another one left did not get
// to the same place just now.
func drainOne(ctx context.Context, st *session.State, claim *session.Claim, own storage.Store, away map[session.Target]int) error {
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	target, err := claim.Target()
	if err != nil {
		return err
	}
	if away[target] > 0 {
		away[target]++
		return nil
	}
	// Where reeve was killed before it had a stream, the rings may hold all the same.
	b, err := bus.Open(ctx, bus.Config{Dir: claim.BusDir(), Existing: claim.HasBus()})
	if err != nil {
		return err
	}
	if err := deliverAll(ctx, b, leftovers{st, claim, b}, target, own); err != nil {
		if errors.Is(err, storage.ErrUnusable) || ctx.Err() != nil {
			away[target]++
		}
		return errors.Join(err, b.Close())
	}
	return errors.Join(b.Discard(), claim.Stored())
}

// deliverAll brings everything in a stream, and what the kernel's rings still held,
// to where the session wanted it.
func deliverAll(ctx context.Context, b *bus.Bus, left leftovers, target session.Target, own storage.Store) (err error) {
	store := own
	if target.Store != "" {
		if store, err = openStore(target.Store); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	if err := collectAll(ctx, b, "leftovers", store); err != nil {
		return err
	}
	if left.any() {
		if err := left.recover(ctx, store); err != nil {
			return fmt.Errorf("recover what its stream lacks: %w", err)
		}
		if err := collectAll(ctx, b, "recovered", store); err != nil {
			return err
		}
	}
	if target.NATS == "" {
		return nil
	}
	return forwardAll(ctx, b, target.NATS)
}

// collectAll stores everything in a stream. consumer is a name that the stream does
// not know yet.
func collectAll(ctx context.Context, b *bus.Bus, consumer string, store storage.Store) error {
	source, err := b.Consume(ctx, consumer, bus.PositionMemory)
	if err != nil {
		return err
	}
	collector, err := pipeline.NewCollector(pipeline.CollectorConfig{Source: source, Store: store, Hopeless: hopeless})
	if err != nil {
		return err
	}
	collector.Stop() // when the stream has no more
	return collector.Run(ctx)
}

// hopeless reports an error of a store that will not pass.
func hopeless(err error) bool { return errors.Is(err, storage.ErrUnusable) }

// forwardAll sends what the session's own forwarder had not sent yet.
func forwardAll(ctx context.Context, b *bus.Bus, server string) (err error) {
	source, err := b.Consume(ctx, forwarderName, bus.PositionDurable)
	if err != nil {
		return err
	}
	far, err := bus.Dial(ctx, bus.DialConfig{URL: server})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.Close()) }()
	forwarder, err := pipeline.NewForwarder(pipeline.ForwarderConfig{Source: source, To: far})
	if err != nil {
		return err
	}
	forwarder.Stop() // when the stream has no more
	return forwarder.Run(ctx)
}

// prune forgets the directories of sessions that are older than the default store
// keeps any and that it does not hold any more. The records of a session that
// went to another store stay there.
func prune(ctx context.Context, st *session.State, own storage.Store, now time.Time) error {
	list, err := own.Sessions(ctx, 0)
	if err != nil {
		return err
	}
	held := make(map[string]bool, len(list))
	for i := range list {
		held[list[i].ID] = true
	}
	_, err = st.Prune(now, func(id string) bool {
		u, err := ulid.ParseStrict(id)
		return err != nil || held[id] || now.Sub(u.Timestamp()) < keepAge
	})
	return err
}

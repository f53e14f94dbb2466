package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// leftovers are what a session left whose reeve was killed, or could not record all of
// it: its stream, how many records that should hold, and what its init saved of the
// kernel's rings. See package ring.
type leftovers struct {
	state *session.State
	claim *session.Claim
	bus   *bus.Bus
}

// recover puts what is not there yet onto the session's bus, behind the last record of
// the stream, all of which store has. A publisher goes on with its numbers and its
// chain. What is interrupted here is done again the next time.
func (l leftovers) recover(ctx context.Context, store storage.Store) error {
	id := l.claim.ID
	last, err := lastRecord(ctx, store, id)
	if err != nil {
		return err
	}
	marks, err := tracer.Marks(l.claim.Dir, last.Seq)
	if err != nil {
		return err
	}
	journal := tracer.Journal(l.claim.Dir)
	pub, err := pipeline.NewPublisher(pipeline.PublisherConfig{
		Session: id, Strict: true, After: last.Seq, Chain: last.Chain, Marks: marks, Journal: journal.Note,
	})
	if err != nil {
		return err
	}
	pub.Attach(l.bus)
	var group errgroup.Group
	group.Go(func() error { return errors.Join(pub.Run(ctx), journal.Close()) })
	err = l.record(ctx, store, &last, pub)
	_, closeErr := pub.Close(ctx)
	if err = errors.Join(err, closeErr, group.Wait()); err != nil {
		return err
	}
	if !tracer.HasLeftovers(l.claim.Dir) {
		return nil
	}
	return tracer.ForgetLeftovers(l.claim.Dir)
}

// any says whether there may be more to record than the stream holds.
func (l leftovers) any() bool {
	made, err := l.claim.Made()
	return made > 0 || err != nil || tracer.HasLeftovers(l.claim.Dir)
}

// reasonUntaken is that of records which no bus has taken.
const reasonUntaken = "the bus had not taken them when the session ended"

// loss records how many records the session made that its stream lacks, once.
func (l leftovers) loss(ctx context.Context, store storage.Store, last *event.Event, to gate.Recorder) error {
	made, unread := l.claim.Made()
	if unread != nil {
		made = last.Seq + 1 // how many is not known
	}
	if made <= last.Seq {
		return nil
	}
	for e, err := range store.Events(ctx, storage.Query{Session: l.claim.ID, Kinds: []event.Kind{event.KindLost}}) {
		if err != nil || e.Reason == reasonUntaken {
			return err
		}
	}
	to.Record(event.Event{
		Engine: last.Engine, Kind: event.KindLost, Op: event.OpLoss, By: "recorder", Count: made - last.Seq, Reason: reasonUntaken,
	})
	return nil
}

// record records what the stream lacks, as far as it is known, and what the rings held.
func (l leftovers) record(ctx context.Context, store storage.Store, last *event.Event, to gate.Recorder) error {
	m, err := l.claim.Manifest()
	if err != nil {
		// What the rings held is worth more than what cannot be said of it.
		m.Engine = last.Engine
	}
	if last.Seq == 0 && err == nil { // not even its beginning is on record
		text, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("encode manifest: %w", err)
		}
		to.Record(event.Event{Time: m.Started, Engine: m.Engine, Kind: event.KindSession, Op: event.OpStart, By: "reeve", Detail: string(text)})
	}
	if err := l.loss(ctx, store, last, to); err != nil || !tracer.HasLeftovers(l.claim.Dir) {
		return err
	}
	nested := false
	for _, err := range store.Events(ctx, storage.Query{Session: l.claim.ID, Ops: []event.Op{event.OpNest}, Limit: 1}) {
		if err != nil {
			return err
		}
		nested = true
	}
	recovery := tracer.Recovery{Dir: l.claim.Dir, Last: last.Seq, Nested: nested, Engine: m.Engine, Rules: l.rules(m.Basis)}
	return recovery.Run(store.Events(ctx, storage.Query{
		Session: l.claim.ID, Kinds: []event.Kind{event.KindFact}, Ops: []event.Op{event.OpFork, event.OpExec},
	}), to)
}

// rules is the session's policy as its manifest has it; nil if that does not tell, or
// is of another reeve: the records then name no rule.
func (l leftovers) rules(b *session.Basis) gate.Decider {
	if b.Check() != nil {
		return nil
	}
	sources, err := b.Sources()
	if err != nil {
		return nil
	}
	p, err := policy.LoadCached(sources, b.Profile, b.Facts(), l.state.PolicyCache())
	if err != nil {
		return nil
	}
	return p
}

// lastRecord is the last record that a store has of a session, the zero value if it
// has none.
func lastRecord(ctx context.Context, store storage.Store, id string) (last event.Event, err error) {
	s, err := store.Session(ctx, id)
	if errors.Is(err, storage.ErrNoSession) || err == nil && s.LastSeq == 0 {
		return last, nil
	}
	if err != nil {
		return last, err
	}
	for e, err := range store.Events(ctx, storage.Query{Session: id, AfterSeq: s.LastSeq - 1}) {
		if err != nil {
			return last, err
		}
		last = e
	}
	if last.Seq != s.LastSeq {
		return last, fmt.Errorf("the store says that record %d is the last of session %s, and does not have it", s.LastSeq, id)
	}
	return last, nil
}

package main

import (
	"context"
	"sync"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// innerSession is one session inside another.
type innerSession struct {
	session  *session.Session
	policy   *policy.Policy
	member   gate.Member
	manifest session.Manifest
	tap      *tap
	hooks    *tracer.Inner // nil but for engine lsm
	unwatch  func() bool

	mu    sync.RWMutex // guards ended
	ended bool
	outer gate.Recorder // takes what comes after the end
}

// Record takes an event of the session; what comes after its end is the outer
// one's.
func (in *innerSession) Record(e event.Event) {
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.ended {
		in.outer.Record(e)
		return
	}
	in.tap.Record(e)
}

// end records the last event, behind which nothing is recorded; false if there is
// one already.
func (in *innerSession) end(e event.Event) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		return false
	}
	in.tap.Record(e)
	in.ended = true
	return true
}

func (in *innerSession) over() bool {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.ended
}

// Failing reports that the bus refuses records at the moment.
func (in *innerSession) Failing() bool {
	if in.over() {
		return in.outer.Failing()
	}
	return in.tap.Failing()
}

// RecordAcked is Record that waits for the bus.
func (in *innerSession) RecordAcked(ctx context.Context, e event.Event) error {
	if in.over() {
		return in.outer.RecordAcked(ctx, e)
	}
	return in.tap.RecordAcked(ctx, e)
}

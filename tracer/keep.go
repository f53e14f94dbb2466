package tracer

import (
	"errors"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/ring"
)

// The rings of a session by number: the witness's, and those of the hooks. A session
// inside has one of its own.
const (
	ringFacts uint32 = iota + 1
	ringUrgent
	ringFlow
	ringsInner // and the index of the session inside
)

// ringName is what a ring holds.
func ringName(number uint32) string {
	switch number {
	case ringFacts:
		return "forks, programs and exits"
	case ringFlow:
		return "allowed operations"
	}
	return "denials"
}

// Keep is what init holds in order to save what the rings hold when this process
// dies. The descriptors stay the caller's.
type Keep struct {
	// Dir is the session's directory. Lock is the file by whose lock others know
	// that the session is not over.
	Dir, Lock int
}

// number is a ring's number, 0 where nothing is kept.
func (l *Launcher) number(ring uint32) uint32 {
	if l.kept == nil {
		return 0
	}
	return ring
}

// Acked says that records from pieces of the rings are safe. It may be called from
// any goroutine, at any time.
func (l *Launcher) Acked(pieces []event.Origin) {
	if l.kept != nil {
		l.kept.Ack(pieces)
	}
}

// keepRings has init hold the rings.
func (s *Session) keepRings(l *Launcher, cfg *Config) error {
	if (l.kept == nil) != (cfg.Keep == nil) {
		return errors.New("bug: records are kept by the launcher or the session alone")
	}
	if l.kept == nil {
		return nil
	}
	s.kept = l.kept
	if s.watch == nil {
		return nil // no program of ours is in the kernel
	}
	// What the tree does between this process's death and its own is on record, too.
	links, err := s.watch.witness.Links()
	if err != nil {
		return err
	}
	if err := s.process.Keep(cfg.Keep.Dir, cfg.Keep.Lock, links); err != nil {
		return err
	}
	if err := s.keepRing(s.watch.witness.Ring()); err != nil {
		return err
	}
	if l.hooks == nil {
		return nil
	}
	return s.keepHooks(l.hooks)
}

func (s *Session) keepHooks(e *lsm.Engine) error {
	var errs []error
	for _, r := range e.Rings() {
		if r.Number() != 0 {
			errs = append(errs, s.keepRing(r))
		}
	}
	return errors.Join(errs...)
}

// dropRings lets go of the rings of hooks that hold nobody any more, once all that
// they told is safe, or the session is over: then init lets go of them by itself.
func (s *Session) dropRings(e *lsm.Engine) error {
	var errs []error
	for _, r := range e.Rings() {
		if r.Number() == 0 {
			continue
		}
		for !r.Drained() && s.running.Err() == nil {
			time.Sleep(drainTick)
		}
		s.kept.Remove(r)
		if r.Drained() {
			errs = append(errs, s.process.DropRing(r.Number()))
		}
	}
	return errors.Join(errs...)
}

// drainTick is how often it is looked whether a ring is drained.
const drainTick = 5 * time.Millisecond

func (s *Session) keepRing(r *ring.Reader) error {
	s.kept.Add(r)
	return s.process.KeepRing(r.Held())
}

package main

import (
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// seeding is a decider that fills the private caches when the first program is
// about to run that looks there: most commands run none, and would wait for it.
type seeding struct {
	gate.Decider
	readers []string
	seed    func() error // does it once
}

func newSeeding(d gate.Decider, links []policy.CacheLink, s *session.Seeder) gate.Decider {
	if len(links) == 0 {
		return d
	}
	x := &seeding{Decider: d}
	for _, l := range links {
		x.readers = append(x.readers, l.Readers...)
	}
	x.seed = sync.OnceValue(func() error {
		done := make(chan error)
		go func() { done <- s.Seed() }() // the caller's thread may act as the task
		return <-done
	})
	return x
}

// Decide is that of gate.Decider. A program that would find half a cache is not
// run. One that is asked about may be allowed later, so it counts as well.
func (x *seeding) Decide(r *event.Request) event.Decision {
	d := x.Decider.Decide(r)
	if r.Op != event.OpExec || d.Action == event.ActionDeny || !x.reads(r) {
		return d
	}
	if err := x.seed(); err != nil {
		d.Action, d.By, d.Reason, d.Errno = event.ActionDeny, "reeve", err.Error(), int32(unix.EIO)
	}
	return d
}

func (x *seeding) reads(r *event.Request) bool {
	named, found := path.Base(r.Object.Raw), path.Base(r.Object.Path)
	return slices.ContainsFunc(x.readers, func(glob string) bool {
		a, _ := path.Match(glob, named)
		b, _ := path.Match(glob, found)
		return a || b
	})
}

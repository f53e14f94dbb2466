package main

import (
	"errors"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// yes allows everything.
type yes struct{}

func (yes) Decide(*event.Request) event.Decision {
	return event.Decision{Action: event.ActionAllow, Rule: "r"}
}
func (yes) CheckContent(*event.Request, []byte) event.Decision       { return event.Decision{} }
func (yes) CheckChange(_ *event.Request, _, _ []byte) event.Decision { return event.Decision{} }

// TestSeeding: caches are filled before a program runs that looks there, whatever
// name it is called by, and such a program does not run when they cannot be.
func TestSeeding(t *testing.T) {
	for _, c := range []struct {
		op        event.Op
		raw, path string
		seeds     bool
	}{
		{event.OpExec, "/bin/true", "/usr/bin/true", false},
		{event.OpOpen, "/usr/bin/node", "/usr/bin/node", false},
		{event.OpExec, "/usr/bin/node", "/usr/bin/node", true},
		{event.OpExec, "node", "/usr/bin/v20", true},
		{event.OpExec, "./x", "/home/u/.nvm/bin/node-20", true},
	} {
		for _, fail := range []error{nil, errors.New("no space")} {
			seeded := 0
			x := &seeding{Decider: yes{}, readers: []string{"node*"}, seed: func() error { seeded++; return fail }}
			d := x.Decide(&event.Request{Op: c.op, Object: event.Object{Raw: c.raw, Path: c.path}})
			want := event.ActionAllow
			if c.seeds && fail != nil {
				want = event.ActionDeny
			}
			if (seeded == 1) != c.seeds || d.Action != want || want == event.ActionDeny && d.Reason != "no space" {
				t.Errorf("%v %s (%s), %v: seeded %d times, %+v", c.op, c.raw, c.path, fail, seeded, d)
			}
		}
	}
}

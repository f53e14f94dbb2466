package policy

import (
	"testing"

	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
)

// TestEnforced: who is said to enforce a decision is who does by the plan, whatever the
// decision is.
func TestEnforced(t *testing.T) {
	of := func(op event.Op, kind event.ObjectKind, path string) *event.Request {
		return &event.Request{Op: op, Object: event.Object{Kind: kind, Path: path}}
	}
	requests := []struct {
		name string
		req  *event.Request
	}{
		{"read", ask("read /home/u/ws/x")}, {"write", ask("write /home/u/ws/x")}, {"exec", ask("exec /usr/bin/ls")},
		{"delete", ask("delete /home/u/ws/x")}, {"chmod", ask("chmod /home/u/ws/x")},
		{"signal", of(event.OpSignal, event.ObjectTask, "1-1")}, {"socket", of(event.OpSocket, event.ObjectKernel, "packet")},
		{"creds", of(event.OpCreds, event.ObjectKernel, "setuid")}, {"mount", of(event.OpMount, event.ObjectKernel, "mount")},
	}
	hooks := func(terms Terms) func(*Policy) (tracer.Plan, error) {
		return func(p *Policy) (tracer.Plan, error) { return p.LowerHooks(terms) }
	}
	for _, c := range []struct {
		name, profile string
		lower         func(*Policy) (tracer.Plan, error)
		want          []string // by request
	}{
		{"unotify", DefaultProfile, (*Policy).Lower,
			[]string{"gate", "gate", "floor and gate", "gate", "gate", "floor and gate", "gate", "floor", "floor"}},
		{"observe", "observe", (*Policy).Lower,
			[]string{"gate", "gate", "gate", "gate", "gate", "gate", "gate", "floor", "gate"}},
		{"lsm", DefaultProfile, hooks(Terms{}),
			[]string{"hook", "hook", "gate and hook", "gate", "gate", "gate and hook", "gate", "floor", "floor"}},
		{"lsm, asked", DefaultProfile, hooks(Terms{Asked: true}),
			[]string{"hook", "gate and hook", "gate and hook", "gate", "gate", "gate and hook", "gate", "floor", "floor"}},
		{"lsm, strict", DefaultProfile, hooks(Terms{Strict: true}),
			[]string{"gate and hook", "gate and hook", "gate and hook", "gate", "gate", "gate and hook", "gate", "floor", "floor"}},
	} {
		p := load(t, c.profile)
		plan, err := c.lower(p)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range requests {
			e := p.ExplainUnder(r.req, &plan)
			if e.Enforced != c.want[i] {
				t.Errorf("%s: %s is enforced by %q (%v), want %q", c.name, r.name, e.Enforced, plan.Handling[classOf(r.req)], c.want[i])
			}
			if d := p.Decide(r.req); d != e.Decision {
				t.Errorf("%s: %s: explained %v, decided %v", c.name, r.name, e.Decision, d)
			}
			if plan.Hooks == nil && p.Explain(r.req).Enforced != e.Enforced {
				t.Errorf("%s: %s: Explain says %q", c.name, r.name, p.Explain(r.req).Enforced)
			}
		}
	}
}

package main

import (
	"errors"
	"fmt"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// lower makes the plan of a session inside, for the engine of the one outside.
// What reaches the gate there is what the outermost session's filter traps: an
// operation that it leaves to the hooks cannot be asked about or counted inside.
// Where that lets more happen than the policy says it is an error unless degraded.
func (n *nesting) lower(p *policy.Policy, degraded bool) (tracer.Plan, error) {
	if n.outer.engine != tracer.EngineLSM {
		return p.Lower()
	}
	plan, err := p.LowerHooks(n.outer.opts.strict)
	if err != nil {
		return plan, err
	}
	for _, c := range []gate.Class{gate.Read, gate.Write} {
		if n.outer.plan.Handling[c] != gate.Hook || plan.Handling[c] == gate.Hook {
			continue
		}
		if limit := p.BulkLimit(); c == gate.Write && limit.Action > event.ActionAllow {
			gap := fmt.Sprintf("profile %s counts changes of many files, but the session outside, with profile %s under engine lsm, leaves plain writing to the kernel's hooks, which do not count",
				p.Name(), n.outer.policy.Name())
			if !degraded {
				return plan, withHint(errors.New(gap), "--allow-degraded runs all the same; a session outside with --engine unotify, or with a profile that counts, too, holds it")
			}
			plan.Gaps = append(plan.Gaps, gap)
		}
		plan.Gaps = append(plan.Gaps, fmt.Sprintf("what the policy asks about a %s is denied here unless it is O_PATH, O_EXCL or openat2: the session outside leaves the rest to the kernel's hooks, which cannot ask", c))
	}
	return plan, nil
}

// hook loads the hooks of a session inside, under the engine lsm.
func (n *nesting) hook(in *innerSession, rules *innerRules, outer *tracer.Inner) (err error) {
	if n.outer.engine != tracer.EngineLSM {
		return nil
	}
	in.hooks, err = n.launcher.Inside(tracer.InnerConfig{
		Rules: rules.plan.Hooks, Strict: n.outer.opts.strict, Decider: rules.policy, Recorder: in, Outer: outer,
	})
	if errors.Is(err, lsm.ErrCrowded) || errors.Is(err, tracer.ErrManyInside) {
		return withHint(err, "`reeve sessions` says which run; or start the session outside with --engine unotify, which has no such limit")
	}
	return err
}

// unhook ends what hook began, for a session that did not come to be.
func (in *innerSession) unhook() error {
	if in.hooks == nil {
		return nil
	}
	return in.hooks.Close()
}

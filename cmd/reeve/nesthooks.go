package main

import (
	"errors"
	"fmt"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// lower makes the plan of a session inside, for the engine of the one outside.
// What reaches the gate there is what the outermost session's filter traps: of
// what that leaves to the hooks nothing can be asked inside, so it is denied, and
// the hooks count what is limited.
func (n *nesting) lower(p *policy.Policy) (tracer.Plan, error) {
	if n.outer.engine != tracer.EngineLSM {
		return p.Lower()
	}
	terms := n.outer.terms()
	plan, err := p.LowerHooks(terms)
	if err != nil {
		return plan, err
	}
	left := func(c gate.Class) bool { return n.outer.plan.Handling[c] == gate.Hook && plan.Handling[c] != gate.Hook }
	for _, c := range []gate.Class{gate.Read, gate.Write} {
		if left(c) {
			plan.Gaps = append(plan.Gaps, fmt.Sprintf("what the policy asks about a %s is denied here unless it is O_PATH, O_EXCL or openat2: the session outside leaves the rest to the kernel's hooks, which cannot ask", c))
		}
	}
	if left(gate.Write) {
		terms.Asked = false
		denying, err := p.LowerHooks(terms)
		if err != nil {
			return plan, err
		}
		plan.Hooks.Bulk, plan.Hooks.Marks = denying.Hooks.Bulk, denying.Hooks.Marks
	}
	return plan, nil
}

// unseen are the hooks of a session inside that judge what it writes, nil where the
// gate sees all of it.
func (n *nesting) unseen(in *innerSession) policy.Hooks {
	if in.hooks == nil || n.outer.plan.Handling[gate.Write] != gate.Hook {
		return nil
	}
	return in.hooks
}

// hook loads the hooks of a session inside, under the engine lsm.
func (n *nesting) hook(in *innerSession, rules *innerRules, outer *tracer.Inner) (err error) {
	if n.outer.engine != tracer.EngineLSM {
		return nil
	}
	in.hooks, err = n.launcher.Inside(tracer.InnerConfig{
		Rules: rules.plan.Hooks, Strict: n.outer.opts.strict, Decider: rules.policy, Recorder: in, Outer: outer, Asked: n.outer.terms().Asked,
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

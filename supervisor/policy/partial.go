package policy

import (
	"fmt"
	"reflect"
	"slices"
	"syscall"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// inPart reports whether an exec was judged by more than its record holds: by
// arguments, or names of its program, that were cut.
func inPart(e *event.Event) bool {
	req := e.Request()
	return e.Task.ArgvLen != 0 || e.AlikeLen != 0 || slices.ContainsFunc(req.Interps, func(p event.Interp) bool { return p.Cut })
}

// partial decides about an exec of which the record holds a part. What its command
// line meant is known from what was decided, where both policies say the same of
// commands; else it is open if the rest could mean anything to a rule.
func (r *Review) partial(e *event.Event, req *event.Request, was, is ruling) Reconsidered {
	from := recorded(e, was.action)
	out := Reconsidered{Asked: true, From: from, To: is.action, Decision: is.decision}
	before, program := r.own.program(req), r.other.program(req)
	most := r.other.stack.mayHold(req)
	switch {
	case from < before.action:
		out.Open = misfit(from, before.action)
		return out
	case r.sameCommands && (from > before.action || from == event.ActionAllow):
		most = from // the line alone was, and is again
		if from <= program.action {
			break
		}
		if out.To = from; is.action != from {
			out.Decision = event.Decision{Action: from, Rule: e.Rule, Reason: e.Reason, By: byPolicy + r.other.stack.Own().name}
		}
		return out
	case r.sameCommands:
		most = min(most, from)
	}
	if most > program.action {
		out.Open = fmt.Sprintf("its arguments were recorded in part, and a rule about commands may %s it for the rest", most)
		return out
	}
	out.To, out.Decision = program.action, program.decision
	return out
}

// program is what is decided about an exec whatever its words are.
func (r *rerun) program(req *event.Request) ruling {
	return r.stack.rule(req, func(i int, req *event.Request) event.Decision { return r.stack[i].decideProgram(req) })
}

// sameCommands reports whether two stacks say the same about commands.
func (s Stack) sameCommands(t Stack) bool {
	return slices.EqualFunc(s, t, func(p, q *Policy) bool {
		return p == q || p.recordOnly == q.recordOnly && reflect.DeepEqual(p.commands, q.commands) && reflect.DeepEqual(p.applets, q.applets)
	})
}

// mayHold is the most that rules about commands can say of an exec of which only
// the first words are known.
func (s Stack) mayHold(req *event.Request) event.Action {
	most := event.ActionAllow
	for _, one := range judged(req) {
		// The last word may itself be cut.
		one.Argv = one.Argv[:max(0, len(one.Argv)-1)]
		for _, p := range s {
			most = max(most, p.mayHold(&one))
		}
	}
	return most
}

func (p *Policy) mayHold(req *event.Request) event.Action {
	most := event.ActionAllow
	if p.recordOnly {
		return most
	}
	ids := p.tables.commands.Identify(p.call(req))
	anything := len(req.Argv) == 0 || slices.ContainsFunc(ids, func(id command.Identity) bool { return id.Beyond() })
	for i := range p.commands {
		l := &p.commands[i]
		for class, r := range l.classes {
			rules := func(id command.Identity) bool {
				return slices.ContainsFunc(p.tables.commands.Rules(id.Name), func(r *command.Rule) bool { return r.Class == class })
			}
			if anything || class == command.Privileged && req.Object.Mode&syscall.S_ISUID != 0 || slices.ContainsFunc(ids, rules) {
				most = max(most, r.action)
			}
		}
		for _, r := range l.own {
			if anything || slices.ContainsFunc(ids, func(id command.Identity) bool { return id.About(r.rule) }) {
				most = max(most, r.action, l.classes[r.rule.Class].action)
			}
		}
	}
	for _, a := range p.applets {
		if anything || slices.ContainsFunc(ids, func(id command.Identity) bool { return id.Name == a.name }) {
			most = max(most, a.action)
		}
	}
	return most
}

package policy

import (
	"slices"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/landlock"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// LowerHooks is [Policy.Lower] for the engine lsm: the kernel's hooks run the
// policy's automata, so that opens that ask nobody are not notified, and Landlock
// is not needed.
//
// Classes in which the policy can ask stay performed, since a hook cannot wait;
// so do all with strict, where a record is acknowledged before the task goes on.
// Changes of names and metadata and the network stay performed as well: they
// depend on what only the gate knows (whose a repository or a socket is), and the
// hooks stand behind them.
func (p *Policy) LowerHooks(strict bool) (tracer.Plan, error) {
	plan, err := p.Lower()
	if err != nil {
		return plan, err
	}
	rules, err := p.hookRules(&plan)
	if err != nil {
		return plan, err
	}
	plan.Hooks = &rules
	plan.Floor, plan.NeedWitness = landlock.Spec{}, nil
	for c, need := range map[gate.Class]event.Access{gate.Read: event.AccessRead, gate.Write: event.AccessWrite} {
		counted := need == event.AccessWrite && p.BulkLimit().Action > event.ActionAllow
		if !strict && !counted && !p.asks(need) {
			plan.Handling[c] = gate.Hook
		}
	}
	plan.Gaps = p.hookGaps()
	return plan, nil
}

// asks reports whether there is a path whose access the policy asks about.
func (p *Policy) asks(need event.Access) bool {
	return slices.ContainsFunc(p.planes, func(s *ruleSet) bool {
		return slices.ContainsFunc(s.verdicts, func(v verdict) bool { return v.of(need) == event.ActionAsk })
	})
}

// hookGaps are what the hooks cannot hold either.
func (p *Policy) hookGaps() []string {
	execs := p.execGaps()
	out := slices.DeleteFunc(p.gaps(), func(gap string) bool {
		return slices.Contains(execs, gap) || strings.HasPrefix(gap, "hide: ") || strings.HasPrefix(gap, "record_only: ")
	})
	switch {
	case p.recordOnly:
		return append(out, "record_only: operations are recorded, not held, but for reeve's own files")
	case p.opens("mount"):
		out = append(out, "kernel.allow mount: a session that may mount can give a directory another path, and is judged by that")
	}
	if p.hides() {
		out = append(out, "hide: the names of hidden files are still seen by access, chdir and readlink, which have no hook; stat is held")
	}
	return out
}

// hookRules are the planes, with the outcomes of their accept classes, and what
// is closed.
func (p *Policy) hookRules(plan *tracer.Plan) (lsm.Rules, error) {
	r := lsm.Rules{
		RecordOnly: p.recordOnly, AnySignal: p.anySignal, MemoryExec: p.memory, Hides: p.hides(),
		Names: p.recordOnly || p.opens("io_uring"),
		Temp:  p.files.temp.dir, TempAlias: p.files.temp.name,
	}
	if !p.recordOnly {
		terminals, err := terminalPlane()
		if err != nil {
			return r, err
		}
		r.Planes = append(r.Planes, terminals)
	}
	for _, s := range p.planes {
		if s.auto == nil && s.verdicts[0] == (verdict{}) {
			continue // it has no rules and closes nothing
		}
		r.Planes = append(r.Planes, s.plane())
	}
	r.Closed = p.closed(plan)
	for family, name := range familyOf {
		if d := p.family(name, syscall.EACCES); d.Action == event.ActionAllow && family < 64 {
			r.Families |= 1 << family
		}
	}
	for _, name := range []string{"raw", "icmp", "sctp", "mptcp", "udplite"} {
		if d := p.family(name, syscall.EACCES); d.Action == event.ActionAllow {
			r.Families |= 1<<syscall.AF_INET | 1<<syscall.AF_INET6
		}
	}
	return r, nil
}

// plane is a set of rules as the hooks run it.
func (s *ruleSet) plane() lsm.Plane {
	out := lsm.Plane{Need: s.need, Auto: s.auto, Outcomes: make([]lsm.Outcome, len(s.verdicts))}
	for a, v := range s.verdicts {
		var winners []int32
		if s.auto != nil {
			winners = s.auto.Winners(uint32(a))
		}
		out.Outcomes[a] = lsm.Outcome{
			Read: v.read, Write: v.write, Exec: v.exec, Make: s.making(winners),
			HideRead: s.hidden(winners, event.AccessRead), HideWrite: s.hidden(winners, event.AccessWrite),
			HideExec: s.hidden(winners, event.AccessExec),
		}
	}
	return out
}

// making is what is said of writing a name that is only being made: what is not
// there is no secret, see makesSecret.
func (s *ruleSet) making(winners []int32) event.Action {
	made := event.ActionNone
	for i := range s.layers {
		w := winner(winners, i)
		if a := s.layerVerdict(i, w).write; w < 0 || s.rules[w].guard != guardSecret || a <= event.ActionAllow {
			made = max(made, a)
		}
	}
	return made
}

// hidden reports whether the layer that a refusal would name hides the path.
func (s *ruleSet) hidden(winners []int32, need event.Access) bool {
	worst, hide := event.ActionAllow, false
	for i := range s.layers {
		v := s.layerVerdict(i, winner(winners, i))
		if a := v.of(need); a > worst {
			worst, hide = a, v.hide
		}
	}
	return hide
}

// terminalPlane refuses terminals, but for the session's own: see isTerminal.
func terminalPlane() (lsm.Plane, error) {
	rules := []automaton.Rule{
		{Glob: "/dev/pts/*", Below: true}, {Glob: "/dev/tty[S0-9]*", Below: true}, {Glob: "/dev/console"},
		{Glob: "/dev/vcs*", Below: true}, {Glob: "/dev/hvc*", Below: true}, {Glob: "/dev/pts/ptmx", Tie: 1},
	}
	const passes = 5 // of the rules, the one that says nothing
	auto, err := automaton.Compile(rules, automaton.Config{})
	if err != nil {
		return lsm.Plane{}, err
	}
	out := lsm.Plane{Need: event.AccessRead | event.AccessWrite, Auto: auto, Outcomes: make([]lsm.Outcome, auto.NumAccepts())}
	for a := range out.Outcomes {
		w := winner(auto.Winners(uint32(a)), 0)
		out.Outcomes[a].Terminal = w >= 0 && w != passes
	}
	return out, nil
}

// closed is what a task of the session may not do by itself.
func (p *Policy) closed(plan *tracer.Plan) lsm.Surface {
	if p.recordOnly {
		return 0
	}
	var out lsm.Surface
	for name, bit := range map[string]lsm.Surface{
		"mount": lsm.Mount, "namespace": lsm.Namespace, "bpf": lsm.BPF, "perf_event": lsm.Perf, "module": lsm.Module,
		"ptrace": lsm.Ptrace, "chroot": lsm.Chroot,
	} {
		if !p.opens(name) {
			out |= bit
		}
	}
	for class, bit := range map[gate.Class]lsm.Surface{
		gate.Connect: lsm.Connect, gate.Bind: lsm.Bind, gate.Send: lsm.Send, gate.Tree: lsm.Tree,
	} {
		if plan.Handling[class] == gate.Perform {
			out |= bit
		}
	}
	if p.opens("io_uring") { // otherwise nothing leads there but the kernel's own copying up
		out |= lsm.Xattr
	}
	return out | lsm.Socket
}

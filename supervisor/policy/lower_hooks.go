package policy

import (
	"fmt"
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

// Terms are what a session is held to besides its policy.
type Terms struct {
	// Strict says that a record is acknowledged before the task goes on.
	Strict bool
	// Asked says that somebody is asked; otherwise what asks is denied.
	Asked bool
}

// LowerHooks is [Policy.Lower] for the engine lsm: the kernel's hooks run the
// policy's automata, so that opens that ask nobody are not notified, and Landlock
// is not needed.
//
// Where somebody is asked the classes in which the policy can ask stay performed,
// since a hook cannot wait and a filter sees no path: any write may be the one that
// a rule, or the limit on bulk changes, asks about. Where nobody is, to ask is to
// deny, which the hooks can, and they count. All stay performed with Strict.
// Changes of names and metadata and the network stay performed as well: they
// depend on what only the gate knows (whose a repository or a socket is), and the
// hooks stand behind them.
func (p *Policy) LowerHooks(terms Terms) (tracer.Plan, error) {
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
		waits := terms.Asked && (p.asks(need) || need == event.AccessWrite && p.BulkLimit().Action == event.ActionAsk)
		if !terms.Strict && !waits {
			plan.Handling[c] = gate.Hook
		}
	}
	rules.Marks = true
	if plan.Handling[gate.Write] == gate.Hook && !p.recordOnly {
		if rules.Bulk, err = p.hookLimit(); err != nil {
			return plan, err
		}
	}
	plan.Gaps = p.hookGaps()
	return plan, nil
}

// hookLimit is the limit on bulk changes as the hooks hold it, who deny what is
// asked about.
func (p *Policy) hookLimit() (lsm.Bulk, error) {
	limit := p.BulkLimit()
	if limit.Action <= event.ActionAllow {
		return lsm.Bulk{}, nil
	}
	rules, yes := p.spending()
	auto, err := automaton.Compile(rules, automaton.Config{})
	if err != nil {
		return lsm.Bulk{}, fmt.Errorf("compile what is expendable: %w", err)
	}
	held := limit.hold()
	if held.By = p.by; held.Action == event.ActionAsk {
		held = gate.Unasked(held)
	}
	held.Errno = int32(syscall.EACCES)
	out := lsm.Bulk{
		Files: limit.Files, Window: limit.Window, Expendable: auto, IsExpendable: make([]bool, auto.NumAccepts()),
		Keepers: p.tables.scratch.tools, Held: held,
	}
	for a := range out.IsExpendable {
		out.IsExpendable[a] = yes(auto.Winners(uint32(a)))
	}
	return out, nil
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
	if d := p.family(event.ProtoUsersock, syscall.EACCES); d.Action == event.ActionAllow {
		r.Families |= lsm.Usersock
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
			Own:      s.bornOnly(winners),
			Secret:   s.secretOnly(winners),
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

// bornOnly reports whether all that stands against writing is what says where a
// repository is: in a directory that the session made it may, see linkExcuse. Who
// made the directory of a file the hooks know, whose the repository is only the gate.
func (s *ruleSet) bornOnly(winners []int32) bool {
	born := false
	for i := range s.layers {
		w := winner(winners, i)
		v := s.layerVerdict(i, w)
		switch {
		case v.of(event.AccessRead|event.AccessExec) > event.ActionAllow:
			return false
		case v.write <= event.ActionAllow:
		case w < 0 || s.rules[w].guard != guardLink || s.rules[w].born == bornNever:
			return false
		default:
			born = true
		}
	}
	return born
}

// secretOnly reports whether all that stands against reading or writing is that a file
// of the name would be a secret: of one that the session made it is none, see ownSecret.
func (s *ruleSet) secretOnly(winners []int32) bool {
	secret := false
	for i := range s.layers {
		w := winner(winners, i)
		switch {
		case s.layerVerdict(i, w).of(event.AccessRead|event.AccessWrite) <= event.ActionAllow:
		case w < 0 || s.rules[w].born != bornFile:
			return false
		default:
			secret = true
		}
	}
	return secret
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

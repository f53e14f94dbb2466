package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
)

// unchanged proves that two policies decide alike but for what edits are about.
func unchanged(before, after *Policy, edits []edit) error {
	var except []automaton.Exception
	var addrs []addrRule
	var commands []*command.Exact
	for i := range edits {
		switch e := &edits[i]; {
		case e.path != "":
			except = append(except, automaton.Exception{Path: e.path, Below: e.below})
		case e.addr != nil:
			addrs = append(addrs, *e.addr)
		case e.exact != nil:
			commands = append(commands, e.exact)
		}
	}
	if before.name != after.name {
		return fmt.Errorf("bug: with a rule in the user's file profile %q would become %q", before.name, after.name)
	}
	for i, s := range before.planes {
		if path, found := s.differs(after.planes[i], except, alike); found {
			return fmt.Errorf("a rule in the user's file would also change what is decided about %s", tomlString(path))
		}
	}
	sockets := func(a, b verdict) bool { return a.exec == b.exec }
	if path, found := before.sockets.differs(&after.sockets, except, sockets); found {
		return fmt.Errorf("a rule in the user's file would also change what is decided about the socket %s", tomlString(path))
	}
	was, is := before.otherPlanes(addrs, commands), after.otherPlanes(addrs, commands)
	for _, line := range was {
		if !slices.Contains(is, line) {
			return fmt.Errorf("a rule in the user's file would also change what the policy says of %s", line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			return fmt.Errorf("a rule in the user's file would also make it %s", line)
		}
	}
	return nil
}

// alike reports whether two verdicts on files lead to the same decisions.
func alike(a, b verdict) bool {
	return strictness(a.read) == strictness(b.read) && strictness(a.write) == strictness(b.write) &&
		strictness(a.exec) == strictness(b.exec) && a.hide == b.hide
}

// differs looks for a path of which two sets of rules do not say the same.
func (s *ruleSet) differs(o *ruleSet, except []automaton.Exception, same func(a, b verdict) bool) (string, bool) {
	aliased := make([]automaton.Exception, len(except))
	for i, e := range except {
		aliased[i] = automaton.Exception{Path: s.temp.alias(e.Path), Below: e.Below}
	}
	return automaton.Differ(s.auto, o.auto, aliased, func(x, y uint32) bool { return same(s.verdicts[x], o.verdicts[y]) })
}

// otherPlanes are what a policy says besides paths, a line each, without what it
// says of the given addresses and commands.
func (p *Policy) otherPlanes(but []addrRule, commands []*command.Exact) []string {
	limits, approval := p.Limits(), p.Approval()
	limits.pos, approval.pos = Pos{}, Pos{}
	out := []string{
		fmt.Sprintf("record_only %v", p.recordOnly), fmt.Sprintf("memory %v", p.memory), fmt.Sprintf("signals of others %v", p.anySignal),
		fmt.Sprintf("kernel %q", p.kernel), fmt.Sprintf("capabilities %q", p.Capabilities()),
		fmt.Sprintf("limits %+v", limits), fmt.Sprintf("approval %+v", approval),
	}
	for _, s := range p.stack {
		if e := s.env; e != nil {
			line := fmt.Sprintf("env inherit %q deny %q mask %q", e.inherit, e.deny, e.mask)
			for _, v := range e.set {
				line += fmt.Sprintf(" %s=%q", v.name, v.value)
			}
			if e.privateCaches != nil {
				line += fmt.Sprintf(" private caches %v", *e.privateCaches)
			}
			out = append(out, line)
		}
	}
	for i := range p.net {
		out = append(out, p.net[i].describe(but))
	}
	return append(out, p.describeCommands(commands)...)
}

// describe is all that a layer says about the network.
func (n *netLayer) describe(but []addrRule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "network closed %v silent %v on %v %s bind %q local %v private %v metadata %v families %q",
		n.closed, n.silent(), n.on(), n.reach(), n.bind, n.local, n.private, n.metadata, n.families)
	var rules []string
	for _, d := range n.domains {
		rules = append(rules, fmt.Sprintf("%q %v", d.pattern, d.action))
	}
	for _, r := range n.addresses {
		about := func(o addrRule) bool { return o.prefix == r.prefix && o.port == r.port }
		if r.action != event.ActionNone && !slices.ContainsFunc(but, about) {
			rules = append(rules, fmt.Sprintf("%v %d %v", r.prefix, r.port, r.action))
		}
	}
	slices.Sort(rules)
	return b.String() + " " + strings.Join(rules, ", ")
}

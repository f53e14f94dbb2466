package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/gate"
)

// Expand prints the policy as it is on this host: the profiles that lie over one
// another, every pattern with what the specials stand for, and the plan for the
// kernel's side. It is for people; the form is not fixed.
func (p *Policy) Expand() string {
	var b strings.Builder
	fmt.Fprintf(&b, "profile %s\n", p.name)
	for _, s := range p.stack {
		state := "narrows"
		if s.closed {
			state = "closed: what it does not name is denied"
		}
		fmt.Fprintf(&b, "  %s, %s (%s)\n", s.name, s.origin, state)
	}
	names := map[*ruleSet]string{&p.program: " exec", &p.sockets: " unix_sockets", &p.always: " of profiles"}
	for _, s := range append(p.planes, &p.sockets) {
		for i := range s.layers {
			p.expandLayer(&b, s, i, names[s])
		}
	}
	b.WriteString("\ncommands\n")
	for _, line := range p.CommandLines(true) {
		b.WriteString("  " + line + "\n")
	}
	p.expandPlan(&b)
	return b.String()
}

func (p *Policy) expandLayer(b *strings.Builder, s *ruleSet, layer int, table string) {
	var rules []*rule
	for i := range s.rules {
		if s.rules[i].layer == layer {
			rules = append(rules, &s.rules[i])
		}
	}
	if len(rules) == 0 {
		return
	}
	slices.SortStableFunc(rules, func(a, c *rule) int { return strings.Compare(a.glob, c.glob) })
	heading := s.layers[layer].describe() + table
	if slices.ContainsFunc(rules, func(r *rule) bool { return r.born == bornFile }) {
		heading += ": what it denies is no secret where the session itself made the file"
	}
	fmt.Fprintf(b, "\n%s\n", heading)
	for _, r := range rules {
		word, from := r.word.String(), ""
		switch {
		case r.action != 0:
			word = r.action.String()
		case r.special != "":
			from = "  " + r.special
		case r.text != r.glob:
			from = "  " + r.text
		}
		fmt.Fprintf(b, "  %-10s %s%s\n", word, r.glob, from)
	}
}

func (p *Policy) expandPlan(b *strings.Builder) {
	plan, err := p.Lower()
	if err != nil {
		fmt.Fprintf(b, "\nplan: %v\n", err)
		return
	}
	fmt.Fprintf(b, "\nplan\n")
	for class, handling := range plan.Handling {
		fmt.Fprintf(b, "  %-10s %s\n", className(class), handling)
	}
	asked, err := p.LowerHooks(Terms{Asked: true})
	if err != nil {
		fmt.Fprintf(b, "plan for the engine lsm: %v\n", err)
		return
	}
	alone, err := p.LowerHooks(Terms{})
	if err != nil {
		fmt.Fprintf(b, "plan for the engine lsm: %v\n", err)
		return
	}
	for class, handling := range alone.Handling {
		switch {
		case handling != gate.Hook:
		case asked.Handling[class] == gate.Hook:
			fmt.Fprintf(b, "  %-10s %s under the engine lsm: notified only when %s\n", className(class), handling, gate.HookExceptions(asked.Handling))
		default:
			fmt.Fprintf(b, "  %-10s %s under the engine lsm with nobody to ask: notified only when %s\n", className(class), handling, gate.HookExceptions(alone.Handling))
		}
	}
	ground, holes := p.ExecGround()
	fmt.Fprintf(b, "  programs may run below: %s\n", strings.Join(ground, " "))
	if len(holes) > 0 {
		fmt.Fprintf(b, "  but for: %s\n", strings.Join(holes, " "))
	}
	for _, gap := range plan.Gaps {
		fmt.Fprintf(b, "  gap: %s\n", gap)
	}
}

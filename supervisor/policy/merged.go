package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Said is one thing that a policy says, with the layer that says it: a rule as it
// was written, or what all layers together make of a setting.
type Said struct {
	// Plane is what it is about: "files", "exec", "network" …
	Plane string
	// Rule is the pattern or key, Word what is said of it.
	Rule, Word string
	// By are the layers that say it; of a setting those that keep it from being
	// wider.
	By string
	// Pos is the line of a rule, and nowhere for what several layers say.
	Pos Pos
}

// Layers names the profiles that lie over one another, the ground first where it
// is built in: Rule is the layer, Word the profile, By what it does to the rest.
func (p *Policy) Layers() []Said {
	out := make([]Said, 0, len(p.stack))
	for i := range p.stack {
		s := &p.stack[i]
		does := "narrows"
		if s.closed {
			does = "closed: what it does not name is denied"
		}
		out = append(out, Said{"layers", s.origin.String(), s.name, does, s.pos})
	}
	return out
}

// Merged is the policy as all its layers make it, each part with the layers that
// it comes from. In every plane the strictest counts, within a profile the most
// specific pattern.
func (p *Policy) Merged() []Said {
	var out []Said
	for _, table := range []struct {
		plane string
		of    func(*stacked) []pathRule
	}{
		{"files", func(s *stacked) []pathRule { return s.files }},
		{"always", func(s *stacked) []pathRule { return s.always }},
		{"exec", func(s *stacked) []pathRule { return s.programs }},
		{"secrets", func(s *stacked) []pathRule { return s.secrets }},
		{"protected", func(s *stacked) []pathRule { return s.protected }},
		{"domains", func(s *stacked) []pathRule { return over(noNetwork, s.network).domains }},
		{"unix_sockets", func(s *stacked) []pathRule { return over(noNetwork, s.network).sockets }},
	} {
		for i := range p.stack {
			out = append(out, p.stack[i].said(table.plane, table.of(&p.stack[i]))...)
		}
	}
	for i := range p.net {
		n := &p.net[i]
		for _, a := range n.addresses {
			out = append(out, Said{"addresses", a.text, a.action.String(), origin(n.name, n.origin), a.pos})
		}
	}
	out = append(append(out, p.saidNetwork()...), p.saidSettings()...)
	slices.SortStableFunc(out, func(a, b Said) int { return slices.Index(planeNames, a.Plane) - slices.Index(planeNames, b.Plane) })
	return out
}

// planeNames are the planes in the order they are told.
var planeNames = []string{
	"files", "always", "exec", "secrets", "protected", "network", "addresses", "domains", "unix_sockets", "env",
	"capabilities", "kernel", "signals", "record_only", "limits", "approval",
}

func origin(profile string, l Layer) string { return fmt.Sprintf("%s (%s)", profile, l) }

// said are the rules of one table of a profile.
func (s *stacked) said(plane string, rules []pathRule) []Said {
	out := make([]Said, 0, len(rules))
	for _, r := range rules {
		text, word := r.pattern, r.word.String()
		if r.base != "" {
			text = r.base + " " + r.pattern
		}
		if r.action != 0 {
			word = r.action.String()
		}
		out = append(out, Said{plane, text, word, origin(s.name, s.origin), r.pos})
	}
	return out
}

// saidNetwork is what each profile says about the network as a whole.
func (p *Policy) saidNetwork() []Said {
	var out []Said
	for i := range p.net {
		n := &p.net[i]
		by := origin(n.name, n.origin)
		say := func(key, value string) {
			if value != "" {
				out = append(out, Said{"network", key, value, by, n.pos})
			}
		}
		switch {
		case n.on():
			say("enabled", "true")
			say("mode", n.reach())
		case !n.silent():
			say("enabled", "false")
		}
		say("bind", n.bind)
		for key, a := range map[string]string{"local": n.local.String(), "private": n.private.String(), "metadata": n.metadata.String()} {
			say(key, a)
		}
		say("families", strings.Join(n.families, " "))
	}
	slices.SortStableFunc(out, func(a, b Said) int { return strings.Compare(a.Rule, b.Rule) })
	return out
}

// saidSettings are the planes that are one value: what the layers together make
// of it, and which of them hold it there.
func (p *Policy) saidSettings() []Said {
	var out []Said
	say := func(plane, key, value string, holds func(*stacked) bool) {
		var by []string
		for i := range p.stack {
			if s := &p.stack[i]; holds(s) {
				by = append(by, origin(s.name, s.origin))
			}
		}
		out = append(out, Said{Plane: plane, Rule: key, Word: value, By: strings.Join(by, ", ")})
	}
	for i := range p.stack {
		out = append(out, p.stack[i].saidEnv()...)
	}
	listed := func(names []string) string {
		if len(names) == 0 {
			return "none"
		}
		return strings.Join(names, " ")
	}
	narrow := func(s *stacked, n *names) bool {
		return n == nil && s.closed || n != nil && !slices.Contains(n.list, "*")
	}
	say("capabilities", "keep", listed(p.Capabilities()), func(s *stacked) bool { return narrow(s, s.caps) })
	say("kernel", "allow", listed(p.kernel), func(s *stacked) bool { return narrow(s, s.kernel) })
	yes := func(b bool, yes, no string) string {
		if b {
			return yes
		}
		return no
	}
	is := func(b *bool) bool { return b != nil && *b }
	say("exec", memoryKey, yes(p.memory, "allow", "deny"), func(s *stacked) bool { return (s.memory != nil || s.closed) && is(s.memory) == p.memory })
	say("signals", "signals", yes(p.anySignal, "any", "session"), func(s *stacked) bool { return (s.signals != "" || s.closed) && (s.signals == "any") == p.anySignal })
	say("record_only", "record_only", fmt.Sprint(p.recordOnly), func(s *stacked) bool { return is(s.recordOnly) == p.recordOnly })
	return append(out, p.saidLimits()...)
}

func (s *stacked) saidEnv() []Said {
	if s.env == nil {
		return nil
	}
	var out []Said
	by := origin(s.name, s.origin)
	for _, list := range []struct {
		key   string
		names []string
	}{{"inherit", s.env.inherit}, {"deny", s.env.deny}, {"mask", s.env.mask}} {
		if len(list.names) > 0 && (list.key != "inherit" || s.closed) {
			out = append(out, Said{"env", list.key, strings.Join(list.names, " "), by, Pos{}})
		}
	}
	for _, e := range s.env.set {
		if s.origin != Project {
			out = append(out, Said{"env", "set " + e.name, e.value, by, e.pos})
		}
	}
	return out
}

// saidLimits are the tightest limits and the shortest deadline, each with the
// file that sets it.
func (p *Policy) saidLimits() []Said {
	var out []Said
	all := p.Limits()
	for _, l := range p.limits {
		say := func(key string, set, held bool, value any) {
			if set && held {
				out = append(out, Said{"limits", key, fmt.Sprint(value), l.pos.File, l.pos})
			}
		}
		say("processes", l.Processes > 0, l.Processes == all.Processes, l.Processes)
		say("open_files", l.OpenFiles > 0, l.OpenFiles == all.OpenFiles, l.OpenFiles)
		say("memory", l.Memory > 0, l.Memory == all.Memory, fmt.Sprintf("%d bytes", l.Memory))
		say("file_size", l.FileSize > 0, l.FileSize == all.FileSize, fmt.Sprintf("%d bytes", l.FileSize))
		say("cpu", l.CPU > 0, l.CPU == all.CPU, l.CPU)
		say("wall", l.Wall > 0, l.Wall == all.Wall, l.Wall)
	}
	for _, a := range p.approvals {
		if a.Timeout > 0 && a.Timeout == p.Approval().Timeout {
			out = append(out, Said{"approval", "timeout", a.Timeout.String(), a.pos.File, a.pos})
		}
	}
	return out
}

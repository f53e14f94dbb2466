package policy

import (
	"fmt"
	"slices"

	"github.com/reeve-audit/reeve/tracer/event"
)

// checkNetwork looks at the tables about the network.
func (p *Policy) checkNetwork() []Finding {
	var out []Finding
	for i := range p.net {
		n := &p.net[i]
		for _, d := range n.domains {
			text := "names are not enforced yet: what is not in addresses is denied"
			if !n.on() {
				text = "has no effect: the network is not enabled"
			}
			out = append(out, Finding{Warning, d.pos, d.pattern, text})
		}
		for _, a := range n.addresses {
			switch {
			case !n.on() && !n.silent():
				out = append(out, Finding{Warning, a.pos, a.text, "has no effect: the network is not enabled"})
			case a.action == event.ActionAllow && a.prefix == anywhere && a.port == 0:
				out = append(out, Finding{Warning, a.pos, a.text, "allows every address, metadata services among them"})
			case a.action == event.ActionAsk:
				out = append(out, Finding{Note, a.pos, a.text, "asks a person; without one (--ask deny) it is denied"})
			}
		}
		for _, f := range n.families {
			if !n.on() && !n.silent() && !slices.Contains(kernelFamilies, f) && f != "*" {
				out = append(out, Finding{Warning, n.pos, "families " + f, "has no effect: the network is not enabled"})
			}
		}
		if n.mode == "full" && len(n.domains) > 0 {
			out = append(out, Finding{Warning, n.pos, "mode", "is taken as \"limited\", because there are rules about domains"})
		}
	}
	return out
}

// checkProfile looks at what a profile says besides rules.
func (p *Policy) checkProfile(s *stacked) []Finding {
	if s.origin == BuiltIn {
		return nil
	}
	var out []Finding
	add := func(severity Severity, pos Pos, rule, text string) {
		out = append(out, Finding{severity, pos, rule, text})
	}
	if _, built := builtInTexts[s.name]; built && s.pos.File != "built-in "+s.name {
		add(Note, s.pos, s.name, "has the name of a built-in profile, which it replaces")
	}
	if s.recordOnly != nil && *s.recordOnly {
		add(Warning, s.pos, "record_only", "operations are recorded and not held back by the kernel's side")
	}
	if s.limits != nil {
		add(Note, s.limits.pos, "limits", "parsed, not enforced yet")
	}
	if s.kernel != nil && len(s.kernel.list) > 0 {
		add(Warning, s.kernel.pos, "kernel.allow", fmt.Sprintf("lets the session use %v, by which much can be got around", s.kernel.list))
	}
	if s.origin == Project && s.env != nil && len(s.env.set) > 0 {
		add(Warning, s.env.set[0].pos, "env.set", "a policy of the workspace cannot set variables: ignored")
	}
	if s.closed && len(s.files) == 0 {
		add(Warning, s.pos, s.name, "opens no file at all, so nothing can start; extend \":workspace\" or \":read-only\"")
	}
	return out
}

// checkHost looks at where the session works.
func (p *Policy) checkHost() []Finding {
	var out []Finding
	for _, ws := range p.host.Workspaces {
		if p.host.Home != "" && isBelow(p.host.Home, ws) {
			out = append(out, Finding{Warning, Pos{}, ":workspace_roots", fmt.Sprintf("the workspace %s holds the home directory", ws)})
		}
	}
	return out
}

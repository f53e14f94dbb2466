package policy

import (
	"slices"
	"strings"
)

// resolve follows a profile's extends and gives the whole of what it says.
// Profiles of the same file are found by name, built-in ones by ":name".
func resolve(p *profile, f *file, t *tables, faults *faultList) *profile {
	return resolveChain(p, f, t, faults, nil)
}

func resolveChain(p *profile, f *file, t *tables, faults *faultList, chain []string) *profile {
	if p.extends == "" {
		return p
	}
	chain = append(chain, p.name)
	name, builtIn := strings.CutPrefix(p.extends, ":")
	var parent *profile
	switch {
	case builtIn:
		if p.extends == workspaceName {
			name = DefaultProfile
		}
		if parent = t.profiles[name]; parent != nil {
			parent = resolveChain(parent, &file{}, t, faults, nil)
			grounded := *parent
			grounded.grounded = true
			parent = &grounded
		}
	case slices.Contains(chain, name):
		faults.add(p.extendsPos, "one of them must not extend another", "profiles extend one another in a circle: %s", strings.Join(append(chain, name), " → "))
		return p
	case f.profiles[name] != nil:
		parent = resolveChain(f.profiles[name], f, t, faults, chain)
	}
	if parent == nil {
		faults.add(p.extendsPos, expected(p.extends, parentNames(f, p.name)), "profile %q extends %q, which is not there", p.name, p.extends)
		return p
	}
	return extend(parent, p)
}

// parentNames are the names that a profile of f can extend.
func parentNames(f *file, except string) []string {
	names := []string{workspaceName}
	for _, n := range builtInNames {
		names = append(names, ":"+n)
	}
	for _, n := range f.order {
		if n != except {
			names = append(names, n)
		}
	}
	return names
}

// extend puts what child says over what parent says.
func extend(parent, child *profile) *profile {
	p := *child
	p.grounded = parent.grounded || child.grounded
	p.files = extendPaths(parent.files, child.files)
	p.always = extendPaths(parent.always, child.always)
	p.programs = extendPaths(parent.programs, child.programs)
	p.secrets = extendPaths(parent.secrets, child.secrets)
	p.protected = extendPaths(parent.protected, child.protected)
	p.recordOnly = over(parent.recordOnly, child.recordOnly)
	p.memory = over(parent.memory, child.memory)
	p.interpreters = over(parent.interpreters, child.interpreters)
	p.caps = over(parent.caps, child.caps)
	p.kernel = over(parent.kernel, child.kernel)
	p.limits = over(parent.limits, child.limits)
	p.approval = over(parent.approval, child.approval)
	p.commands = extendCommands(parent.commands, child.commands)
	if p.signals == "" {
		p.signals = parent.signals
	}
	p.network = extendNetwork(parent.network, child.network)
	p.env = extendEnv(parent.env, child.env)
	return &p
}

func over[T any](parent, child *T) *T {
	if child != nil {
		return child
	}
	return parent
}

// extendPaths lets child's rules replace parent's of the same pattern; what
// expands to the same glob is settled later, by depth.
func extendPaths(parent, child []pathRule) []pathRule {
	depth := 0
	for _, r := range parent {
		depth = max(depth, r.depth+1)
	}
	out := make([]pathRule, 0, len(parent)+len(child))
	for _, r := range parent {
		replaced := slices.ContainsFunc(child, func(c pathRule) bool { return c.base == r.base && c.pattern == r.pattern })
		if !replaced {
			out = append(out, r)
		}
	}
	for _, r := range child {
		r.depth = depth
		out = append(out, r)
	}
	return out
}

func extendNetwork(parent, child *network) *network {
	if parent == nil || child == nil {
		return over(parent, child)
	}
	n := *child
	n.enabled = over(parent.enabled, child.enabled)
	if n.mode == "" {
		n.mode = parent.mode
	}
	if n.bind == "" {
		n.bind = parent.bind
	}
	if n.local == 0 {
		n.local = parent.local
	}
	if n.private == 0 {
		n.private = parent.private
	}
	if n.metadata == 0 {
		n.metadata = parent.metadata
	}
	if n.families == nil {
		n.families = parent.families
	}
	n.domains = extendPaths(parent.domains, child.domains)
	n.sockets = extendPaths(parent.sockets, child.sockets)
	n.addresses = nil
	for _, a := range parent.addresses {
		if !slices.ContainsFunc(child.addresses, func(c addrRule) bool { return c.prefix == a.prefix && c.port == a.port }) {
			n.addresses = append(n.addresses, a)
		}
	}
	n.addresses = append(n.addresses, child.addresses...)
	return &n
}

func extendEnv(parent, child *envRules) *envRules {
	if parent == nil || child == nil {
		return over(parent, child)
	}
	e := *child
	if e.inherit == nil {
		e.inherit = parent.inherit
	}
	e.deny = append(slices.Clone(parent.deny), child.deny...)
	e.mask = append(slices.Clone(parent.mask), child.mask...)
	e.set = append(slices.Clone(parent.set), child.set...)
	e.privateCaches = over(parent.privateCaches, child.privateCaches)
	return &e
}

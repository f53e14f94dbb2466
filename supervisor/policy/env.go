package policy

import (
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// maskText is what a masked variable holds.
const maskText = "masked-by-reeve"

// Env is the environment of the session's command, made from that of its caller:
// what is inherited, less what is denied, with masked values, then what the
// profile and the private tool caches set. The names in pass are inherited
// whatever the rules say, but for an envelope's. hidden are the names of variables that were left out
// because they are denied; those that are merely not inherited are not listed.
//
// A variable whose value is a URL with a password in it is hidden as well.
func (p *Policy) Env(current []string, pass ...string) (env, hidden []string) {
	rules := p.envPlan(p.stack)
	set := p.envSet(current)
	for _, kv := range current {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		if _, replaced := set[name]; replaced || p.cannotServe(name, value) {
			continue
		}
		switch {
		case slices.Contains(pass, name) && !p.EnvDenied(name, value, true):
			env = append(env, kv)
		case rules.denies(name, value):
			hidden = append(hidden, name)
		case !rules.inherits(name):
		case matchAny(rules.masks, name):
			env = append(env, name+"="+maskText)
		default:
			env = append(env, kv)
		}
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	slices.Sort(hidden)
	return env, hidden
}

// envPlan is what profiles say about the environment.
type envPlan struct {
	inherit      [][]string // every one must match
	deny, masks  []string
	withPassword bool // values with passwords may pass
}

func (p *Policy) envPlan(stack []stacked) envPlan {
	plan := envPlan{withPassword: true}
	for _, s := range stack {
		e := s.env
		if e == nil && !s.closed {
			continue
		}
		if e == nil || e.inherit == nil {
			e = &envRules{inherit: []string{":default"}, deny: append([]string{":secrets"}, e.denied()...), mask: e.masked()}
		}
		if s.closed {
			plan.inherit = append(plan.inherit, p.listed(e.inherit))
		}
		plan.deny = append(plan.deny, p.listed(e.deny)...)
		plan.masks = append(plan.masks, p.listed(e.mask)...)
		plan.withPassword = plan.withPassword && !slices.Contains(e.deny, ":secrets")
	}
	return plan
}

func (e *envRules) denied() []string {
	if e == nil {
		return nil
	}
	return e.deny
}

func (e *envRules) masked() []string {
	if e == nil {
		return nil
	}
	return e.mask
}

// listed replaces the names of the built-in lists by their patterns.
func (p *Policy) listed(patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		switch pattern {
		case ":default":
			out = append(out, p.tables.envDefault...)
		case ":secrets":
			out = append(out, p.tables.envSecrets...)
		default:
			out = append(out, pattern)
		}
	}
	return out
}

func (e *envPlan) inherits(name string) bool {
	for _, list := range e.inherit {
		if !matchAny(list, name) {
			return false
		}
	}
	return true
}

func (e *envPlan) denies(name, value string) bool {
	return matchAny(e.deny, name) || !e.withPassword && urlWithPassword(value)
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matchWild(pattern, name) })
}

// urlWithPassword reports whether a value holds scheme://user:password@host.
func urlWithPassword(value string) bool {
	_, rest, ok := strings.Cut(value, "://")
	if !ok {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	user, _, at := strings.Cut(authority, "@")
	return at && strings.Contains(user, ":")
}

// envSet is what is set whatever the caller's environment says. A project's file
// sets nothing: it may only narrow.
func (p *Policy) envSet(current []string) map[string]string {
	set := make(map[string]string)
	if p.host.Tmp != "" && !p.recordOnly {
		for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
			set[name] = p.host.Tmp
		}
	}
	if p.privateCaches() {
		for _, c := range p.tables.caches {
			p.setCache(c, current, set)
		}
	}
	for _, s := range p.stack {
		if s.env == nil || s.origin == Project {
			continue
		}
		for _, e := range s.env.set {
			if value := fill(e.value, &p.host); !p.envDenied(e.name, value, false, s.profile) {
				set[e.name] = value
			}
		}
	}
	return set
}

// setCache sets the variables of one tool's caches.
func (p *Policy) setCache(c cacheTable, current []string, set map[string]string) {
	moved := false // to where the session may write
	for _, kv := range c.set {
		if p.usable(current, kv.key) {
			moved = true
		} else {
			set[kv.key] = fill(kv.value, &p.host)
		}
	}
	for _, kv := range c.serve {
		value, ok := p.serving(kv)
		if _, own := lookup(current, kv.key); ok && !own && !moved {
			set[kv.key] = value
		}
	}
}

// privateCaches reports whether tool caches are kept apart: when any profile
// wants it.
func (p *Policy) privateCaches() bool {
	return p.host.Cache != "" && slices.ContainsFunc(p.stack, func(s stacked) bool {
		return s.env != nil && s.env.privateCaches != nil && *s.env.privateCaches
	})
}

// usable reports whether the caller's own value of a cache variable names a
// place that the session may write to anyway.
func (p *Policy) usable(current []string, name string) bool {
	for _, kv := range current {
		if value, ok := strings.CutPrefix(kv, name+"="); ok && strings.HasPrefix(value, "/") {
			t := target{req: &event.Request{}, path: strings.TrimRight(value, "/"), kind: event.ObjectDir}
			return t.path != "" && p.verdictOf(&t).write <= event.ActionAllow
		}
	}
	return false
}

// CacheLink is a symbolic link that has to stand in the private cache before one
// of its readers runs: tools that know no second, read-only cache read the host's
// through it, and cannot write there.
type CacheLink struct {
	Name, Target string
	// Readers are globs for the names of the programs that look there; none stands
	// for no program at all.
	Readers []string
}

// CacheLinks are the links of the private cache; empty when caches are not
// private. Targets need not exist.
func (p *Policy) CacheLinks() []CacheLink {
	if !p.privateCaches() || p.host.Home == "" || p.reachesOut() {
		return nil
	}
	var out []CacheLink
	for _, c := range p.tables.caches {
		for _, kv := range c.seed {
			out = append(out, CacheLink{p.host.Cache + "/" + kv.key, tilde(kv.value, p.host.Home), c.readers})
		}
	}
	return out
}

// reachesOut reports whether the session may download: then caches start empty,
// since a tool could not add to what it reads through a link.
func (p *Policy) reachesOut() bool {
	for i := range p.net {
		if n := &p.net[i]; !n.silent() && !n.on() {
			return false
		}
	}
	return true
}

package policy

import (
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// held are the profiles that an envelope lays over everybody else's: the one its
// default_permissions names, whatever the session chose, and beside it the one
// of the session's name if the envelope offers that. An envelope with profiles
// must name one, since otherwise choosing another name would get around it.
func (p *Policy) held(f *file, faults *faultList) []*profile {
	if f.def == "" {
		if len(f.order) > 0 {
			faults.add(f.profiles[f.order[0]].pos, "write default_permissions = \""+f.order[0]+"\" at the top, or the name of another",
				"the envelope has profiles and does not say which one holds")
		}
		return nil
	}
	var out []*profile
	if own := f.profiles[p.name]; own != nil && p.name != f.def {
		out = append(out, own)
	}
	if own := p.byDefault(f, faults); own != nil {
		out = append(out, own)
	}
	return out
}

// runsUnder reports whether a session can run under the profile that an envelope
// names as its default, and does not merely have it over its own.
func (p *Policy) runsUnder(f *file) bool {
	var unheard faultList // what is wrong is said when the profile is used
	own := p.byDefault(f, &unheard)
	return own == nil || p.canBase(resolve(own, f, p.tables, &unheard), Envelope)
}

// envelopes are the profiles of envelopes that are in force.
func (p *Policy) envelopes() []stacked {
	return slices.DeleteFunc(slices.Clone(p.stack), func(s stacked) bool { return s.origin != Envelope })
}

// exceptions are exceptions from the built-in layers.
type exceptions struct{ secrets, protected []pathRule }

// grants reports whether the exceptions of a profile are made, and not merely the
// most that others may make. A project's own file makes none: it may only narrow.
// An envelope's profile makes them where the session runs under it by name.
func (p *Policy) grants(s *stacked) bool {
	return p.canBase(s.profile, s.origin) && (s.origin != Envelope || s.name == p.name)
}

// granted are the exceptions that the profiles make.
func (p *Policy) granted() exceptions {
	var all exceptions
	for i := range p.stack {
		s := &p.stack[i]
		if p.grants(s) {
			all.secrets = append(all.secrets, s.secrets...)
			all.protected = append(all.protected, s.protected...)
		} else if s.origin == Project {
			for _, r := range append(slices.Clone(s.secrets), s.protected...) {
				p.notes = append(p.notes, Finding{Warning, r.pos, r.pattern, "a policy of the workspace cannot make exceptions: ignored"})
			}
		}
	}
	return all
}

// bounds are, for each envelope's profile, the most that may be excepted. Where
// nobody excepts anything there is nothing to bound.
func (p *Policy) bounds() []exceptions {
	var out []exceptions
	for i := range p.stack {
		bound := &p.stack[i]
		excepted := slices.ContainsFunc(p.stack, func(s stacked) bool {
			return (p.grants(&s) || s.profile == bound.profile) && len(s.secrets)+len(s.protected) > 0
		})
		if bound.origin == Envelope && excepted {
			out = append(out, exceptions{bound.secrets, bound.protected})
		}
	}
	return out
}

// guardBuiltIns adds the built-in layers of secret files and of protected
// configuration with the exceptions that profiles make, and, bounding these, once
// more for each envelope with the exceptions that it lets them make.
func (p *Policy) guardBuiltIns(pl *placer) {
	add := func(e exceptions, bound bool, by string) {
		places, anywhere := pl.secrets(e.secrets)
		files := layer{name: "secret files" + by, origin: BuiltIn, bound: bound}
		p.fence.add(files, unless(places))
		p.secrets.add(files, unless(anywhere))
		p.guard.add(layer{name: "protected configuration" + by, origin: BuiltIn, bound: bound}, unless(pl.protected(e.protected)))
	}
	pl.given = p.givenNames()
	add(p.granted(), false, "")
	for _, e := range p.bounds() {
		add(e, true, ", which the envelope keeps")
	}
}

// forbidden finds exceptions that an envelope keeps from having any effect. Of a
// pattern with wildcards it tries one path.
func (p *Policy) forbidden() []Finding {
	var out []Finding
	for set, need := range map[*ruleSet]event.Access{&p.fence: event.AccessRead, &p.secrets: event.AccessRead, &p.guard: event.AccessWrite} {
		for i := range set.rules {
			r := &set.rules[i]
			if r.rank < exemptRank || set.layers[r.layer].bound {
				continue
			}
			winners := set.match(&target{path: sample(r.glob)})
			for at := range set.layers {
				if set.layers[at].bound && set.layerVerdict(at, winner(winners, at)).of(need) > event.ActionAllow {
					out = append(out, Finding{Warning, r.pos, r.text, "makes no exception: the envelope does not let it"})
				}
			}
		}
	}
	return out
}

// sample is a path that a pattern matches.
func sample(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '\\':
			i++
			b.WriteByte(glob[i])
		case '*', '?':
			b.WriteByte('x')
		case '[', '{':
			end := i + indexUnescaped(glob[i:], "]}")
			if end <= i {
				return b.String()
			}
			inside := strings.TrimLeft(glob[i+1:end], "!^")
			if c == '{' {
				inside, _, _ = strings.Cut(inside, ",")
			} else {
				inside = inside[:min(1, len(inside))]
			}
			b.WriteString(inside)
			i = end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unlisted reports whether a socket may be reached as far as a profile goes that
// does not list it: the session's own sockets, and those in the workspaces.
func (p *Policy) unlisted(t *target) bool {
	obj := &t.req.Object
	return t.role == roleMake || t.req.Op == event.OpListen || obj.Own || t.missing || p.socketStood(t.path)
}

// kept reports whether a listed socket stays closed all the same: reeve's own,
// and, unless each envelope lists it too, a secret.
func (p *Policy) kept(t *target) bool {
	if p.sealed(t) {
		return true
	}
	sockets := p.sockets.match(t)
	for i := range p.stack {
		if p.stack[i].origin != Envelope || winner(sockets, i) >= 0 {
			continue
		}
		for _, s := range []*ruleSet{&p.fence, &p.secrets, &p.guard} {
			if s.verdicts[s.accept(t)].write > event.ActionAllow {
				return true
			}
		}
	}
	return false
}

// EnvDenied reports whether an envelope keeps a variable from the session, from
// wherever it comes: what it denies is not there even if a profile sets it or a
// command line passes it, and of the caller's environment nothing is passed that
// it does not inherit.
func (p *Policy) EnvDenied(name, value string, inherited bool) bool {
	return p.envDenied(name, value, inherited, nil)
}

// envDenied is EnvDenied by envelopes other than one's own: what a profile sets,
// it does not deny.
func (p *Policy) envDenied(name, value string, inherited bool, own *profile) bool {
	for _, s := range p.envelopes() {
		if s.profile == own {
			continue
		}
		plan := p.envPlan([]stacked{s})
		if plan.denies(name, value) || inherited && !plan.inherits(name) {
			return true
		}
	}
	return false
}

package policy

import (
	"fmt"
	"slices"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Twin is a file or directory that stands in two places, as a bind mount makes it.
type Twin struct{ Path, Other string }

// Twins are what the policy closes by one name and opens by the other, one sentence
// each: what stands in two places is judged by the name that it is opened by, so that
// a rule about one of them does not hold it. Of each pair one example is named.
func (p *Policy) Twins(list []Twin) []string {
	if p.recordOnly {
		return nil
	}
	var out []string
	for _, t := range list {
		for _, t := range []Twin{t, {t.Other, t.Path}} {
			if text := p.undone(t); text != "" && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// undone says what the policy opens by t.Path and closes by t.Other.
func (p *Policy) undone(t Twin) string {
	for _, access := range []event.Access{event.AccessRead, event.AccessWrite} {
		for _, s := range p.planes {
			rest, found := p.apart(s, t, access)
			if !found {
				continue
			}
			open, closed := below(t.Path, rest), below(t.Other, rest)
			if p.verdictOf(&target{path: open}).of(access) <= event.ActionAllow {
				return fmt.Sprintf("mounts: %s also stands at %s: the policy does not let the session %s it there, but here", open, closed, access)
			}
		}
	}
	return ""
}

// apart looks for what rules of a plane close by t.Other, and none by t.Path. Files that are secret
// anywhere are so by either name, unless the name itself is what the mount changed.
func (p *Policy) apart(s *ruleSet, t Twin, access event.Access) (rest string, found bool) {
	if s.auto == nil {
		return "", false
	}
	harmless := func(x, y uint32) bool { return s.verdicts[x].of(access) > event.ActionAllow || !s.closes(y, access) }
	if s == &p.secrets {
		return "", !harmless(s.accept(&target{path: t.Path}), s.accept(&target{path: t.Other}))
	}
	return s.auto.Apart(s.temp.alias(t.Path), s.temp.alias(t.Other), harmless)
}

// closes says whether a rule names the paths of an accept class and does not allow an
// access. What is closed because no rule names it is not meant.
func (s *ruleSet) closes(accept uint32, a event.Access) bool {
	return slices.ContainsFunc(s.auto.Winners(accept), func(w int32) bool {
		return w >= 0 && s.rules[w].verdict().of(a) > event.ActionAllow
	})
}

// below is what stands at rest, "" or a path with a slash, in a directory.
func below(dir, rest string) string {
	if dir == "/" && rest != "" {
		return rest
	}
	return dir + rest
}

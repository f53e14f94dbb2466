package policy

import (
	"errors"
	"path"
	"strings"

	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
)

// rule is one compiled pattern of one layer.
type rule struct {
	// text is the pattern as it was written, glob what it became, special the
	// special it came from.
	text, glob, special string
	pos                 Pos
	below               bool
	layer               int // index into a ruleSet's layers
	word                word
	action              event.Action // of programs and sockets
	// reason is why the rule denies, one clause for a person.
	reason string
	guard  guard
	born   bornRule
	by     string // the profile, of a rule that shares its layer with others'
	// link is set for the rule about where a link leads that a rule names.
	link bool
	// rank decides between rules of one layer with the same glob: the larger
	// stays.
	rank int
}

// guard marks the rules of built-in layers that Decide treats apart.
type guard uint8

const (
	noGuard guard = iota
	// guardSecret is a secret file: making one that is not there is no secret.
	guardSecret
	// guardConfig is protected configuration, guardLink a file that says where a
	// repository is (".git" of a worktree).
	guardConfig
	guardLink
)

// label is how decisions and explanations name the rule.
func (r *rule) label() string {
	if r.special != "" && r.special != r.text {
		return r.special + " (" + r.text + ")"
	}
	return r.text
}

// layer is one layer of a ruleSet.
type layer struct {
	// name is for explanations: "secret files", "profile x".
	name   string
	origin Layer
	// closed layers deny what they do not name.
	closed bool
	// profile layers are written by people; the others are built in. Of those the
	// bound ones have no more exceptions than an envelope lets be made.
	profile, bound bool
}

// ruleSet is layers of rules with their automaton. A policy has several: layers
// in one automaton multiply, automata side by side add up.
type ruleSet struct {
	// need are the accesses that the set can refuse.
	need   event.Access
	layers []layer
	rules  []rule
	auto   *automaton.Automaton
	temp   tempAlias
	// verdicts are all layers' together, and allowedBy the rule that allows, both
	// by accept class.
	verdicts  []verdict
	allowedBy []string
}

// add appends a layer. Of rules with one glob the highest rank stays, of those
// the strictest.
func (s *ruleSet) add(l layer, rules []rule) {
	byGlob := make(map[string]int, len(rules))
	for _, r := range rules {
		r.layer = len(s.layers)
		at, seen := byGlob[r.glob]
		if !seen {
			byGlob[r.glob] = len(s.rules)
			s.rules = append(s.rules, r)
			continue
		}
		if was := s.rules[at]; r.rank > was.rank || r.rank == was.rank && (r.word < was.word || r.action > was.action) {
			s.rules[at] = r
		}
	}
	s.layers = append(s.layers, l)
}

// compile makes the automaton, from cache if it has it. Patterns of profiles keep
// a group of their own, so that what is allowed can name its pattern; where that
// makes too many states they are grouped by what they say.
func (s *ruleSet) compile(cache Cache) error {
	if len(s.rules) == 0 {
		s.verdicts, s.allowedBy = []verdict{s.combine(nil)}, []string{""}
		return nil
	}
	named := len(s.rules) <= maxNamed
	auto, err := compileCached(s.patterns(named), cache)
	var limit *automaton.LimitError
	if named && errors.As(err, &limit) {
		named = false
		auto, err = compileCached(s.patterns(named), cache)
	}
	if err != nil {
		return err
	}
	s.auto = auto
	s.verdicts = make([]verdict, auto.NumAccepts())
	s.allowedBy = make([]string, auto.NumAccepts())
	for a := range s.verdicts {
		winners := auto.Winners(uint32(a))
		s.verdicts[a] = s.combine(winners)
		s.allowedBy[a] = s.allower(winners, named)
	}
	return nil
}

// patterns are the rules as the automaton takes them.
func (s *ruleSet) patterns(named bool) []automaton.Rule {
	in := make([]automaton.Rule, len(s.rules))
	groups := make(map[groupKey]int)
	for i, r := range s.rules {
		key := groupKey{r.layer, r.word, r.action, r.guard, r.born, r.special, ""}
		if named && r.special == "" && s.layers[r.layer].profile {
			key.text = r.text
		}
		if groups[key] == 0 {
			groups[key] = len(groups) + 1
		}
		in[i] = automaton.Rule{
			Glob: s.temp.alias(r.glob), Layer: r.layer, Below: r.below,
			Tie: int(wordPass-r.word) + int(r.action), Group: groups[key],
		}
	}
	return in
}

// maxNamed is the number of rules up to which each written pattern keeps a group
// of its own at first.
const maxNamed = 250

// tempAlias lets sessions share compiled automata although each has a temporary
// directory of its own: in the automaton its name is one that no session has, of
// the same length, since specificity counts bytes.
type tempAlias struct{ dir, name string }

const tempPrefix = "reeve-"

// newTempAlias is the alias of a session's temporary directory, none for another.
func newTempAlias(dir string) tempAlias {
	parent, name := path.Split(dir)
	if len(name) <= len(tempPrefix) || !strings.HasPrefix(name, tempPrefix) || strings.ContainsAny(dir, `*?[]{}\`) {
		return tempAlias{}
	}
	return tempAlias{dir, parent + tempPrefix + strings.Repeat("0", len(name)-len(tempPrefix))}
}

// split is the path as the automaton knows it, in two parts.
func (t tempAlias) split(p string) (first, rest string) {
	if t.dir != "" && isBelow(p, t.dir) {
		return t.name, p[len(t.dir):]
	}
	return p, ""
}

func (t tempAlias) alias(p string) string {
	first, rest := t.split(p)
	return first + rest
}

// allower names the rule that allows, that of the layer nearest to the session.
// Where rules share a group it is the special they stand for, or nothing.
func (s *ruleSet) allower(winners []int32, named bool) string {
	for i := len(winners) - 1; i >= 0; i-- {
		if w := winners[i]; w >= 0 && s.layers[i].profile {
			if r := &s.rules[w]; r.special != "" {
				return r.special
			} else if named {
				return r.text
			}
		}
	}
	return ""
}

// groupKey is what rules share that lead to the same decision.
type groupKey struct {
	layer   int
	word    word
	action  event.Action
	guard   guard
	born    bornRule
	special string
	text    string // of a written pattern that keeps a group of its own
}

// combine is the verdict of all layers, given each layer's winner.
func (s *ruleSet) combine(winners []int32) verdict {
	var all verdict
	for i := range s.layers {
		all = all.and(s.layerVerdict(i, winner(winners, i)))
	}
	return all
}

// layerVerdict is what one layer says, given its winner.
func (s *ruleSet) layerVerdict(i int, winner int32) verdict {
	v := verdict{}
	if winner >= 0 {
		v = s.rules[winner].verdict()
	}
	if s.layers[i].closed {
		v = v.closed()
	}
	return v
}

func (r *rule) verdict() verdict {
	switch {
	case r.action > event.ActionAllow:
		// A program that may not run may not be read either: ld.so would run it.
		return verdict{read: r.action, exec: r.action}
	case r.action == event.ActionAllow:
		return verdict{exec: event.ActionAllow}
	}
	if r.guard == guardConfig || r.guard == guardLink {
		switch r.word {
		case wordDeny:
			return verdict{write: event.ActionDeny}
		case wordAsk:
			return verdict{write: event.ActionAsk}
		}
		return verdict{}
	}
	return r.word.verdict()
}

// accept is the accept class of a path.
func (s *ruleSet) accept(t *target) uint32 {
	if s.auto == nil {
		return 0
	}
	if t.ownProc {
		return s.auto.Accept(s.auto.Run(s.auto.Run(s.auto.Start(), procSelf), t.rest))
	}
	first, rest := s.temp.split(t.path)
	return s.auto.Accept(s.auto.Run(s.auto.Run(s.auto.Start(), first), rest))
}

// match holds for each layer the rule that wins for a path, or -1.
func (s *ruleSet) match(t *target) []int32 {
	if s.auto == nil {
		return nil
	}
	return s.auto.Match(s.temp.alias(t.judged()))
}

// winner is what match says of one layer, which may have no rules.
func winner(winners []int32, layer int) int32 {
	if layer < len(winners) {
		return winners[layer]
	}
	return -1
}

// quote makes a path a pattern that matches only itself.
func quote(p string) string {
	if !strings.ContainsAny(p, `*?[]{}\`) {
		return p
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if strings.IndexByte(`*?[]{}\`, p[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// join puts a relative pattern below a directory; "." is the directory.
func join(dir, pattern string) string {
	for strings.HasPrefix(pattern, "./") {
		pattern = strings.TrimLeft(pattern[2:], "/")
	}
	pattern = strings.TrimRight(pattern, "/")
	if pattern == "." || pattern == "" {
		return quote(dir)
	}
	return strings.TrimSuffix(quote(dir), "/") + "/" + pattern
}

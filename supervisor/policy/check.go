package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

func className(class int) string { return gate.Class(class).String() }

// systemDirs are where programs read most: a hole there makes every read of
// every program wait for the supervisor.
var systemDirs = []string{"/usr", "/lib", "/lib64", "/bin", "/nix/store"}

// Check says what a person should know about the policy though it loads: rules
// that never decide, that open too much, that slow every program down, or that
// cannot be enforced yet. Findings are in the order of the files.
func (p *Policy) Check() []Finding {
	out := slices.Clone(p.notes)
	for _, s := range []*ruleSet{&p.files, &p.always, &p.program, &p.sockets} {
		out = append(out, p.checkRules(s)...)
	}
	out = append(out, p.checkExemptions()...)
	out = append(out, p.forbidden()...)
	out = append(out, p.checkNetwork()...)
	out = append(out, p.checkCommands()...)
	out = append(out, p.checkApplets()...)
	out = append(out, p.checkHost()...)
	for _, s := range p.stack {
		out = append(out, p.checkProfile(&s)...)
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		if a.Pos.File != b.Pos.File {
			return strings.Compare(a.Pos.File, b.Pos.File)
		}
		return (a.Pos.Line-b.Pos.Line)*1000 + a.Pos.Column - b.Pos.Column
	})
	return slices.Compact(out)
}

// checkRules looks at what people wrote into tables of paths. Rules that a
// built-in profile wrote are ours.
func (p *Policy) checkRules(s *ruleSet) []Finding {
	var out []Finding
	wins := s.everWins()
	written := make(map[Pos]bool) // whether one of the rules of a line wins
	for i := range s.rules {
		written[s.rules[i].pos] = written[s.rules[i].pos] || wins[i]
	}
	for i := range s.rules {
		r := &s.rules[i]
		if p.ours(s.layers[r.layer]) {
			continue
		}
		add := func(severity Severity, format string, args ...any) {
			out = append(out, Finding{severity, r.pos, r.text, fmt.Sprintf(format, args...)})
		}
		if !written[r.pos] {
			add(Warning, "never decides: other rules of the same profile, more specific ones or as specific and stricter, match everything that it matches")
		}
		if s == &p.files {
			p.checkFile(r, add)
		}
		if s == &p.program && r.action != event.ActionAllow && r.link {
			add(Note, "is a symbolic link: the rule is about %s, to which it leads", r.glob)
		}
		if s == &p.program && r.action != event.ActionAllow && p.writableAnywhere() {
			add(Note, "a copy of the program is kept from running too, but not one of which a byte was changed")
		}
		if r.word == wordAsk || r.word == wordAskWrite || r.action == event.ActionAsk {
			add(Note, "asks a person; without one (--ask deny) it is denied")
		}
	}
	return out
}

func (p *Policy) ours(l layer) bool { return l.origin == BuiltIn }

// checkFile looks at one rule of a filesystem table.
func (p *Policy) checkFile(r *rule, add func(Severity, string, ...any)) {
	opens := r.word.verdict().read == event.ActionAllow && r.word != wordList
	home := p.host.Home
	switch {
	case opens && r.below && (r.glob == "/" || literalPrefix(r.glob) == "/" && strings.Trim(r.glob, "/*") == ""):
		add(Warning, "opens the whole file system")
	case opens && r.below && home != "" && isBelow(home, r.glob):
		add(Warning, "opens the home directory %s", home)
	case opens && home != "" && literalPrefix(r.glob) == home && (strings.HasPrefix(r.glob[len(home):], "/*") || strings.HasPrefix(r.glob[len(home):], "/{")):
		add(Warning, "opens whatever of its kind stands in the home directory %s", home)
	}
	if r.word == wordHide {
		add(Note, "hides content, not the name: stat, access and readlink still see it")
	}
	if !opens && r.word != wordList {
		for _, dir := range systemDirs {
			if p.slows(r, dir) {
				add(Note, "matches below %s: reads there cannot be left to the kernel, which slows every program down", dir)
				break
			}
		}
	}
}

// slows reports whether a rule keeps something below a readable system directory
// closed, by a pattern that could match anywhere in it.
func (p *Policy) slows(r *rule, dir string) bool {
	if _, literal := expandBraces(r.glob); literal || !isBelow(dir, literalPrefix(r.glob)) && !isBelow(literalPrefix(r.glob), dir) {
		return false
	}
	t := target{path: dir}
	if p.files.verdicts[p.files.accept(&t)].read > event.ActionAllow {
		return false
	}
	_, found := p.files.auto.Hole(p.files.temp.alias(dir), func(a uint32) bool {
		w := winner(p.files.auto.Winners(a), r.layer)
		return w >= 0 && p.files.rules[w].text == r.text && p.files.rules[w].word == r.word
	})
	return found
}

// everWins tells of each rule whether there is a path for which it wins in its
// layer. Where rules share a group the whole group counts.
func (s *ruleSet) everWins() []bool {
	wins := make([]bool, len(s.rules))
	if s.auto == nil {
		return wins
	}
	groups := make(map[[2]int]bool)
	rules := s.auto.Rules()
	for a := range s.auto.NumAccepts() {
		for _, w := range s.auto.Winners(uint32(a)) {
			if w >= 0 {
				groups[[2]int{rules[w].Layer, rules[w].Group}] = true
			}
		}
	}
	for i, r := range rules {
		wins[i] = groups[[2]int{r.Layer, r.Group}]
	}
	return wins
}

func (p *Policy) writableAnywhere() bool {
	return slices.ContainsFunc(append(p.socketDirs(), p.host.Home), p.writable)
}

// checkExemptions finds exceptions that have no effect, because a built-in
// pattern is more specific.
func (p *Policy) checkExemptions() []Finding {
	wins := make(map[Pos]bool)
	text := make(map[Pos]string)
	for _, s := range []*ruleSet{&p.fence, &p.secrets, &p.guard} {
		for i, w := range s.everWins() {
			if r := &s.rules[i]; r.pos.Line > 0 {
				wins[r.pos] = wins[r.pos] || w
				text[r.pos] = r.text
			}
		}
	}
	var out []Finding
	for pos, won := range wins {
		if !won {
			out = append(out, Finding{Warning, pos, text[pos], "makes no exception: a built-in pattern is more specific"})
		}
	}
	return out
}

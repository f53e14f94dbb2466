package policy

import (
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// maxOwnRules bounds what one profile may say of commands itself.
const maxOwnRules = 1000

func parseCommands(s *section) *commandRules {
	c := &commandRules{pos: s.table.pos, classes: map[command.Class]classRule{}}
	for _, class := range command.Classes() {
		if e := s.table.index[class.String()]; e != nil {
			if action := parseAction(s.choice(class.String(), ruleWords...)); action != event.ActionNone {
				c.classes[class] = classRule{action, e.pos}
			}
		} else {
			s.known = append(s.known, class.String())
		}
	}
	if b := s.sub("bulk"); b != nil {
		c.bulk = parseBulk(b)
	}
	for i, r := range s.tables("rule") {
		if i == maxOwnRules {
			s.faults.add(r.table.pos, "", "%s has more than %d rules", s.what, maxOwnRules)
			break
		}
		if own, ok := parseOwnRule(r); ok {
			c.own = append(c.own, own)
		}
	}
	s.finish()
	return c
}

// parseOwnRule reads a rule that says a class or an action.
func parseOwnRule(s *section) (ownRule, bool) {
	own := ownRule{pos: s.table.pos}
	class := s.choice("class", classWords()...)
	own.action = parseAction(s.choice("action", ruleWords...))
	rule, ok := parseRule(s, command.ParseClass(class))
	if rule.Exact != nil && rule.Exact.Cwd != "" && own.action != event.ActionAllow {
		s.faults.add(s.table.pos, "leave cwd out: what is not allowed in one directory is a step away from the next", "a rule of %s has cwd and does not allow", s.what)
		ok = false
	}
	s.finish()
	if (class == "") == (own.action == event.ActionNone) {
		s.faults.add(s.table.pos, `say class = "destructive", or action = "deny"`, "a rule of %s needs either a class or an action", s.what)
		return own, false
	}
	own.rule = rule
	return own, ok
}

func classWords() []string {
	var out []string
	for _, c := range command.Classes() {
		out = append(out, c.String())
	}
	return out
}

// parseRule reads what a rule is about.
func parseRule(s *section, class command.Class) (*command.Rule, bool) {
	before := len(s.faults.faults)
	r := &command.Rule{Class: class}
	r.Programs, _ = s.words("program")
	r.UnlessBy, _ = s.words("unless_by")
	if s.table.index["argv"] != nil || s.table.index["cwd"] != nil {
		parseExact(s, r)
		return r, len(s.faults.faults) == before
	}
	s.known = append(s.known, "argv", "cwd")
	for _, name := range slices.Concat(r.Programs, r.UnlessBy) {
		if strings.ContainsAny(name, "/ ") {
			s.faults.add(s.table.pos, `a program is called by its file name, without directories: "git"`, "%q in %s is not the name of a program", name, s.what)
		}
	}
	if len(r.Programs) == 0 {
		s.faults.add(s.table.pos, `say program = "git"`, "a rule of %s names no program", s.what)
	}
	subs, _ := s.words("sub")
	for _, sub := range subs {
		r.Subs = append(r.Subs, strings.Fields(sub))
	}
	r.Flags, r.Also, r.Unless, r.Values = s.options("flags"), s.options("also"), s.options("unless"), s.options("values")
	r.Operands, r.UnlessOperands = s.patterns("operands"), s.patterns("unless_operands")
	r.Last, r.Further, r.Behind = s.patterns("last"), s.patterns("further"), s.patterns("behind")
	r.Texts, r.UnlessTexts = s.patterns("texts"), s.patterns("unless_texts")
	if len(r.Values) == 0 && len(r.Texts)+len(r.UnlessTexts) > 0 || len(r.Values) > 0 && len(r.Texts)+len(r.UnlessTexts) == 0 {
		s.faults.add(s.table.pos, `values = ["-c"] and texts = [":sql"] say which option's value is looked at, and for what`, "a rule of %s has only one of values and texts", s.what)
	}
	parseLabels(s, r)
	return r, len(s.faults.faults) == before
}

// parseLabels reads how a rule is called, and why it is there.
func parseLabels(s *section, r *command.Rule) {
	r.Name, _ = s.str("name")
	r.Reason, _ = s.str("reason")
	for _, text := range []string{r.Name, r.Reason} {
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' }) {
			s.faults.add(s.table.pos, "leave control characters out", "a rule of %s has a name or reason of several lines", s.what)
		}
	}
}

// options is a list of options with their dashes. find's "!" and "," count.
func (s *section) options(name string) []string {
	list, at := s.words(name)
	for _, w := range list {
		if !strings.HasPrefix(w, "-") && w != "!" && w != "," {
			s.faults.add(at, `options are written with their dashes: "-f", "--force"`, "%q in %s.%s is no option", w, s.what, name)
		}
	}
	return list
}

// patterns is a list of what words look like.
func (s *section) patterns(name string) []command.Pattern {
	list, at := s.words(name)
	var out []command.Pattern
	for _, w := range list {
		p, ok := command.ParsePattern(w)
		if !ok {
			var kinds []string
			for kind := range command.Kinds {
				kinds = append(kinds, kind)
			}
			slices.Sort(kinds)
			s.faults.add(at, expected(w, kinds), "%q in %s.%s is no kind of argument", w, s.what, name)
			continue
		}
		out = append(out, p)
	}
	return out
}

// parseBulk reads how many files may go at once.
func parseBulk(s *section) *BulkLimit {
	b := &BulkLimit{pos: s.table.pos, Files: int(min(s.count("files"), maxBulk+1)), Window: s.duration("window")}
	b.Action = parseAction(s.choice("action", ruleWords...))
	if b.Files > maxBulk {
		s.faults.add(b.pos, "", "%s.files is more than %d", s.what, maxBulk)
	}
	if b.Files == 0 || b.Window == 0 || b.Action == event.ActionNone {
		s.faults.add(b.pos, `like bulk = { files = 50, window = "10s", action = "ask" }`, "%s needs files, window and action", s.what)
	}
	s.finish()
	return b
}

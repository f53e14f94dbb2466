package command

import (
	"maps"
	"slices"
	"strings"
)

// About reports whether a rule is about this program, whatever it is told.
func (id *Identity) About(r *Rule) bool { return id.named(r.Programs) }

// plain is how a program of which nothing is known reads its words.
var plain = &Program{}

// read gives the identity's words, read once. An option that a rule says to take
// a value does so even where the tables do not know it.
func (id *Identity) read(values []string) *line {
	p := id.program
	if p == nil {
		p = plain
	}
	if slices.ContainsFunc(values, func(name string) bool { return !p.takes(name) }) {
		own := *p
		own.Values = maps.Clone(p.Values)
		if own.Values == nil {
			own.Values = make(map[string]bool)
		}
		for _, name := range values {
			own.Values[name] = true
		}
		return own.read(id.args)
	}
	if id.line == nil {
		id.line = p.read(id.args)
	}
	return id.line
}

// takes reports whether an option has a value, be it of one subcommand only.
func (p *Program) takes(name string) bool {
	for _, sub := range p.Subs {
		if sub[name] {
			return true
		}
	}
	return p.Values[name]
}

// idle are the only words that make a program do nothing but speak of itself.
var idle = map[string]bool{"--version": true, "--help": true}

// Match says whether a rule matches, and how the match is called: the rule's own
// name, or the program with what of its words met the rule.
func (id *Identity) Match(r *Rule, places *Places) (name string, ok bool) {
	if r.Exact != nil {
		return r.label(), r.Exact.Is(id.call)
	}
	if !id.named(r.Programs) || len(id.args) == 1 && idle[id.args[0]] {
		return "", false
	}
	l := id.read(r.Values)
	sub, operands, ok := l.sub(r.Subs)
	if !ok {
		return "", false
	}
	flag, ok := id.flag(l, r.Flags)
	if !ok {
		return "", false
	}
	also, ok := id.flag(l, r.Also)
	if !ok || id.excused(l, r) {
		return "", false
	}
	if !id.operand(operands, r, places) || !id.value(l, r, places) {
		return "", false
	}
	if r.Name != "" {
		return r.Name, true
	}
	program := r.Programs[0]
	if id.program != nil {
		program = id.Name
	}
	words := append([]string{program}, sub...)
	for _, f := range []string{flag, also} {
		if f != "" {
			words = append(words, f)
		}
	}
	return strings.Join(words, " "), true
}

// named reports whether the rule is about this program. A rule may end a name
// with "*".
func (id *Identity) named(names []string) bool {
	for _, n := range names {
		if prefix, ok := strings.CutSuffix(n, "*"); n == id.Name || ok && strings.HasPrefix(id.Name, prefix) {
			return true
		}
	}
	return false
}

// sub finds the subcommand: the first operands, past those that may be the value
// of an option that we do not know.
func (l *line) sub(subs [][]string) (words []string, rest []operand, ok bool) {
	if len(subs) == 0 {
		return nil, l.operands, true
	}
	for _, want := range subs {
		at := 0
		for i, o := range l.operands {
			if at < len(want) && strings.EqualFold(o.text, want[at]) {
				at++
			} else if !o.maybe {
				break
			}
			if at == len(want) {
				return want, l.operands[i+1:], true
			}
		}
	}
	return nil, nil, false
}

// flag finds one of the options; without any the answer is yes.
func (id *Identity) flag(l *line, flags []string) (found string, ok bool) {
	if len(flags) == 0 {
		return "", true
	}
	for _, f := range flags {
		name, value, valued := strings.Cut(f, "=")
		for i := range l.options {
			o := &l.options[i]
			if id.is(o, name) && (!valued || strings.EqualFold(o.value, value)) {
				return f, true
			}
		}
	}
	return "", false
}

// is reports whether an option is the one of that name, or short for it.
func (id *Identity) is(o *option, name string) bool {
	if o.name == name {
		return true
	}
	p := id.program
	short := p == nil || p.Style == GNU && !p.Exact
	return short && len(o.name) > 2 && strings.HasPrefix(name, "--") && strings.HasPrefix(name, o.name) &&
		(p == nil || !p.Switches[o.name] && !p.Values[o.name])
}

// excused reports whether an option stands there that the rule is not about, in
// full, and is not taken back by its "--no-".
func (id *Identity) excused(l *line, r *Rule) bool {
	excused := false
	for _, f := range r.Unless {
		name, value, _ := strings.Cut(f, "=")
		for i := range l.options {
			o := &l.options[i]
			excused = excused || o.name == name && (o.value == value || !o.valued || o.value == "true")
		}
	}
	for _, o := range l.operands {
		excused = excused && o.text != "false" // npm takes "--dry-run false"
	}
	if excused && takenBack(l, r.Unless) {
		excused = false
	}
	return excused || id.by != "" && slices.Contains(r.UnlessBy, id.by)
}

// takenBack reports whether "--no-x", or what may be short for it, stands there
// for an option "--x".
func takenBack(l *line, flags []string) bool {
	for _, f := range flags {
		no := "--no-" + strings.TrimLeft(f, "-")
		for i := range l.options {
			if name := l.options[i].name; len(name) > 5 && strings.HasPrefix(no, name) {
				return true
			}
		}
	}
	return false
}

func (id *Identity) operand(operands []operand, r *Rule, places *Places) bool {
	for _, o := range operands {
		if matchAny(r.UnlessOperands, o.text, id.call.Cwd, places) {
			return false
		}
	}
	if n := len(operands); len(r.Last) > 0 && (n == 0 || !matchAny(r.Last, operands[n-1].text, id.call.Cwd, places)) {
		return false
	}
	if !further(operands, r, id.call.Cwd, places) {
		return false
	}
	if len(r.Operands) == 0 {
		return true
	}
	if len(operands) == 0 && id.program != nil && id.program.Style == Expression {
		operands = []operand{{text: "."}} // find without a start point
	}
	for _, o := range operands {
		if matchAny(r.Operands, o.text, id.call.Cwd, places) {
			return true
		}
	}
	return false
}

// further reports whether operands meet what a rule says of those after the first,
// and of those behind "--".
func further(operands []operand, r *Rule, cwd string, places *Places) bool {
	after, behind := len(r.Further) == 0, len(r.Behind) == 0
	for i, o := range operands {
		after = after || i > 0 && matchAny(r.Further, o.text, cwd, places)
		behind = behind || o.behind && matchAny(r.Behind, o.text, cwd, places)
	}
	return after && behind
}

func (id *Identity) value(l *line, r *Rule, places *Places) bool {
	found := len(r.Texts) == 0
	options := l.options
	if id.program != nil && id.program.Style == Expression {
		options = id.until(l, r.Flags) // what comes later does not narrow it
	}
	for i := range options {
		o := &options[i]
		if !o.valued {
			continue
		}
		for _, name := range r.Values {
			if !id.is(o, name) {
				continue
			}
			if matchAny(r.UnlessTexts, o.value, id.call.Cwd, places) {
				return false
			}
			found = found || matchAny(r.Texts, o.value, id.call.Cwd, places)
		}
	}
	return found
}

// until are the options before the first of those that flags name.
func (id *Identity) until(l *line, flags []string) []option {
	for i := range l.options {
		if slices.Contains(flags, l.options[i].name) {
			return l.options[:i]
		}
	}
	return l.options
}

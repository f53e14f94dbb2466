package command

import "strings"

// line is what a program makes of its words.
type line struct {
	options  []option
	operands []operand
}

type option struct {
	name, value string
	valued      bool
}

// operand is a word that is no option. One that follows an option of which it is
// not known whether it takes a value may be that value.
type operand struct {
	text   string
	maybe  bool
	behind bool // "--" stands before it
}

// read reads the words behind a program's name.
func (p *Program) read(args []string) *line {
	l := &line{}
	var sub map[string]bool
	unsure := false
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w == "--" && p.Style != Expression:
			l.rest(args[i+1:])
			return l
		case len(w) > 1 && w[0] == '-':
			next, has := "", i+1 < len(args)
			if has {
				next = args[i+1]
			}
			took, known := l.option(p, sub, w, next, has)
			if took {
				i++
			}
			unsure = !took && !known
		default:
			if p.Style == Expression && (len(l.options) > 0 || strings.Contains("!(),", w)) {
				l.options = append(l.options, option{name: w}) // start points come first
				continue
			}
			if s, ok := p.Subs[w]; ok && sub == nil {
				sub = s
			}
			l.operands = append(l.operands, operand{text: w, maybe: unsure})
			unsure = false
		}
	}
	return l
}

func (l *line) rest(words []string) {
	for _, w := range words {
		l.operands = append(l.operands, operand{text: w, behind: true})
	}
}

// option reads one word with a dash, and says whether it took the next as its
// value, and whether it is known to need none.
func (l *line) option(p *Program, sub map[string]bool, w, next string, has bool) (took, known bool) {
	takes := func(name string) bool { return p.Values[name] || sub[name] }
	if p.Style == GNU && w[1] != '-' {
		return l.cluster(p, takes, w, next, has)
	}
	if p.Style != GNU {
		w = "-" + strings.TrimLeft(w, "-")
	}
	name, value, joined := strings.Cut(w, "=")
	if joined {
		l.options = append(l.options, option{name, value, true})
		return false, true
	}
	if takes(name) || !p.Exact && p.Style == GNU && !p.Switches[name] && abbreviates(name, p.Values, sub) {
		l.options = append(l.options, option{name, next, has})
		return has, true
	}
	l.options = append(l.options, option{name: name})
	return false, p.Switches[name]
}

// cluster reads "-abc": options of one letter, of which the last may have the
// rest, or the next word, as its value.
func (l *line) cluster(p *Program, takes func(string) bool, w, next string, has bool) (took, known bool) {
	for i := 1; i < len(w); i++ {
		name := "-" + w[i:i+1]
		if p.Attached[name] {
			l.options = append(l.options, option{name, w[i+1:], true})
			return false, true
		}
		if takes(name) {
			if i+1 < len(w) {
				l.options = append(l.options, option{name, strings.TrimPrefix(w[i+1:], "="), true})
				return false, true
			}
			l.options = append(l.options, option{name, next, has})
			return has, true
		}
		l.options = append(l.options, option{name: name})
		known = p.Switches[name]
	}
	return false, known
}

// abbreviates reports whether a word is the beginning of one of the options.
func abbreviates(word string, lists ...map[string]bool) bool {
	if len(word) < 3 {
		return false
	}
	for _, list := range lists {
		for name := range list {
			if strings.HasPrefix(name, word) {
				return true
			}
		}
	}
	return false
}

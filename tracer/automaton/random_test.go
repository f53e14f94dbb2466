package automaton_test

import (
	"math/rand/v2"
	"strings"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

// maker makes random rules and paths over so small an alphabet that they meet.
type maker struct {
	*rand.Rand
	bytes string
}

func newMaker(seed uint64) maker {
	return maker{rand.New(rand.NewPCG(seed, 1)), "ab."}
}

func (m maker) byte() byte { return m.bytes[m.IntN(len(m.bytes))] }

func (m maker) atom(b *strings.Builder, inAlt bool) {
	switch n := m.IntN(20); {
	case n < 11:
		b.WriteByte(m.byte())
	case n < 14:
		b.WriteByte('*')
	case n < 15:
		b.WriteString("**")
	case n < 16:
		b.WriteByte('?')
	case n < 17:
		b.WriteString([]string{"[a]", "[!a]", "[a-b]", "[^ab]", "[b.]", "[\\a-b]"}[m.IntN(6)])
	case n < 18:
		b.WriteString("\\a")
	case !inAlt:
		b.WriteByte('{')
		for i := range 1 + m.IntN(3) {
			if i > 0 {
				b.WriteByte(',')
			} else {
				b.WriteByte(m.byte())
			}
			for range 1 + m.IntN(2) {
				m.atom(b, true)
			}
		}
		b.WriteByte('}')
	}
}

func (m maker) glob() string {
	if m.IntN(40) == 0 {
		return "/"
	}
	var b strings.Builder
	for range 1 + m.IntN(4) {
		b.WriteByte('/')
		if m.IntN(4) == 0 {
			b.WriteString("**")
			continue
		}
		var name strings.Builder
		for range 1 + m.IntN(4) {
			m.atom(&name, false)
		}
		if s := name.String(); s == "" || s == "." || s == ".." {
			b.WriteByte('a')
		} else {
			b.WriteString(s)
		}
	}
	return b.String()
}

func (m maker) rules(most int) []automaton.Rule {
	groups := m.IntN(3)
	rules := make([]automaton.Rule, 1+m.IntN(most))
	for i := range rules {
		rules[i] = automaton.Rule{Glob: m.glob(), Layer: m.IntN(3), Below: m.IntN(2) == 0, Tie: m.IntN(2)}
		if i > 0 && m.IntN(8) == 0 {
			rules[i].Glob = rules[m.IntN(i)].Glob
		}
		if groups > 0 {
			rules[i].Group = m.IntN(groups + 2)
		}
	}
	return rules
}

func (m maker) path() string {
	var b strings.Builder
	for range m.IntN(6) {
		b.WriteByte('/')
		from := b.Len()
		for range 1 + m.IntN(4) {
			b.WriteByte((m.bytes + "c")[m.IntN(len(m.bytes)+1)])
		}
		if s := b.String()[from:]; s == "." || s == ".." {
			b.WriteByte('a')
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// suffixes are all valid suffixes over the alphabet up to n bytes, "" first and
// the shorter ones before the longer.
func suffixes(alphabet string, n int) []string {
	valid := func(s string) bool {
		if s == "" {
			return true
		}
		if s[0] != '/' {
			return false
		}
		for _, name := range strings.Split(s[1:], "/") {
			if name == "" || name == "." || name == ".." {
				return false
			}
		}
		return true
	}
	all := []string{""}
	out := []string{""}
	for from := 0; n > 0; n-- {
		to := len(all)
		for _, s := range all[from:to] {
			for _, c := range "/" + alphabet {
				if s == "" && c != '/' {
					continue
				}
				all = append(all, s+string(c))
				if valid(all[len(all)-1]) {
					out = append(out, all[len(all)-1])
				}
			}
		}
		from = to
	}
	return out
}

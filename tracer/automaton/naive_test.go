package automaton_test

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

// The naive matcher: it works on the text of the glob, component by component,
// by plain backtracking, and shares nothing with the package.

func components(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

func naiveSelf(glob, path string) bool {
	return naiveComponents(components(glob), components(path))
}

func naiveComponents(glob, path []string) bool {
	if len(glob) == 0 {
		return len(path) == 0
	}
	if glob[0] == "**" {
		if len(glob) == 1 {
			return len(path) > 0
		}
		for i := range len(path) + 1 {
			// A "**" after this one that ends the glob still wants a component.
			if naiveComponents(glob[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	return len(path) > 0 && path[0] != "" && naiveName(glob[0], path[0]) && naiveComponents(glob[1:], path[1:])
}

func naiveName(glob, name string) bool {
	if glob == "" {
		return name == ""
	}
	switch glob[0] {
	case '*':
		glob = strings.TrimLeft(glob, "*")
		for i := range len(name) + 1 {
			if naiveName(glob, name[i:]) {
				return true
			}
		}
		return false
	case '?':
		return name != "" && naiveName(glob[1:], name[1:])
	case '\\':
		return name != "" && name[0] == glob[1] && naiveName(glob[2:], name[1:])
	case '[':
		in, rest := naiveSet(glob, name)
		return in && naiveName(rest, name[1:])
	case '{':
		alts, rest := naiveAlternatives(glob)
		for _, alt := range alts {
			if naiveName(alt+rest, name) {
				return true
			}
		}
		return false
	default:
		return name != "" && name[0] == glob[0] && naiveName(glob[1:], name[1:])
	}
}

// naiveSet says whether the first byte of name is in the set that glob begins
// with, and what follows the set.
func naiveSet(glob, name string) (in bool, rest string) {
	i, negate := 1, false
	if glob[i] == '!' || glob[i] == '^' {
		negate = true
		i++
	}
	one := func() byte {
		if glob[i] == '\\' {
			i++
		}
		i++
		return glob[i-1]
	}
	hit := false
	for glob[i] != ']' {
		lo := one()
		hi := lo
		if glob[i] == '-' && glob[i+1] != ']' {
			i++
			hi = one()
		}
		hit = hit || name != "" && lo <= name[0] && name[0] <= hi
	}
	return name != "" && hit != negate, glob[i+1:]
}

func naiveAlternatives(glob string) (alts []string, rest string) {
	from := 1
	inSet := false
	for i := 1; ; i++ {
		switch c := glob[i]; {
		case c == '\\':
			i++
		case inSet:
			inSet = c != ']'
		case c == '[':
			inSet = true
			if glob[i+1] == '!' || glob[i+1] == '^' {
				i++
			}
		case c == ',' || c == '}':
			alts = append(alts, glob[from:i])
			from = i + 1
			if c == '}' {
				return alts, glob[from:]
			}
		}
	}
}

// naiveScore is the specificity of a glob, computed from its text.
type naiveScore struct {
	exact         bool
	prefix, bytes int
	tie, index    int
}

func (s naiveScore) less(t naiveScore) bool {
	switch {
	case s.exact != t.exact:
		return t.exact
	case s.prefix != t.prefix:
		return s.prefix < t.prefix
	case s.bytes != t.bytes:
		return s.bytes < t.bytes
	case s.tie != t.tie:
		return s.tie < t.tie
	}
	return s.index < t.index
}

// naiveBytes counts literal bytes, and those before the first wildcard.
func naiveBytes(glob string) (prefix, n int, literal bool) {
	prefix = -1
	wild := func() {
		if prefix < 0 {
			prefix = n
		}
	}
	for glob != "" {
		switch glob[0] {
		case '*', '?':
			wild()
			glob = glob[1:]
		case '[':
			wild()
			_, glob = naiveSet(glob, "x")
		case '{':
			wild()
			var alts []string
			alts, glob = naiveAlternatives(glob)
			least := 1 << 30
			for _, alt := range alts {
				_, k, _ := naiveBytes(alt)
				least = min(least, k)
			}
			n += least
		case '\\':
			n++
			glob = glob[2:]
		default:
			n++
			glob = glob[1:]
		}
	}
	if prefix < 0 {
		return n, n, true
	}
	return prefix, n, false
}

// naiveMatch says whether a rule matches path, and how well.
func naiveMatch(rules []automaton.Rule, i int, path string) (score naiveScore, self, ok bool) {
	r := rules[i]
	prefix, n, literal := naiveBytes(r.Glob)
	score = naiveScore{prefix: prefix, bytes: n, tie: r.Tie, index: i}
	if naiveSelf(r.Glob, path) {
		score.exact = literal
		return score, true, true
	}
	if !r.Below {
		return score, false, false
	}
	for dir := path; dir != "/"; {
		dir = dir[:strings.LastIndexByte(dir, '/')]
		if dir == "" {
			dir = "/"
		}
		if naiveSelf(r.Glob, dir) {
			return score, false, true
		}
	}
	return score, false, false
}

// naiveWinners is what Match should say.
func naiveWinners(rules []automaton.Rule, path string) []int32 {
	layers := 0
	for _, r := range rules {
		layers = max(layers, r.Layer+1)
	}
	winners := make([]int32, layers)
	best := make([]naiveScore, layers)
	for l := range winners {
		winners[l] = -1
	}
	for i, r := range rules {
		score, _, ok := naiveMatch(rules, i, path)
		if ok && (winners[r.Layer] < 0 || best[r.Layer].less(score)) {
			winners[r.Layer], best[r.Layer] = int32(i), score
		}
	}
	return winners
}

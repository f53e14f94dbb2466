package automaton_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

func compile(t testing.TB, rules []automaton.Rule) *automaton.Automaton {
	t.Helper()
	a, err := automaton.Compile(rules, automaton.Config{})
	if err != nil {
		t.Fatalf("compile %q: %v", globs(rules), err)
	}
	return a
}

func globs(rules []automaton.Rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, fmt.Sprintf("%d:%s below=%v tie=%d group=%d", r.Layer, r.Glob, r.Below, r.Tie, r.Group))
	}
	return out
}

// TestMatchIsNaive is the equivalence of the automaton with the naive matcher.
func TestMatchIsNaive(t *testing.T) {
	sets, paths := 4000, 25
	if testing.Short() {
		sets = 400
	}
	matched := 0
	for seed := range sets {
		m := newMaker(uint64(seed))
		rules := m.rules(10)
		a := compile(t, rules)
		for range paths {
			path := m.path()
			matched += checkPath(t, a, rules, path)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, strings.Join(globs(rules), "\n"))
		}
	}
	if matched < sets*paths/4 {
		t.Errorf("only %d of %d paths matched anything: the test is too easy", matched, sets*paths)
	}
}

// checkPath compares every answer about one path with the naive matcher's.
func checkPath(t *testing.T, a *automaton.Automaton, rules []automaton.Rule, path string) int {
	t.Helper()
	want := naiveWinners(rules, path)
	if got := a.Match(path); !slices.Equal(got, want) {
		t.Errorf("Match(%q) = %v, want %v", path, got, want)
	}
	state := a.Run(a.Start(), path)
	for l, w := range a.Winners(a.Accept(state)) {
		if (w < 0) != (want[l] < 0) || w >= 0 && w != want[l] &&
			(rules[w].Group == 0 || rules[w].Group != rules[want[l]].Group || rules[w].Layer != l) {
			t.Errorf("Winners(%q)[%d] = %d, want %d or its group", path, l, w, want[l])
		}
	}
	if cut := len(path) / 2; a.Run(a.Run(a.Start(), path[:cut]), path[cut:]) != state {
		t.Errorf("Run(%q) in two parts differs", path)
	}
	first := make([]int32, len(want))
	for l := range first {
		first[l] = -1
	}
	hits := 0
	for _, h := range a.Explain(path) {
		_, self, ok := naiveMatch(rules, h.Rule, path)
		if !ok || self != h.Self || h.Layer != rules[h.Rule].Layer {
			t.Errorf("Explain(%q) has %+v, want self=%v ok=%v", path, h, self, ok)
		}
		if first[h.Layer] < 0 {
			first[h.Layer] = int32(h.Rule)
		}
		hits++
	}
	for i := range rules {
		if _, _, ok := naiveMatch(rules, i, path); ok {
			hits--
		}
	}
	if hits != 0 || !slices.Equal(first, want) {
		t.Errorf("Explain(%q): first of each layer %v, want %v; %+d hits", path, first, want, hits)
	}
	if hits = 0; a.Accept(state) != 0 {
		hits = 1
	}
	return hits
}

// grammar is single patterns with paths that match them and that do not.
var grammar = []struct {
	glob, yes, no string // space separated
}{
	{"/", "/", "/a"},
	{"/a", "/a", "/ /b /aa /a/b"},
	{"/*", "/a /.a /ab", "/ /a/b"},
	{"/**", "/a /a/b /.x/y", "/"},
	{"/a/*", "/a/x /a/..x", "/a /a/ /a/x/y"},
	{"/a/**", "/a/x /a/x/y", "/a /ab /b/x"},
	{"/a/**/b", "/a/b /a/x/b /a/x/y/b", "/a /b /a/xb /a/b/x"},
	{"/**/b", "/b /x/b /x/y/b", "/ /a /xb /b/x"},
	{"/**/**", "/a /a/b", "/"},
	{"/a/**/**", "/a/b /a/b/c", "/a"},
	{"/**/*.env", "/.env /a.env /x/y/b.env", "/env /.envx /a.env/x"},
	{"/**/.env*", "/.env /.envrc /a/.env.local", "/a.env /.env/x"},
	{"/a**b/c", "/ab/c /axxb/c", "/a/b/c /ab"},
	{"/a?c", "/abc /a.c", "/ac /abbc /a/c"},
	{"/ä?", "/äx", "/ä /ää"}, // one byte, not one character
	{"/[a-c]x", "/ax /cx", "/dx /x /a/x"},
	{"/[!a]x", "/bx /.x", "/ax /x"},
	{"/[^a]x", "/bx", "/ax"},
	{"/[]x", "", ""},
	{"/[a\\]]x", "/ax /]x", "/\\x /bx"},
	{"/[a-]x", "/ax /-x", "/bx"},
	{"/[\\!a]", "/! /a", "/b"},
	{"/[+-9]", "/, /9 /.", "/"}, // the range spans "/"
	{"/{a,bc}d", "/ad /bcd", "/bd /d"},
	{"/x{,y}", "/x /xy", "/xyy"},
	{"/{,a}/b", "/a/b", "/b"},
	{"/*.{pem,k*y}", "/a.pem /.key /b.kxy", "/a.k /pem"},
	{"/\\*", "/*", "/a /\\*"},
	{"/a\\{b", "/a{b", "/ab"},
	{"/a]b,c", "/a]b,c", "/ab"},
	{"/a/b", "/a/b", "//a/b /a//b /a/b/ a/b"},
}

// TestGrammar checks the patterns by hand.
func TestGrammar(t *testing.T) {
	for _, tt := range grammar {
		a, err := automaton.Compile([]automaton.Rule{{Glob: tt.glob}}, automaton.Config{})
		if err != nil {
			if tt.yes != "" {
				t.Errorf("%s: %v", tt.glob, err)
			}
			continue
		}
		for _, p := range strings.Fields(tt.yes) {
			if a.Match(p)[0] != 0 {
				t.Errorf("%s does not match %s", tt.glob, p)
			}
		}
		for _, p := range strings.Fields(tt.no) {
			if a.Match(p)[0] != -1 {
				t.Errorf("%s matches %s", tt.glob, p)
			}
		}
	}
}

// TestSpecificity checks the order of precedence, rung by rung. The rule that
// should win stands first, so that the last rung cannot make it win by chance.
func TestSpecificity(t *testing.T) {
	tests := []struct {
		name  string
		rules []automaton.Rule
		path  string
		want  int32
	}{
		{"exact beats a longer prefix", []automaton.Rule{{Glob: "/a/b"}, {Glob: "/a/b*", Tie: 9}}, "/a/b", 0},
		{"literal from above loses to a longer prefix", []automaton.Rule{{Glob: "/a/b/*"}, {Glob: "/a/b", Below: true}}, "/a/b/c", 0},
		{"literal from above beats a shorter prefix", []automaton.Rule{{Glob: "/a", Below: true}, {Glob: "/**/secret", Tie: 9}}, "/a/secret", 0},
		{"a nearer ancestor", []automaton.Rule{{Glob: "/a/b", Below: true}, {Glob: "/a", Below: true}}, "/a/b/c", 0},
		{"literal bytes", []automaton.Rule{{Glob: "/**/.env.example"}, {Glob: "/**/.env*", Tie: 9}}, "/x/.env.example", 0},
		{"shortest alternative", []automaton.Rule{{Glob: "/*aa"}, {Glob: "/*{a,aaa}"}}, "/aaa", 0},
		{"tie", []automaton.Rule{{Glob: "/**/x*", Tie: 1}, {Glob: "/**/*x"}}, "/x", 0},
		{"later rule", []automaton.Rule{{Glob: "/**/x*"}, {Glob: "/**/*x"}}, "/x", 1},
		{"same literal, exact", []automaton.Rule{{Glob: "/x", Tie: 1}, {Glob: "/x", Below: true}}, "/x", 0},
		{"same literal, below", []automaton.Rule{{Glob: "/x", Tie: 1}, {Glob: "/x", Below: true}}, "/x/y", 1},
		{"root from above", []automaton.Rule{{Glob: "/", Below: true}}, "/x/y", 0},
		{"root itself", []automaton.Rule{{Glob: "/", Below: true}, {Glob: "/**"}}, "/", 0},
		{"children of the root", []automaton.Rule{{Glob: "/", Below: true}, {Glob: "/**"}}, "/x", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := compile(t, tt.rules).Match(tt.path)[0]; got != tt.want {
				t.Errorf("Match(%s) = %d, want %d", tt.path, got, tt.want)
			}
		})
	}
}

package automaton_test

import (
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

func compileRules(t *testing.T, rules []automaton.Rule) *automaton.Automaton {
	t.Helper()
	a, err := automaton.Compile(rules, automaton.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// outcomes compares accept classes by the ties of the rules that win, which
// stand for what the rules say.
func outcomes(a, b *automaton.Automaton) func(x, y uint32) bool {
	said := func(a *automaton.Automaton, class uint32) (out [3]int) {
		if a == nil {
			return out
		}
		for l, w := range a.Winners(class) {
			if w >= 0 {
				out[l] = 1 + a.Rules()[w].Tie
			}
		}
		return out
	}
	return func(x, y uint32) bool { return said(a, x) == said(b, y) }
}

func differAt(a, b *automaton.Automaton, path string) bool {
	class := func(a *automaton.Automaton) uint32 {
		if a == nil {
			return 0
		}
		return a.Accept(a.Run(a.Start(), path))
	}
	return !outcomes(a, b)(class(a), class(b))
}

func TestDiffer(t *testing.T) {
	base := []automaton.Rule{
		{Glob: "/", Below: true, Tie: 1}, {Glob: "/home/*/x", Below: true, Tie: 2}, {Glob: "/**/*.env", Below: true, Tie: 3},
	}
	for _, c := range []struct {
		name   string
		add    automaton.Rule
		except []automaton.Exception
		want   string // "" none, else the example or, with … at its end, its beginning
	}{
		{"nothing", automaton.Rule{Glob: "/**/*.env", Below: true, Tie: 3}, nil, ""},
		{"exact", automaton.Rule{Glob: "/etc/passwd", Tie: 2}, nil, "/etc/passwd"},
		{"exact, excepted", automaton.Rule{Glob: "/etc/passwd", Tie: 2}, []automaton.Exception{{Path: "/etc/passwd"}}, ""},
		{"another excepted", automaton.Rule{Glob: "/etc/passwd", Tie: 2}, []automaton.Exception{{Path: "/etc/passw"}, {Path: "/etc/passwd2"}, {Path: "/etc/passwd/x"}}, "/etc/passwd"},
		{"below", automaton.Rule{Glob: "/etc/passwd", Below: true, Tie: 2}, []automaton.Exception{{Path: "/etc/passwd"}}, "/etc/passwd/…"},
		{"below, excepted", automaton.Rule{Glob: "/etc/passwd", Below: true, Tie: 2}, []automaton.Exception{{Path: "/etc/passwd", Below: true}}, ""},
		{"a pattern", automaton.Rule{Glob: "/etc/pass*", Tie: 2}, []automaton.Exception{{Path: "/etc/passwd"}}, "/etc/pass…"},
		{"a pattern that is only quoted", automaton.Rule{Glob: `/etc/\*`, Tie: 2}, []automaton.Exception{{Path: "/etc/*"}}, ""},
		{"the root", automaton.Rule{Glob: "/", Tie: 4}, nil, "/"},
		{"two excepted", automaton.Rule{Glob: "/{a,b}", Tie: 2}, []automaton.Exception{{Path: "/a"}, {Path: "/b"}}, ""},
	} {
		x, y := compileRules(t, base), compileRules(t, append(base[:len(base):len(base)], c.add))
		got, found := automaton.Differ(x, y, c.except, outcomes(x, y))
		prefix, open := strings.CutSuffix(c.want, "…")
		if found != (c.want != "") || !open && got != c.want || !strings.HasPrefix(got, prefix) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, found, c.want)
		}
	}
}

func TestDifferFromNothing(t *testing.T) {
	a := compileRules(t, []automaton.Rule{{Glob: "/x", Tie: 1}})
	if got, found := automaton.Differ(nil, a, nil, outcomes(nil, a)); got != "/x" || !found {
		t.Errorf("%q, %v", got, found)
	}
	if got, found := automaton.Differ(nil, nil, nil, outcomes(nil, nil)); found {
		t.Errorf("%q", got)
	}
}

// TestDifferRandom: an example differs, is a path and is not excepted; and where
// there is none, no random path differs.
func TestDifferRandom(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		m := newMaker(seed)
		rules := ungrouped(m.rules(6))
		x, y := compileRules(t, rules), compileRules(t, append(rules[:len(rules):len(rules)], ungrouped(m.rules(1))...))
		except := []automaton.Exception{{Path: m.path()}, {Path: m.path(), Below: true}}
		excepted := func(path string) bool {
			return path == except[0].Path || path == except[1].Path || strings.HasPrefix(path, except[1].Path+"/")
		}
		example, ok := automaton.Differ(x, y, except, outcomes(x, y))
		if ok {
			found++
			if !differAt(x, y, example) || excepted(example) || strings.Contains(example, "//") || example != "/" && strings.HasSuffix(example, "/") {
				t.Fatalf("seed %d: example %q", seed, example)
			}
			continue
		}
		for range 2000 {
			if path := m.path(); !excepted(path) && differAt(x, y, path) {
				t.Fatalf("seed %d: %q differs", seed, path)
			}
		}
	}
	if found == 0 || found == 300 {
		t.Errorf("%d of 300 differ: the test says nothing", found)
	}
}

// ungrouped rules are compared by their ties, which groups of random rules mix.
func ungrouped(rules []automaton.Rule) []automaton.Rule {
	for i := range rules {
		rules[i].Group = 0
	}
	return rules
}

// TestApart: two names of one place.
func TestApart(t *testing.T) {
	a := compileRules(t, []automaton.Rule{
		{Glob: "/", Below: true, Tie: 1}, {Glob: "/ws", Below: true, Tie: 2}, {Glob: "/ws/secret", Below: true, Tie: 3}, {Glob: "/**/*.env", Below: true, Tie: 4},
	})
	for _, c := range []struct{ one, other, want string }{
		{"/ws", "/ws", "none"}, {"/x", "/y/z", "none"}, {"/x/a.env", "/y/b.env", "none"},
		{"/ws", "/x", ""}, {"/", "/ws", ""}, {"/ws/a", "/ws", "/secret"}, {"/ws/a", "/ws/secret", ""}, {"/x/a", "/x/a.env", ""},
		{"/ws/secret", "/ws/secret/x", "none"},
	} {
		rest, found := a.Apart(c.one, c.other, outcomes(a, a))
		if got := map[bool]string{true: rest, false: "none"}[found]; got != c.want {
			t.Errorf("%s and %s: %q, want %q", c.one, c.other, got, c.want)
		}
	}
}

package automaton_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

// TestGlobErrors wants the rule, the byte and a word of the fault.
func TestGlobErrors(t *testing.T) {
	tests := []struct {
		glob   string
		offset int
		msg    string
	}{
		{"", 0, "absolute"},
		{"a/b", 0, "absolute"},
		{"**/x", 0, "absolute"},
		{"/a//b", 2, "empty component"},
		{"/a/", 2, "empty component"},
		{"//", 0, "empty component"},
		{"/a/./b", 3, "never match"},
		{"/a/..", 3, "never match"},
		{"/a\x00b", 2, "NUL"},
		{"/a[b", 2, "["},
		{"/a[b/c]", 2, "["},
		{"/a[]b", 2, "empty set"},
		{"/a[]", 2, "empty set"},
		{"/a[!\x01-\xff]", 2, "no byte"},
		{"/[b-a]", 2, "backwards"},
		{"/a\\", 2, "\\"},
		{"/a\\/b", 2, "\\"},
		{"/a{b", 2, "{"},
		{"/a{b/c}", 2, "{"},
		{"/a}", 2, "}"},
		{"/{a,{b,c}}", 4, "nest"},
		{"/{}", 1, "no alternative"},
		{"/{,}/b", 5, "no path"},
		{"/" + strings.Repeat("{a,b}", 9), 41, "more than 256"},
		{"/" + strings.Repeat("a", 5000), 4096, "longer"},
	}
	for _, tt := range tests {
		_, err := automaton.Compile([]automaton.Rule{{Glob: "/ok"}, {Glob: tt.glob}}, automaton.Config{})
		var ge *automaton.GlobError
		if !errors.As(err, &ge) || ge.Rule != 1 || ge.Offset != tt.offset || !strings.Contains(ge.Msg, tt.msg) {
			t.Errorf("%.20q: %v, want byte %d and %q", tt.glob, err, tt.offset, tt.msg)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []automaton.Config{{MaxStates: -1}, {MaxStates: 1 << 20}, {MaxTable: -1}} {
		if _, err := automaton.Compile(nil, cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
	for _, layer := range []int{-1, automaton.MaxLayers} {
		if _, err := automaton.Compile([]automaton.Rule{{Glob: "/", Layer: layer}}, automaton.Config{}); err == nil {
			t.Errorf("layer %d is accepted", layer)
		}
	}
}

// TestLimits has rules that multiply: each layer's patterns with those of every
// other.
func TestLimits(t *testing.T) {
	var rules []automaton.Rule
	for i := range 400 {
		rules = append(rules, automaton.Rule{Glob: fmt.Sprintf("/**/*word%dx*", i), Layer: i % 4, Below: true})
	}
	tests := []struct {
		cfg   automaton.Config
		limit string
		max   int
	}{
		{automaton.Config{}, "states", automaton.DefaultMaxStates},
		{automaton.Config{MaxStates: 1000}, "states", 1000},
		{automaton.Config{MaxTable: 100_000}, "table bytes", 100_000},
	}
	for _, tt := range tests {
		_, err := automaton.Compile(rules, tt.cfg)
		var le *automaton.LimitError
		if !errors.As(err, &le) {
			t.Errorf("%+v: %v, want a LimitError", tt.cfg, err)
			continue
		}
		if le.Limit != tt.limit || le.Max != tt.max || le.Reached <= le.Max || !strings.Contains(le.Hint, "**") {
			t.Errorf("%+v: %+v", tt.cfg, le)
		}
	}
	if _, err := automaton.Compile(rules[:3], automaton.Config{MaxStates: 1000}); err != nil {
		t.Errorf("a few of the rules: %v", err)
	}
}

// TestGroupsCollapse wants the same rules to stay small when they share an
// outcome.
func TestGroupsCollapse(t *testing.T) {
	var rules []automaton.Rule
	for i := range 500 {
		rules = append(rules, automaton.Rule{Glob: fmt.Sprintf("/**/*word%dx*", i), Layer: i % 4, Below: true, Group: 1})
	}
	s := compile(t, rules).Stats()
	if s.States > 40_000 {
		t.Errorf("%+v", s)
	}
	checkPath(t, compile(t, rules), rules, "/a/word7x/word8x/word9x/word10x/word14x")
}

func TestNoRules(t *testing.T) {
	a := compile(t, nil)
	if a.NumAccepts() != 1 || len(a.Match("/a")) != 0 || len(a.Explain("/a")) != 0 {
		t.Errorf("no rules: %d accept classes", a.NumAccepts())
	}
	if got, ok := a.Hole("/a", func(class uint32) bool { return class == 0 }); !ok || len(got) != len("/a/x") {
		t.Errorf("Hole = %q, %v", got, ok)
	}
	if a.NarrowsTo("/a", "/b", func(x, y uint32) bool { return false }) {
		t.Error("NarrowsTo holds for a false predicate")
	}
}

// TestTotal runs what is no path, from what is no state.
func TestTotal(t *testing.T) {
	a := compile(t, []automaton.Rule{{Glob: "/**", Below: true}})
	for _, p := range []string{"", "a", "//", "//a", "/a//b", "a/b"} {
		if w := a.Match(p); w[0] != -1 {
			t.Errorf("Match(%q) = %v", p, w)
		}
	}
	if s := a.Run(automaton.State(1<<31), "/a"); a.Accept(s) != 0 || a.Accept(1<<31) != 0 || a.Winners(1<<31) != nil {
		t.Error("a state out of range is not dead")
	}
}

func TestDeterministic(t *testing.T) {
	rules := typicalRules(true)
	a, b := compile(t, rules).Tables(), compile(t, slices.Clone(rules)).Tables()
	if !reflect.DeepEqual(a, b) {
		t.Error("two compilations differ")
	}
}

// TestTables runs the flat tables as a BPF program would.
func TestTables(t *testing.T) {
	a := compile(t, typicalRules(true))
	tables := a.Tables()
	for _, p := range []string{"/", "/home/user/.ssh/id_rsa", "/home/user/src/project/a/.env", "/usr/lib/x", "/nowhere"} {
		s := tables.Start
		for _, b := range []byte(p) {
			s = uint32(tables.Next[s*tables.Classes+uint32(tables.ByteClass[b])])
		}
		if want := a.Accept(a.Run(a.Start(), p)); tables.Accept[s] != want {
			t.Errorf("%s: class %d, want %d", p, tables.Accept[s], want)
		}
	}
}

// TestTypical compares the benchmark's rules with the naive matcher, on paths
// made from the rules themselves.
func TestTypical(t *testing.T) {
	rules := manyRules(200, true)
	a := compile(t, rules)
	pieces := []string{"/", "/home/user", "/home/user/src/project", "/usr", "/.env", "/.env.example", "/a.env", "/secret", "/x", "/.ssh", "/.git", "/config", "/id_rsa.pub"}
	m := newMaker(1)
	for range 20_000 {
		path := ""
		for range 1 + m.IntN(5) {
			path = under(path, pieces[1+m.IntN(len(pieces)-1)])
		}
		checkPath(t, a, rules, path)
	}
}

// TestConcurrent has every method called at once; run it with -race.
func TestConcurrent(t *testing.T) {
	a := compile(t, typicalRules(true))
	data, _ := a.MarshalBinary()
	var b automaton.Automaton
	if err := b.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			b.Match("/home/user/.ssh/id_rsa")
			b.Explain("/home/user/.ssh/id_rsa")
			b.Hole("/home/user", func(class uint32) bool { return false })
			b.NarrowsTo("/home/user/src", "/tmp/x", func(x, y uint32) bool { return true })
		})
	}
	wg.Wait()
}

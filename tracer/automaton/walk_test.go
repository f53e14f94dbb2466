package automaton_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

func under(dir, suffix string) string {
	if dir == "/" && suffix != "" {
		return suffix
	}
	return dir + suffix
}

// TestHole compares Hole with trying all short paths. "c" stands for every byte
// that no pattern names.
func TestHole(t *testing.T) {
	all := suffixes("ab.c", 6)
	found, long := 0, 0
	for seed := range uint64(400) {
		m := newMaker(seed)
		rules := m.rules(6)
		a := compile(t, rules)
		for range 3 {
			dir := m.path()
			bits := m.Uint64()
			pred := func(class uint32) bool { return bits>>(class%64)&1 != 0 && class%7 < 3 }
			want, shortest := "", -1
			for _, s := range all[1:] {
				if pred(a.Accept(a.Run(a.Start(), under(dir, s)))) {
					want, shortest = s, len(s)
					break
				}
			}
			got, ok := a.Hole(dir, pred)
			switch {
			case ok && !pred(a.Accept(a.Run(a.Start(), got))):
				t.Errorf("seed %d: Hole(%s) = %s, which does not satisfy", seed, dir, got)
			case ok && (!validBelow(dir, got)):
				t.Errorf("seed %d: Hole(%s) = %s, which is no path below it", seed, dir, got)
			case shortest >= 0 && (!ok || len(got) != len(under(dir, want))):
				t.Errorf("seed %d: Hole(%s) = %q, %v; %s%s is a shortest\n%s", seed, dir, got, ok, dir, want, strings.Join(globs(rules), "\n"))
			case shortest < 0 && ok && len(got) <= len(under(dir, all[len(all)-1])):
				t.Errorf("seed %d: Hole(%s) = %s, which trying all did not find", seed, dir, got)
			case shortest < 0 && ok:
				long++
			case ok:
				found++
			}
		}
	}
	if found < 100 || long == 0 {
		t.Errorf("%d short and %d long holes: the test is too easy", found, long)
	}
}

func validBelow(dir, path string) bool {
	if dir == "/" {
		dir = ""
	}
	rest, ok := strings.CutPrefix(path, dir+"/")
	if !ok {
		return false
	}
	for _, name := range strings.Split(rest, "/") {
		if name == "" || name == "." || name == ".." || strings.ContainsRune(name, 0) {
			return false
		}
	}
	return true
}

// TestHoleAvoidsDots wants no "." or ".." as an example, though the patterns
// match them.
func TestHoleAvoidsDots(t *testing.T) {
	tests := []struct {
		glob, dir string
		found     bool
	}{
		{"/a/?", "/a", true},
		{"/a/[.]", "/a", false},
		{"/a/[.]?", "/a", true},
		{"/a/[.][.]", "/a", false},
		{"/a/[.][.]/b", "/a", false},
		{"/a/[.][.][.]", "/a", true},
		{"/a", "/a", false},
		{"/a", "/", true},
		{"/", "/", false},
		{"/a/**", "/a/b", true},
		{"/b/**", "/a", false},
	}
	for _, tt := range tests {
		a := compile(t, []automaton.Rule{{Glob: tt.glob}})
		got, ok := a.Hole(tt.dir, func(class uint32) bool { return class != 0 })
		if ok != tt.found || ok && !validBelow(tt.dir, got) {
			t.Errorf("%s below %s: %q, %v", tt.glob, tt.dir, got, ok)
		}
	}
}

// TestNarrowsTo compares NarrowsTo with trying all short suffixes.
func TestNarrowsTo(t *testing.T) {
	all := suffixes("ab.c", 6)
	yes, no := 0, 0
	for seed := range uint64(600) {
		m := newMaker(seed)
		rules := m.rules(4)
		a := compile(t, rules)
		for range 3 {
			from, to := m.path(), m.path()
			if from == "/" || to == "/" {
				continue
			}
			weight := func(class uint32) int32 {
				sum := int32(0)
				for _, w := range a.Winners(class) {
					sum += (w + 1) % 3
				}
				return sum
			}
			ok := func(x, y uint32) bool { return weight(x) <= weight(y) }
			want, example := true, ""
			for _, s := range all {
				if !ok(a.Accept(a.Run(a.Start(), from+s)), a.Accept(a.Run(a.Start(), to+s))) {
					want, example = false, s
					break
				}
			}
			got := a.NarrowsTo(from, to, ok)
			if again := a.NarrowsTo(from, to, ok); again != got {
				t.Errorf("seed %d: NarrowsTo(%s, %s) = %v, then %v", seed, from, to, got, again)
			}
			if got && !want {
				t.Errorf("seed %d: NarrowsTo(%s, %s), but not with %s", seed, from, to, example)
			}
			if !got && want {
				checkWitness(t, a, from, to, ok)
			}
			if got {
				yes++
			} else {
				no++
			}
		}
	}
	if yes < 100 || no < 100 {
		t.Errorf("%d narrow, %d do not: the test is too easy", yes, no)
	}
}

// checkWitness looks for a suffix, however long, that shows that ok does not
// hold: it tries all that lead to another pair of states.
func checkWitness(t *testing.T, a *automaton.Automaton, from, to string, ok func(x, y uint32) bool) {
	t.Helper()
	type pair struct {
		x, y automaton.State
		last string // the component so far, if it is not yet a name
	}
	seen := make(map[pair]bool)
	queue := []string{"/"}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, c := range "ab.c/" {
			s := s + string(c)
			p := pair{a.Run(a.Start(), from+s), a.Run(a.Start(), to+s), s[strings.LastIndexByte(s, '/'):]}
			name := p.last != "/" && p.last != "/." && p.last != "/.."
			if name {
				p.last = "name"
			}
			if seen[p] || strings.HasSuffix(s, "//") || strings.HasSuffix(s, "/./") || strings.HasSuffix(s, "/../") {
				continue
			}
			seen[p] = true
			queue = append(queue, s)
			if name && !ok(a.Accept(p.x), a.Accept(p.y)) {
				return
			}
		}
	}
	t.Errorf("NarrowsTo(%s, %s) is false, but no suffix shows it", from, to)
}

// TestNarrowsToRoot has the root on either side.
func TestNarrowsToRoot(t *testing.T) {
	a := compile(t, []automaton.Rule{{Glob: "/"}, {Glob: "/x"}, {Glob: "/d/x"}, {Glob: "/d"}})
	var pairs [][2]uint32
	collect := func(x, y uint32) bool {
		pairs = append(pairs, [2]uint32{x, y})
		return true
	}
	if !a.NarrowsTo("/", "/d", collect) {
		t.Fatal("a true predicate does not hold")
	}
	class := func(p string) uint32 { return a.Accept(a.Run(a.Start(), p)) }
	for _, want := range [][2]uint32{{class("/"), class("/d")}, {class("/x"), class("/d/x")}, {class("/d"), class("/d/d")}, {0, 0}} {
		if !slices.Contains(pairs, want) {
			t.Errorf("pair %v is missing from %v", want, pairs)
		}
	}
}

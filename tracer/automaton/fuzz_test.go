package automaton_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

// FuzzMatch compares the automaton with the naive matcher on fuzzed globs, one a
// line, and one path.
func FuzzMatch(f *testing.F) {
	f.Add("/a/**/b\n/a/*\n/{a,b}c?", "/a/x/b", uint64(7))
	f.Add("/**/*x*\n/**/*y*\n/", "/axy/b", uint64(0))
	f.Add("/[!a]b\n/\\*c\n/a**b", "/ab", uint64(1))
	f.Fuzz(func(t *testing.T, text, path string, bits uint64) {
		if len(text) > 120 || len(path) > 60 || !validBelow("/", path) && path != "/" {
			return
		}
		var rules []automaton.Rule
		for i, glob := range strings.Split(text, "\n") {
			if strings.Count(glob, "*")+4*strings.Count(glob, "{") > 12 {
				continue // the naive matcher would take for ever
			}
			b := bits >> (i * 5 % 60)
			r := automaton.Rule{Glob: glob, Layer: int(b & 1), Below: b&2 != 0, Tie: int(b >> 2 & 1), Group: int(b >> 3 & 3)}
			if _, err := automaton.Compile([]automaton.Rule{r}, automaton.Config{}); err == nil {
				rules = append(rules, r)
			}
		}
		a, err := automaton.Compile(rules, automaton.Config{MaxStates: 20_000})
		if err != nil {
			var le *automaton.LimitError
			if !errors.As(err, &le) {
				t.Fatalf("each rule alone compiles, all do not: %v", err)
			}
			return
		}
		checkPath(t, a, rules, path)
	})
}

// FuzzGlob wants every glob compiled or refused with a place in it.
func FuzzGlob(f *testing.F) {
	for _, glob := range []string{"/", "/**", "/a[!b-c]{d,e*}\\f?", "/a[", "/{,}", "//", "/[\xff-\x00]"} {
		f.Add(glob)
	}
	f.Fuzz(func(t *testing.T, glob string) {
		a, err := automaton.Compile([]automaton.Rule{{Glob: glob, Below: true}}, automaton.Config{MaxStates: 5000})
		var ge *automaton.GlobError
		var le *automaton.LimitError
		switch {
		case errors.As(err, &ge):
			if ge.Rule != 0 || ge.Offset < 0 || ge.Offset > len(glob) || ge.Msg == "" {
				t.Errorf("%q: %+v", glob, ge)
			}
		case errors.As(err, &le):
		case err != nil:
			t.Errorf("%q: %v", glob, err)
		default:
			// Some path matches, unless it could only be "." or "..".
			path, ok := a.Hole("/", func(class uint32) bool { return class != 0 })
			if hits := a.Explain(path); ok && len(hits) != 1 {
				t.Errorf("%q: Hole finds %q, Explain says %v", glob, path, hits)
			}
		}
	})
}

// FuzzUnmarshal wants hostile bytes refused or harmless.
func FuzzUnmarshal(f *testing.F) {
	data, err := compile(f, []automaton.Rule{{Glob: "/a/**/b*", Below: true}, {Glob: "/c", Layer: 1}}).MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:40])
	f.Fuzz(func(t *testing.T, data []byte) {
		exercise(t, data)
		exercise(t, forge(data))
	})
}

package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
)

// draft is the profile that a policy is translated to.
type draft struct {
	name, description, extends string
	// exactPaths is set where patterns there are not about what is below.
	exactPaths bool
	// whole is text that stands for itself before all else: profiles that are in
	// our language already.
	whole string

	files, always, programs []draftRule
	commands                []draftCommand
	network                 *draftNetwork
	env                     draftEnv
	limits                  [][2]string // name and value as TOML has it
}

// draftRule is one line of a table of paths with where it comes from.
type draftRule struct {
	pathRule
	from    Pos
	written string
}

type draftNetwork struct {
	enabled           bool
	mode, bind        string
	local             event.Action
	domains, sockets  []draftRule
	addresses         []draftRule
	socketsOfProjects event.Action
}

type draftEnv struct {
	inherit, deny, mask []string
	set                 [][2]string
}

// net is the network's table, made when something is first said of it.
func (d *draft) net() *draftNetwork {
	if d.network == nil {
		d.network = &draftNetwork{}
	}
	return d.network
}

// put adds a rule to a table. Of two about one pattern the stricter stays.
func put(table *[]draftRule, r draftRule) {
	for i := range *table {
		if was := &(*table)[i]; was.base == r.base && was.pattern == r.pattern {
			if r.word < was.word || r.action > was.action {
				*was = r
			}
			return
		}
	}
	*table = append(*table, r)
}

// importSpot is a place of another tool's file system in our language: a pattern below
// a special, or an absolute one.
type importSpot struct{ base, pattern string }

// rule is a line of a table about the importSpot.
func (s importSpot) rule(w word, from Pos, written string) draftRule {
	return draftRule{pathRule{base: s.base, pattern: s.pattern, word: w}, from, written}
}

func (s importSpot) act(a event.Action, from Pos, written string) draftRule {
	return draftRule{pathRule{base: s.base, pattern: s.pattern, action: a}, from, written}
}

func (s importSpot) String() string {
	if s.base == "" {
		return s.pattern
	}
	return s.base + " " + s.pattern
}

// wild reports whether the importSpot is a pattern and no single path.
func (s importSpot) wild() bool { return indexUnescaped(s.pattern, "*?[{") >= 0 }

// globs are the importSpot's patterns on a host.
func (s importSpot) globs(on *placer) []string {
	var out []string
	for _, r := range on.place(pathRule{base: s.base, pattern: s.pattern, word: wordDeny}) {
		out = append(out, r.glob)
	}
	return out
}

// valid reports whether a importSpot is a pattern that can be compiled.
func (im *importer) valid(s importSpot) bool {
	if len(s.pattern) > 1000 || strings.ContainsAny(s.pattern, "\x00\n") || s.base != "" && relative(s.pattern) != "" || s.base == "" && !strings.HasPrefix(s.pattern, ":") && absolute(s.pattern) != "" {
		return false
	}
	for _, g := range s.globs(&im.place) {
		if _, err := automaton.Compile([]automaton.Rule{{Glob: g, Below: true}}, automaton.Config{}); err != nil {
			return false
		}
	}
	return true
}

// relation is how the paths of two patterns, each with all below, lie.
type relation struct {
	// meet is set when a path belongs to both, covers when all of the second's
	// belong to the first, and beats when the second decides about one of both.
	meet, covers, beats bool
	// may is set when it would cover, if the workspace is where it is now.
	may bool
}

// relate compares two spots: on the host as it is, and with a workspace that lies
// in nothing else. What covers does so on both.
func (im *importer) relate(a, b importSpot) relation {
	key := [2]importSpot{a, b}
	known, ok := im.relations[key]
	if !ok {
		known = im.compare(a, b)
		if im.relations == nil {
			im.relations = make(map[[2]importSpot]relation)
		}
		im.relations[key] = known
	}
	return known
}

func (im *importer) compare(a, b importSpot) relation {
	all := relation{covers: true}
	for _, on := range []*placer{&im.place, &im.apart} {
		first, seconds := a.globs(on), b.globs(on)
		if len(first) == 0 || len(seconds) == 0 {
			return relation{meet: true, beats: true} // it cannot be told, so the worse is taken
		}
		whole := true
		for _, second := range seconds {
			covered := false
			for _, f := range first {
				r := relateGlobs(f, second, !im.exactPaths)
				all.meet, all.beats, covered = all.meet || r.meet, all.beats || r.beats, covered || r.covers
			}
			whole = whole && covered
		}
		all.covers, all.may = all.covers && whole, all.may || whole
	}
	return all
}

// relateGlobs compares two patterns, which are about what is below what they match
// too or are not. In our language they always are: so the second is, once it is a
// rule here.
func relateGlobs(a, b string, below bool) relation {
	if a == b {
		return relation{meet: true, covers: true, beats: true}
	}
	if la, lb := literalPrefix(a), literalPrefix(b); !isBelow(la, lb) && !isBelow(lb, la) {
		return relation{}
	}
	auto, err := automaton.Compile([]automaton.Rule{
		{Glob: a, Layer: 0, Below: below}, {Glob: b, Layer: 1, Below: below},
		{Glob: a, Layer: 2, Below: true, Tie: 1}, {Glob: b, Layer: 2, Below: true}, {Glob: b, Layer: 3, Below: true},
	}, automaton.Config{})
	if err != nil {
		return relation{meet: true, beats: true} // it cannot be told, so the worse is taken
	}
	rel := relation{covers: true}
	for accept := range auto.NumAccepts() {
		w := auto.Winners(uint32(accept))
		inA, inB, ruled := winner(w, 0) >= 0, winner(w, 1) >= 0, winner(w, 3) >= 0
		rel.meet = rel.meet || inA && ruled
		rel.covers = rel.covers && (inA || !inB)
		rel.beats = rel.beats || inA && ruled && winner(w, 2) == 3
	}
	return rel
}

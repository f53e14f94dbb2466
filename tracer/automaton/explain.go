package automaton

import "slices"

// Hit is a rule that matches a path.
type Hit struct {
	Rule  int // index into the rules
	Layer int
	// Self is set when the pattern matches the path itself, and not when it
	// matches a directory above it.
	Self bool
}

// Explain lists every rule that matches path, layer by layer and the most
// specific first, so the first of each layer is the one that wins. It tries the
// rules one by one, independently of the tables.
func (a *Automaton) Explain(path string) []Hit {
	specs := a.parsed()
	var hits []Hit
	var m matcher
	for i := range a.rules {
		if self, below := m.match(&specs[i], path); self || below && a.rules[i].Below {
			hits = append(hits, Hit{Rule: i, Layer: a.rules[i].Layer, Self: self})
		}
	}
	slices.SortFunc(hits, func(x, y Hit) int {
		if x.Layer != y.Layer {
			return x.Layer - y.Layer
		}
		return moreSpecific(a.rules, specs, y.outcome(specs), x.outcome(specs))
	})
	return hits
}

func (h Hit) outcome(specs []spec) outcome {
	return outcome{rule: int32(h.Rule), exact: h.Self && specs[h.Rule].literal}
}

// parsed is the parsed rules. Those of a loaded automaton are parsed here; one
// that does not parse, which only a forged file has, matches nothing.
func (a *Automaton) parsed() []spec {
	a.specsOnce.Do(func() {
		a.specs = make([]spec, len(a.rules))
		for i, r := range a.rules {
			if s, err := parseGlob(i, r.Glob); err == nil {
				a.specs[i] = s
			}
		}
	})
	return a.specs
}

// resolve finds which rules of their groups really win for path.
func (a *Automaton) resolve(path string, winners []int32) []int32 {
	var out []int32
	for l, w := range winners {
		if w < 0 || a.rules[w].Group == 0 {
			continue
		}
		if out == nil {
			out = slices.Clone(winners)
		}
		out[l] = a.resolveLayer(path, w)
	}
	if out == nil {
		return winners
	}
	return out
}

// resolveLayer is the rule that wins for path among those of leader's group.
func (a *Automaton) resolveLayer(path string, leader int32) int32 {
	specs := a.parsed()
	best := outcome{rule: -1}
	var m matcher
	for i, r := range a.rules {
		if r.Layer != a.rules[leader].Layer || r.Group != a.rules[leader].Group {
			continue
		}
		o := outcome{rule: int32(i), exact: specs[i].literal && specs[i].prefix == path}
		if best.rule >= 0 && moreSpecific(a.rules, specs, o, best) < 0 {
			continue
		}
		if self, below := m.match(&specs[i], path); self || below && r.Below {
			best = o
		}
	}
	if best.rule < 0 {
		return leader
	}
	return best.rule
}

package automaton

import (
	"cmp"
	"slices"
	"strings"
)

// outcome is a way in which a rule can win: by its match as such, or, for a
// pattern without wildcards, by being the very path.
type outcome struct {
	rule  int32
	exact bool
}

// moreSpecific orders outcomes, less specific first.
func moreSpecific(rules []Rule, specs []spec, a, b outcome) int {
	if a.exact != b.exact {
		if a.exact {
			return 1
		}
		return -1
	}
	x, y := &specs[a.rule], &specs[b.rule]
	return cmp.Or(
		cmp.Compare(len(x.prefix), len(y.prefix)),
		cmp.Compare(x.bytes, y.bytes),
		cmp.Compare(rules[a.rule].Tie, rules[b.rule].Tie),
		cmp.Compare(a.rule, b.rule),
	)
}

// rank is what an outcome is worth within its layer: a level, and the group of
// rules it belongs to. Of two outcomes that one path can have, the more specific
// has the higher level, or the same one if both are of one group. Outcomes that
// exclude each other may share a level whatever their groups: that makes patterns
// below sibling directories look alike, so that their states can be shared. The
// order does not depend on the path; the whole construction lives on that.
type rank uint64

func makeRank(level, group int32) rank { return rank(level)<<32 | rank(uint32(group)) }

func (r rank) level() int32 { return int32(r >> 32) }
func (r rank) group() int32 { return int32(uint32(r)) }

// ranking holds the outcomes of one layer with their ranks.
type ranking struct {
	outcomes []outcome // less specific first, among those with one prefix
	ranks    []rank    // of the outcomes
	leader   []int32   // by group: the rule that Winners names; [0] is none
}

// rankLayers ranks the outcomes of every layer.
func rankLayers(rules []Rule, specs []spec, layers int) []ranking {
	rankings := make([]ranking, layers)
	for i, r := range rules {
		rk := &rankings[r.Layer]
		if !specs[i].literal || r.Below {
			rk.outcomes = append(rk.outcomes, outcome{rule: int32(i)})
		}
		if specs[i].literal {
			rk.outcomes = append(rk.outcomes, outcome{rule: int32(i), exact: true})
		}
	}
	for l := range rankings {
		rk := &rankings[l]
		slices.SortFunc(rk.outcomes, func(a, b outcome) int {
			if a.exact == b.exact {
				if c := strings.Compare(specs[a.rule].prefix, specs[b.rule].prefix); c != 0 {
					return c
				}
			}
			return moreSpecific(rules, specs, a, b)
		})
		rk.assign(specs, rk.number(rules))
	}
	return rankings
}

// number gives the groups of the layer dense numbers, from 1, and returns those
// of the outcomes.
func (rk *ranking) number(rules []Rule) []int32 {
	groups := make([]int32, len(rk.outcomes))
	rk.leader = append(make([]int32, 0, len(rk.outcomes)+1), -1)
	byRule := make(map[int32]int32)
	byGroup := make(map[int]int32)
	for i, o := range rk.outcomes {
		g, seen := byRule[o.rule]
		if named := rules[o.rule].Group; named != 0 {
			g, seen = byGroup[named]
		}
		if !seen {
			g = int32(len(rk.leader))
			rk.leader = append(rk.leader, o.rule)
			byRule[o.rule] = g
			if named := rules[o.rule].Group; named != 0 {
				byGroup[named] = g
			}
		}
		groups[i] = g
		rk.leader[g] = min(rk.leader[g], o.rule)
	}
	return groups
}

// assign sets the ranks. Two patterns can match one path only if the literal
// prefix of one begins with that of the other, and then the longer wins. So the
// levels go on from those of the nearest shorter prefix. Exact matches are above
// all others, and exclude one another unless they are the same.
func (rk *ranking) assign(specs []spec, groups []int32) {
	type above struct {
		prefix string
		last   rank
	}
	var stack []above
	top := int32(0)
	rk.ranks = make([]rank, len(rk.outcomes))
	for i, o := range rk.outcomes {
		prefix := specs[o.rule].prefix
		last := makeRank(0, 0)
		if o.exact {
			last = makeRank(top+1, 0)
			if i > 0 && rk.outcomes[i-1].exact && specs[rk.outcomes[i-1].rule].prefix == prefix {
				last = rk.ranks[i-1]
			}
		} else {
			for len(stack) > 0 && !strings.HasPrefix(prefix, stack[len(stack)-1].prefix) {
				stack = stack[:len(stack)-1]
			}
			if len(stack) > 0 {
				last = stack[len(stack)-1].last
			}
		}
		r := last
		if last.group() != groups[i] {
			r = makeRank(last.level()+1, groups[i])
		}
		rk.ranks[i] = r
		if !o.exact {
			top = max(top, r.level())
			stack = append(stack, above{prefix, r})
		}
	}
}

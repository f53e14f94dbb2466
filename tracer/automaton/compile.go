package automaton

import (
	"fmt"
	"time"
)

// Bounds that no Config widens: they keep a policy of hostile or careless patterns
// from holding up a start. A hundred ordinary rules stay a hundred times below.
const (
	maxPositions = 1 << 18 // bytes and wildcards of all patterns, alternations expanded
	maxWork      = 1 << 25 // nodes looked at, which takes some tenths of a second
)

// LimitError says that rules need a larger automaton than is allowed.
type LimitError struct {
	Limit        string // "states", "table bytes", "pattern positions" or "steps of work"
	Max, Reached int
	Hint         string
}

// Error names the limit, what was reached, and what to do.
func (e *LimitError) Error() string {
	return fmt.Sprintf("compile path patterns: more than %d %s (reached %d): %s", e.Max, e.Limit, e.Reached, e.Hint)
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.MaxStates < 0 || c.MaxStates > DefaultMaxStates {
		return fmt.Errorf("automaton: MaxStates %d is not in 0..%d", c.MaxStates, DefaultMaxStates)
	}
	if c.MaxTable < 0 {
		return fmt.Errorf("automaton: MaxTable %d is negative", c.MaxTable)
	}
	return nil
}

// Compile builds the automaton of all rules. Winners are indexes into rules,
// which is kept and must not be changed afterwards. The same rules always give
// the same tables. A bad pattern is a *GlobError, too large an automaton a
// *LimitError.
func Compile(rules []Rule, cfg Config) (*Automaton, error) {
	began := time.Now()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	specs, layers, err := parseRules(rules)
	if err != nil {
		return nil, err
	}
	b := newBuilder(newNFA(rules, specs, layers), cfg)
	if err := b.run(); err != nil {
		return nil, err
	}
	a := &Automaton{
		class: b.nfa.class, classes: b.classes, next: b.next, accept: b.accept,
		layers: layers, winners: b.winners, rules: rules, derived: &derived{},
	}
	a.specsOnce.Do(func() { a.specs = specs })
	a.compileTime = time.Since(began)
	return a, nil
}

// parseRules parses every glob and counts the layers.
func parseRules(rules []Rule) ([]spec, int, error) {
	specs := make([]spec, len(rules))
	layers, positions := 0, 0
	for i, r := range rules {
		if r.Layer < 0 || r.Layer >= MaxLayers {
			return nil, 0, fmt.Errorf("rule %d: layer %d is not in 0..%d", i, r.Layer, MaxLayers-1)
		}
		s, err := parseGlob(i, r.Glob)
		if err != nil {
			return nil, 0, err
		}
		specs[i], layers = s, max(layers, r.Layer+1)
		for _, alt := range s.alts {
			positions += len(alt)
		}
		if positions > maxPositions {
			return nil, 0, &LimitError{
				Limit: "pattern positions", Max: maxPositions, Reached: positions,
				Hint: fmt.Sprintf("rule %d is where it happens: use shorter patterns and fewer {alternations}", i),
			}
		}
	}
	return specs, layers, nil
}

// limit is the error for having outgrown a bound.
func (b *builder) limit(name string, maximum, reached int) error {
	return &LimitError{Limit: name, Max: maximum, Reached: reached, Hint: b.hint()}
}

// hint names the layers whose patterns multiply most.
func (b *builder) hint() string {
	loops := make([]int, b.layers)
	for i := range b.nfa.nodes {
		if nd := &b.nfa.nodes[i]; nd.kind != step {
			loops[nd.layer] += len(nd.reach.ranks)
		}
	}
	worst := 0
	for l := range loops {
		if loops[l] > loops[worst] {
			worst = l
		}
	}
	return fmt.Sprintf("patterns with ** or *x* multiply when several layers have many of them, or when one "+
		"has several wildcards in a row; layer %d has most: give them a longer literal beginning, use fewer, "+
		"or give rules with one outcome one Group", worst)
}

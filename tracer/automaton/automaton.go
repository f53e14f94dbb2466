// Package automaton is one deterministic automaton over path bytes, compiled
// from the path patterns of all policy layers, in flat tables.
//
// Running it over a resolved path gives, in one pass and for all layers at once,
// the most specific rule of each layer. The same tables can be run by a BPF
// program (see [Tables]). It also answers what a plan for the kernel needs to
// know about whole subtrees: whether a path of some kind can exist below a
// directory ([Automaton.Hole]) and whether moving a tree elsewhere only narrows
// what its names allow ([Automaton.NarrowsTo]).
//
// # Patterns
//
// A pattern is absolute and cleaned; its components are separated by "/":
//
//   - any run of bytes but "/", also an empty one; a dot file is a name like any other
//     ?       one byte but "/" (one byte, not one UTF-8 character)
//     [a-z]   one byte of the set; [!a-z] or [^a-z] one byte outside it, never "/"
//     {a,b}   one of the alternatives, which hold no "/" and no further braces
//     \x      the byte x itself, also inside sets and alternatives
//     **      as a whole component: zero or more components, but one or more at
//     the end of the pattern; among other bytes it is the same as *
//
// A component is never empty, so "/*" does not match "/". A rule with Below set
// that matches a path also matches everything below that path.
//
// # Specificity
//
// Within a layer the most specific match wins: (1) a pattern without wildcards
// that matches the path itself; (2) the longer literal prefix, which for a
// literal pattern governing from above is its whole length; (3) more literal
// bytes in all, where an alternation counts its shortest alternative; (4) the
// larger Tie; (5) the later rule. Sets and alternations are wildcards, escaped
// bytes are literal.
package automaton

import (
	"sync"
	"time"
)

// MaxLayers is the number of layers that an automaton can tell apart.
const MaxLayers = 8

// Defaults and hard limits of [Config].
const (
	DefaultMaxStates = 1 << 16
	DefaultMaxTable  = 16 << 20
)

// Rule is one pattern of one layer.
type Rule struct {
	// Glob is the pattern, absolute and cleaned.
	Glob string
	// Layer is 0 … MaxLayers-1.
	Layer int
	// Below makes a match of a path govern everything below it too.
	Below bool
	// Tie decides between matches that are equally specific: the larger wins.
	Tie int
	// Group, when not 0, says that the rules of this layer with the same Group
	// lead to the same outcome. Winners then names one rule for the whole group,
	// and Match finds out which it really was. Grouping by outcome keeps the
	// automaton small where many patterns can match above one another.
	Group int
}

// Config bounds the automaton. The zero Config means the defaults.
type Config struct {
	// MaxStates is the most states the automaton may have: 0 means
	// DefaultMaxStates, which is also the most that can be asked for.
	MaxStates int
	// MaxTable is the most bytes the table of transitions may take: 0 means
	// DefaultMaxTable.
	MaxTable int
}

// State is a state of an automaton. It means nothing to another automaton.
type State uint32

// Automaton is a compiled set of rules; the zero value is only good for
// UnmarshalBinary. It never changes: all methods may be
// called by any number of goroutines at once, but UnmarshalBinary, which must
// have the automaton to itself.
type Automaton struct {
	class   [256]uint8 // byte → class
	classes int        // columns of a row of next
	next    []uint16   // row-major, states × classes
	accept  []uint32   // state → accept class
	layers  int
	winners []int32 // accept classes × layers
	rules   []Rule

	compileTime time.Duration
	*derived
}

// derived is what is made from the tables when first asked for.
type derived struct {
	specsOnce sync.Once
	specs     []spec

	alphabetOnce sync.Once
	alphabet     alphabet

	edgesOnce sync.Once
	edges     edgeList

	mu    sync.Mutex
	pairs map[[2]State]outcomePairs // guarded by mu; see NarrowsTo
}

// dead is the state that no rule matches and nothing leads out of; start is the
// state before the first byte.
const (
	dead  State = 0
	start State = 1
)

// Start is the state before the first byte of a path.
func (a *Automaton) Start() State { return start }

// Run follows path from s. It is total: bytes that no rule expects lead to a
// state that matches nothing. Run(Run(s, x), y) is Run(s, x+y). Paths are
// absolute and cleaned; "a" and "//a" match nothing, and after "/a/" only what
// governs from above holds.
func (a *Automaton) Run(s State, path string) State {
	if int(s) >= len(a.accept) {
		return dead
	}
	next, classes, x := a.next, uint(a.classes), uint(s)
	for i := 0; i < len(path); i++ {
		x = uint(next[x*classes+uint(a.class[path[i]])])
	}
	return State(x)
}

// Accept is the accept class of s: 0 when no rule of any layer matches.
func (a *Automaton) Accept(s State) uint32 {
	if int(s) >= len(a.accept) {
		return 0
	}
	return a.accept[s]
}

// NumAccepts is the number of accept classes, the empty one included.
func (a *Automaton) NumAccepts() int {
	if a.layers == 0 {
		return 1
	}
	return len(a.winners) / a.layers
}

// Winners holds for each layer the index of the rule that wins in the accept
// class, or -1. Of a group it names one rule for all (see [Rule]). The caller
// must not change the slice. An unknown class has no winners: nil.
func (a *Automaton) Winners(accept uint32) []int32 {
	if int64(accept) >= int64(a.NumAccepts()) {
		return nil
	}
	i := int(accept) * a.layers
	return a.winners[i : i+a.layers : i+a.layers]
}

// Match holds for each layer the index of the rule that wins for path, or -1.
// It names the very rule, also within a group; that costs a look at each rule of
// the group, so decide by Winners and use Match to name the rule.
func (a *Automaton) Match(path string) []int32 {
	return a.resolve(path, a.Winners(a.Accept(a.Run(start, path))))
}

// Rules are the rules the automaton was compiled from. The caller must not
// change them.
func (a *Automaton) Rules() []Rule { return a.rules }

// Stats tells how large an automaton is.
type Stats struct {
	States, Classes, Accepts int
	TableBytes               int
	// CompileTime is 0 for an automaton that was loaded.
	CompileTime time.Duration
}

// Stats measures the automaton.
func (a *Automaton) Stats() Stats {
	return Stats{
		States: len(a.accept), Classes: a.classes, Accepts: a.NumAccepts(),
		TableBytes:  2*len(a.next) + 4*len(a.accept) + len(a.class),
		CompileTime: a.compileTime,
	}
}

// Tables are the flat tables of an automaton, ready to be copied into BPF maps:
//
//	s := Start
//	for each byte b of the path: s = Next[s*Classes + ByteClass[b]]
//	class := Accept[s]
//
// Every entry of Next is below len(Accept), every entry of ByteClass below
// Classes, so a program that bounds the length of the path needs no check that
// can fail, though the verifier wants the index masked or compared. State 0 is
// dead: it leads only to itself and accepts nothing, so a program may stop there.
// Numbers are in host order. The caller must not change the slices.
type Tables struct {
	ByteClass [256]uint8
	Classes   uint32
	Start     uint32
	Next      []uint16 // row-major, states × classes
	Accept    []uint32 // state → accept class, 0 = nothing matches
}

// Tables gives the automaton's tables without copying them.
func (a *Automaton) Tables() Tables {
	return Tables{ByteClass: a.class, Classes: uint32(a.classes), Start: uint32(start), Next: a.next, Accept: a.accept}
}

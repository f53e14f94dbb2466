package automaton

import "slices"

// none marks a missing node or edge.
const none int32 = -1

type nodeKind uint8

const (
	step nodeKind = iota // left by the next byte
	star                 // stays for any byte but "/"
	tree                 // stays for any byte: inside "**"
)

// node is a position in the patterns of one layer. Patterns that begin alike
// share nodes, so that a layer's hundred "/**/*x*" are one loop, not a hundred.
type node struct {
	layer uint8
	kind  nodeKind
	// self and below are the best that a path that ends here, and what is below
	// such a path, can win; 0 is nothing.
	self, below rank

	parent int32
	edges  int32 // first of the edges on byte classes
	sets   int32 // first of the edges on sets
	any    int32 // after one byte of any kind
	star   int32 // after no byte at all
	slash  int32 // after "/"
	tree   int32 // after "/", any number of components

	dense []int32 // kind star: class → node, the same as edges
	reach reach   // what can still be won from here
}

// reach is a sorted list of ranks; skip[i] is the index of the first later rank
// whose group is another one.
type reach struct {
	ranks []rank
	skip  []int32
}

// edge leads to a node on one byte class, or on a set of them. Lists of edges are
// sorted by on.
type edge struct {
	on   int32 // a class, or an index into nfa.sets
	to   int32
	next int32
}

// nfa is the patterns of all layers as one nondeterministic automaton.
type nfa struct {
	nodes    []node
	edges    []edge
	sets     []byteSet // over byte classes, not bytes
	class    [256]uint8
	classes  int
	slash    uint8 // class of "/"
	roots    []int32
	rankings []ranking
	rootSelf []rank // by layer: the best that "/" itself can win
}

// newNFA builds the nodes of all patterns.
func newNFA(rules []Rule, specs []spec, layers int) *nfa {
	n := &nfa{rankings: rankLayers(rules, specs, layers), rootSelf: make([]rank, layers)}
	n.classify(specs)
	size := layers
	for i := range specs {
		for _, alt := range specs[i].alts {
			size += len(alt)
		}
	}
	n.nodes = make([]node, 0, size)
	n.edges = make([]edge, 0, size)
	for l := range layers {
		n.roots = append(n.roots, n.add(none, uint8(l), step))
	}
	ends := make([][]int32, len(rules))
	for i := range rules {
		sets := make([]int32, len(specs[i].sets))
		for j, s := range specs[i].sets {
			sets[j] = n.set(n.overClasses(s))
		}
		for _, alt := range specs[i].alts {
			ends[i] = append(ends[i], n.insert(n.roots[rules[i].Layer], alt, sets))
		}
	}
	n.score(rules, specs, ends)
	n.fillReach(ends)
	n.shareTails()
	n.densify()
	return n
}

func (n *nfa) add(parent int32, layer uint8, kind nodeKind) int32 {
	n.nodes = append(n.nodes, node{
		layer: layer, kind: kind, parent: parent,
		edges: none, sets: none, any: none, star: none, slash: none, tree: none,
	})
	return int32(len(n.nodes) - 1)
}

// set is the number of a set of classes.
func (n *nfa) set(s byteSet) int32 {
	if i := slices.Index(n.sets, s); i >= 0 {
		return int32(i)
	}
	n.sets = append(n.sets, s)
	return int32(len(n.sets) - 1)
}

// insert follows one pattern from at, adds what is missing, and returns the node
// it ends at. A "**" at the end stops at the directory above it, since it holds
// for everything below that; "/" stops at the root.
func (n *nfa) insert(at int32, alt []token, sets []int32) int32 {
	if len(alt) == 1 && alt[0].kind == tokByte {
		return at
	}
	for i, tok := range alt {
		switch nd := &n.nodes[at]; {
		case tok.kind == tokStars && i == len(alt)-1:
			return at
		case tok.kind == tokStars:
			at = n.child(at, nd.tree, tree, func(p *node) *int32 { return &p.tree })
		case tok.kind == tokStar:
			at = n.child(at, nd.star, star, func(p *node) *int32 { return &p.star })
		case tok.kind == tokAny:
			at = n.child(at, nd.any, step, func(p *node) *int32 { return &p.any })
		case tok.kind == tokSet:
			at = n.follow(at, sets[tok.set], func(p *node) *int32 { return &p.sets })
		case tok.b == '/':
			at = n.child(at, nd.slash, step, func(p *node) *int32 { return &p.slash })
		default:
			at = n.follow(at, int32(n.class[tok.b]), func(p *node) *int32 { return &p.edges })
		}
	}
	return at
}

// child is the node at c, or a new one in the given field of parent.
func (n *nfa) child(parent, c int32, kind nodeKind, field func(*node) *int32) int32 {
	if c != none {
		return c
	}
	c = n.add(parent, n.nodes[parent].layer, kind)
	*field(&n.nodes[parent]) = c
	return c
}

// follow is the node after an edge on on, a new one if need be, in the list of
// edges that begins in the given field of parent.
func (n *nfa) follow(parent, on int32, field func(*node) *int32) int32 {
	link := field(&n.nodes[parent])
	for *link != none && n.edges[*link].on < on {
		link = &n.edges[*link].next
	}
	if *link != none && n.edges[*link].on == on {
		return n.edges[*link].to
	}
	fresh := edge{on: on, to: int32(len(n.nodes)), next: *link}
	*link = int32(len(n.edges))
	n.edges = append(n.edges, fresh)
	return n.add(parent, n.nodes[parent].layer, step)
}

// score notes at the nodes where patterns end what is won there.
func (n *nfa) score(rules []Rule, specs []spec, ends [][]int32) {
	for l := range n.rankings {
		rk := &n.rankings[l]
		for i, o := range rk.outcomes {
			r := rk.ranks[i]
			self := o.exact || !specs[o.rule].literal
			below := !o.exact && rules[o.rule].Below
			for j, at := range ends[o.rule] {
				alt := specs[o.rule].alts[j]
				nd := &n.nodes[at]
				switch {
				case alt[len(alt)-1].kind == tokStars:
					nd.below = max(nd.below, r)
				case len(alt) == 1 && self: // "/"
					n.rootSelf[l] = max(n.rootSelf[l], r)
				case self:
					nd.self = max(nd.self, r)
				}
				if below {
					nd.below = max(nd.below, r)
				}
			}
		}
	}
}

// densify indexes the edges of the nodes that stay, which are looked at most.
func (n *nfa) densify() {
	for i := range n.nodes {
		nd := &n.nodes[i]
		if nd.kind != star {
			continue
		}
		nd.dense = make([]int32, n.classes)
		for c := range nd.dense {
			nd.dense[c] = none
		}
		for e := nd.edges; e != none; e = n.edges[e].next {
			nd.dense[n.edges[e].on] = n.edges[e].to
		}
	}
}

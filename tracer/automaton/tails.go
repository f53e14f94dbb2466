package automaton

// shareTails makes nodes from which the same can be won in the same way one node,
// so that "/home/u/x/**/*secret*" and "/home/u/y/**/*secret*" lead to the same
// states once x or y is behind. Children come after their parents, so one pass
// from the end sees every tail before what leads to it.
func (n *nfa) shareTails() {
	shared := make([]int32, len(n.nodes))
	size := 16
	for size < 2*len(n.nodes) {
		size *= 2
	}
	table := make([]int32, size) // open addressing: node + 1
	for i := int32(len(n.nodes)) - 1; i >= 0; i-- {
		n.relink(i, shared)
		slot := n.hash(i) & uint64(size-1)
		for table[slot] != 0 && !n.alike(table[slot]-1, i) {
			slot = (slot + 1) & uint64(size-1)
		}
		if table[slot] == 0 {
			table[slot] = i + 1
		}
		shared[i] = table[slot] - 1
	}
}

// relink points the links of a node to the shared nodes.
func (n *nfa) relink(i int32, shared []int32) {
	nd := &n.nodes[i]
	for _, link := range []*int32{&nd.any, &nd.star, &nd.slash, &nd.tree} {
		if *link != none {
			*link = shared[*link]
		}
	}
	for _, first := range []int32{nd.edges, nd.sets} {
		for e := first; e != none; e = n.edges[e].next {
			n.edges[e].to = shared[n.edges[e].to]
		}
	}
}

// hash covers what alike compares.
func (n *nfa) hash(i int32) uint64 {
	nd := &n.nodes[i]
	h := uint64(nd.layer)<<8 | uint64(nd.kind)
	mix := func(v uint64) {
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	mix(uint64(nd.self))
	mix(uint64(nd.below))
	mix(uint64(uint32(nd.any))<<32 | uint64(uint32(nd.star)))
	mix(uint64(uint32(nd.slash))<<32 | uint64(uint32(nd.tree)))
	for e := nd.edges; e != none; e = n.edges[e].next {
		mix(uint64(n.edges[e].on)<<32 | uint64(n.edges[e].to))
	}
	for e := nd.sets; e != none; e = n.edges[e].next {
		mix(uint64(n.edges[e].on)<<32 | uint64(n.edges[e].to))
	}
	return h
}

// alike reports whether two nodes lead to the same nodes and win the same.
func (n *nfa) alike(i, j int32) bool {
	x, y := &n.nodes[i], &n.nodes[j]
	return x.layer == y.layer && x.kind == y.kind && x.self == y.self && x.below == y.below &&
		x.any == y.any && x.star == y.star && x.slash == y.slash && x.tree == y.tree &&
		n.sameEdges(x.edges, y.edges) && n.sameEdges(x.sets, y.sets)
}

func (n *nfa) sameEdges(e, f int32) bool {
	for ; e != none && f != none; e, f = n.edges[e].next, n.edges[f].next {
		if n.edges[e].on != n.edges[f].on || n.edges[e].to != n.edges[f].to {
			return false
		}
	}
	return e == f
}

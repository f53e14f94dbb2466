package automaton

// expand fills the row of state s.
//
// Nodes that stay for any byte of a name (loops) are common to many states, and
// on most bytes only they matter. So the row is copied from the state that has
// nothing but the loops, and only the bytes that another node (a step) waits for
// are worked out: as in an Aho–Corasick automaton, with that state as the
// failure link.
func (b *builder) expand(s int) {
	base := b.base(s)
	if base != s && !b.done[base] {
		b.expand(base)
	}
	b.load(s)
	b.done[s] = true
	wide := base == s
	for _, at := range b.steps {
		wide = wide || b.nfa.nodes[at].any != none
	}
	if wide {
		b.touch(b.loops)
	} else {
		copy(b.row(s), b.row(base))
	}
	b.touch(b.steps)
	if wide {
		b.fillWide(s)
	}
	for _, class := range b.touched {
		id := uint16(dead)
		if b.over == nil {
			id = b.follow(class, wide)
		}
		b.row(s)[class] = id
		b.bucket[class] = b.bucket[class][:0]
	}
	b.touched = b.touched[:0]
	id := b.slash()
	b.row(s)[b.nfa.slash] = id
}

func (b *builder) row(s int) []uint16 { return b.next[s*b.classes : (s+1)*b.classes] }

// load reads the configuration of s and splits its nodes.
func (b *builder) load(s int) {
	b.cur.read(b.layers, b.keyOf(s))
	b.loops, b.steps = b.loops[:0], b.steps[:0]
	for _, at := range b.cur.nodes {
		if b.nfa.nodes[at].kind == step {
			b.steps = append(b.steps, at)
		} else {
			b.loops = append(b.loops, at)
		}
	}
}

// base is the state of the loops of s alone.
func (b *builder) base(s int) int {
	b.load(s)
	b.begin()
	b.out.nodes = append(b.out.nodes, b.loops...)
	return int(b.finish())
}

// begin starts b.out as what follows b.cur within a name.
func (b *builder) begin() {
	b.out.slash, b.out.root, b.out.hands = false, false, b.cur.hands
	b.out.nodes = b.out.nodes[:0]
	b.generation++
}

// finish settles b.out and numbers it.
func (b *builder) finish() uint16 {
	b.work += 1 + len(b.out.nodes)
	b.settle(&b.out)
	if b.out.dead(b.layers) {
		return uint16(dead)
	}
	return b.intern(&b.out)
}

// enter adds a node, and the star after it, to b.out.
func (b *builder) enter(at int32) {
	if at == none || b.mark[at] == b.generation {
		return
	}
	b.mark[at] = b.generation
	nd := &b.nfa.nodes[at]
	if !nd.inert() {
		b.out.nodes = append(b.out.nodes, at)
	}
	b.enter(nd.star)
}

// inert nodes only lead to the star after them.
func (nd *node) inert() bool {
	return nd.kind == step && nd.edges == none && nd.sets == none && nd.any == none && nd.slash == none &&
		nd.tree == none && nd.self == 0 && nd.below == 0
}

// touch sorts the edges of nodes into the buckets of their classes.
func (b *builder) touch(nodes []int32) {
	for _, at := range nodes {
		for e := b.nfa.nodes[at].edges; e != none; e = b.nfa.edges[e].next {
			b.drop(uint8(b.nfa.edges[e].on), b.nfa.edges[e].to)
		}
		for e := b.nfa.nodes[at].sets; e != none; e = b.nfa.edges[e].next {
			for class := range b.classes {
				if b.nfa.sets[b.nfa.edges[e].on].has(uint8(class)) {
					b.drop(uint8(class), b.nfa.edges[e].to)
				}
			}
		}
	}
}

func (b *builder) drop(class uint8, to int32) {
	if len(b.bucket[class]) == 0 {
		b.touched = append(b.touched, class)
	}
	b.bucket[class] = append(b.bucket[class], to)
	b.work++
}

// stay adds to b.out what every byte of a name leads to.
func (b *builder) stay(anyToo bool) {
	b.begin()
	for _, at := range b.loops {
		b.mark[at] = b.generation
	}
	b.out.nodes = append(b.out.nodes, b.loops...)
	for _, at := range b.loops {
		b.enter(b.nfa.nodes[at].any)
	}
	if anyToo {
		for _, at := range b.steps {
			b.enter(b.nfa.nodes[at].any)
		}
	}
}

// fillWide sets the whole row to where a byte leads that no edge names.
func (b *builder) fillWide(s int) {
	b.stay(true)
	id := b.finish()
	row := b.row(s)
	for c := range row {
		row[c] = id
	}
}

// follow is where class leads. Unless wide, the buckets hold the edges of steps
// only, and those of the loops are looked up.
func (b *builder) follow(class uint8, wide bool) uint16 {
	b.stay(wide)
	for _, to := range b.bucket[class] {
		b.enter(to)
	}
	if !wide {
		for _, at := range b.loops {
			nd := &b.nfa.nodes[at]
			if nd.dense != nil {
				b.enter(nd.dense[class])
			}
			for e := nd.sets; e != none; e = b.nfa.edges[e].next {
				if ed := &b.nfa.edges[e]; b.nfa.sets[ed.on].has(class) {
					b.enter(ed.to)
				}
			}
		}
	}
	return b.finish()
}

// slash is where "/" leads: names end, and what matched with Below governs from
// now on.
func (b *builder) slash() uint16 {
	if b.cur.slash {
		return uint16(dead) // an empty component
	}
	b.begin()
	b.out.slash, b.out.root = true, b.cur.root
	for _, at := range b.cur.nodes {
		nd := &b.nfa.nodes[at]
		b.out.hands[nd.layer].take(nd.below)
		if nd.kind == tree && b.mark[at] != b.generation {
			b.mark[at] = b.generation
			b.out.nodes = append(b.out.nodes, at)
		}
		b.enter(nd.slash)
		if nd.tree != none {
			b.enter(nd.tree)
			b.enter(b.nfa.nodes[nd.tree].slash)
		}
	}
	return b.finish()
}

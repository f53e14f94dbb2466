package automaton

// builder is the subset construction: it finds every configuration that some
// path leads to, and numbers them.
//
// The result is not minimised. Shared tails and settled configurations leave it
// within some per cent of the smallest automaton (161 rules of a default policy:
// 1897 states of at least 1806; 500 rules: 41,543 of 41,504), and minimising would
// take longer than all the rest.
type builder struct {
	nfa     *nfa
	layers  int
	classes int
	cfg     Config

	next    []uint16
	accept  []uint32
	done    []bool
	winners []int32
	classOf map[[MaxLayers]int32]uint32

	keys  []uint32 // all keys, one after another
	ends  []int    // state → end of its key
	table []uint32 // open addressing by key: state + 1
	key   []uint32 // scratch

	// Scratch of expand, by use.
	cur, out     config
	mark         []uint32 // node → generation in which it was added
	generation   uint32
	loops, steps []int32
	bucket       [][]int32 // class → nodes entered by it
	touched      []uint8

	work int   // nodes looked at
	over error // the limit that was passed; ends the construction
}

func newBuilder(n *nfa, cfg Config) *builder {
	if cfg.MaxStates == 0 {
		cfg.MaxStates = DefaultMaxStates
	}
	if cfg.MaxTable == 0 {
		cfg.MaxTable = DefaultMaxTable
	}
	states := min(cfg.MaxStates, 2*len(n.nodes)+64)
	b := &builder{
		nfa: n, layers: len(n.roots), classes: n.classes, cfg: cfg,
		classOf: make(map[[MaxLayers]int32]uint32),
		next:    make([]uint16, 0, states*n.classes),
		accept:  make([]uint32, 0, states),
		keys:    make([]uint32, 0, 8*states),
		table:   make([]uint32, 1024),
		mark:    make([]uint32, len(n.nodes)),
		bucket:  make([][]int32, n.classes),
	}
	var nobody [MaxLayers]int32
	for l := range nobody {
		nobody[l] = -1
	}
	b.acceptClass(nobody)
	return b
}

// run expands every state, in the order in which they are found.
func (b *builder) run() error {
	b.intern(&config{}) // dead
	first := config{root: true, nodes: append([]int32(nil), b.nfa.roots...)}
	b.intern(&first)
	b.done[dead] = true
	for s := 1; s < len(b.accept); s++ {
		if !b.done[s] {
			b.expand(s)
		}
		if b.over != nil {
			return b.over
		}
	}
	return nil
}

// intern gives the number of a settled configuration, a new one if need be. Past
// a limit it sets b.over and gives the dead state.
func (b *builder) intern(c *config) uint16 {
	b.key = c.key(b.layers, b.key[:0])
	slot := hashKey(b.key) & uint64(len(b.table)-1)
	for ; b.table[slot] != 0; slot = (slot + 1) & uint64(len(b.table)-1) {
		if s := int(b.table[slot] - 1); equalKeys(b.keyOf(s), b.key) {
			return uint16(s)
		}
	}
	switch table := 2 * (len(b.next) + b.classes); {
	case len(b.accept) >= b.cfg.MaxStates:
		b.over = b.limit("states", b.cfg.MaxStates, len(b.accept)+1)
		return 0
	case table > b.cfg.MaxTable:
		b.over = b.limit("table bytes", b.cfg.MaxTable, table)
		return 0
	case b.work > maxWork:
		b.over = b.limit("steps of work", maxWork, b.work)
		return 0
	}
	s := len(b.accept)
	b.table[slot] = uint32(s) + 1
	b.keys = append(b.keys, b.key...)
	b.ends = append(b.ends, len(b.keys))
	b.next = append(b.next, make([]uint16, b.classes)...)
	b.accept = append(b.accept, b.judge(c))
	b.done = append(b.done, false)
	if 2*len(b.accept) > len(b.table) {
		b.rehash()
	}
	return uint16(s)
}

func (b *builder) keyOf(s int) []uint32 {
	begin := 0
	if s > 0 {
		begin = b.ends[s-1]
	}
	return b.keys[begin:b.ends[s]]
}

func (b *builder) rehash() {
	b.table = make([]uint32, 4*len(b.table))
	for s := range b.accept {
		slot := hashKey(b.keyOf(s)) & uint64(len(b.table)-1)
		for b.table[slot] != 0 {
			slot = (slot + 1) & uint64(len(b.table)-1)
		}
		b.table[slot] = uint32(s) + 1
	}
}

func hashKey(key []uint32) uint64 {
	h := uint64(len(key))
	for _, k := range key {
		h = (h ^ uint64(k)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

func equalKeys(a, b []uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// judge is the accept class of a configuration.
func (b *builder) judge(c *config) uint32 {
	var best [MaxLayers]rank
	switch {
	case c.root && c.slash:
		copy(best[:], b.nfa.rootSelf)
	case !c.slash && !c.root:
		for _, at := range c.nodes {
			nd := &b.nfa.nodes[at]
			best[nd.layer] = max(best[nd.layer], nd.self)
		}
	}
	var won [MaxLayers]int32
	for l := range won {
		won[l] = -1
		if l >= b.layers {
			continue
		}
		leader, h := b.nfa.rankings[l].leader, c.hands[l]
		if c.root || best[l].level() > h.floor {
			won[l] = leader[best[l].group()]
		} else {
			won[l] = leader[h.group]
		}
	}
	return b.acceptClass(won)
}

// acceptClass gives the number of a tuple of winners.
func (b *builder) acceptClass(won [MaxLayers]int32) uint32 {
	id, seen := b.classOf[won]
	if !seen {
		id = uint32(len(b.classOf))
		b.classOf[won] = id
		b.winners = append(b.winners, won[:b.layers]...)
	}
	return id
}

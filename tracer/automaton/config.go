package automaton

// hand is what one layer holds for good, however the path goes on: most often
// something that governs the directory we are below. floor is the level that another outcome must exceed to change it.
type hand struct{ group, floor int32 }

// take puts r into the hand if it is worth more.
func (h *hand) take(r rank) {
	if r.level() > h.floor {
		*h = hand{r.group(), r.level()}
	}
}

// config is a state of the automaton while it is built: the hand of every layer
// and the nodes still alive.
type config struct {
	slash bool // the last byte was "/"
	root  bool // the path so far is "/"
	hands [MaxLayers]hand
	nodes []int32 // sorted once settled
}

// settled leaves no level above it.
const settled = int32(1<<31 - 1)

// settle brings a configuration into its one normal form, and drops what cannot
// change the outcome any more. This is what keeps the automaton small: once a
// rule governs from above, only rules that outrank it are followed further, and
// of those only what can still lead to another group.
func (b *builder) settle(c *config) {
	for _, at := range c.nodes {
		nd := &b.nfa.nodes[at]
		c.hands[nd.layer].take(nd.sure())
	}
	var floors [MaxLayers]int32
	held := false
	for l := range b.layers {
		floors[l] = -1
		if c.hands[l].group != 0 {
			floors[l], held = settled, true
		}
	}
	if held {
		for _, at := range c.nodes {
			nd := &b.nfa.nodes[at]
			l := nd.layer
			if h := c.hands[l]; h.group != 0 {
				floors[l] = min(floors[l], nd.reach.rival(h)-1)
			}
		}
		kept := c.nodes[:0]
		for _, at := range c.nodes {
			nd := &b.nfa.nodes[at]
			if nd.reach.most() > floors[nd.layer] {
				kept = append(kept, at)
			}
		}
		c.nodes = kept
		for l := range b.layers {
			if c.hands[l].group != 0 {
				c.hands[l].floor = floors[l]
			}
		}
	}
	sortNodes(c.nodes)
}

// sure is a rank that is won however the path goes on: a pattern that ends with
// a star has matched, and governs what is below.
func (nd *node) sure() rank {
	if nd.kind != star {
		return 0
	}
	return min(nd.self, nd.below)
}

// sortNodes sorts a short list that is mostly sorted already.
func sortNodes(s []int32) {
	for i := 1; i < len(s); i++ {
		v, j := s[i], i
		for ; j > 0 && s[j-1] > v; j-- {
			s[j] = s[j-1]
		}
		s[j] = v
	}
}

// key encodes a settled configuration.
func (c *config) key(layers int, to []uint32) []uint32 {
	head := uint32(0)
	if c.slash {
		head |= 1
	}
	if c.root {
		head |= 2
	}
	at := len(to)
	to = append(to, 0)
	for l := range layers {
		if h := c.hands[l]; h.group != 0 {
			head |= 4 << l
			to = append(to, uint32(h.group), uint32(h.floor))
		}
	}
	to[at] = head
	for _, n := range c.nodes {
		to = append(to, uint32(n))
	}
	return to
}

// read decodes a key.
func (c *config) read(layers int, key []uint32) {
	head := key[0]
	c.slash, c.root = head&1 != 0, head&2 != 0
	i := 1
	for l := range layers {
		c.hands[l] = hand{}
		if head&(4<<l) != 0 {
			c.hands[l] = hand{int32(key[i]), int32(key[i+1])}
			i += 2
		}
	}
	c.nodes = c.nodes[:0]
	for _, n := range key[i:] {
		c.nodes = append(c.nodes, int32(n))
	}
}

// dead reports whether nothing matches and nothing ever will.
func (c *config) dead(layers int) bool {
	if len(c.nodes) > 0 || c.root {
		return false
	}
	for l := range layers {
		if c.hands[l].group != 0 {
			return false
		}
	}
	return true
}

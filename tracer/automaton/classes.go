package automaton

// classify splits the bytes into classes that no pattern tells apart.
func (n *nfa) classify(specs []spec) {
	split := func(in *byteSet) {
		var moved [256]uint8 // class → class of its part inside the set; 0 is none yet
		var inside, total [256]int
		for b := range 256 {
			total[n.class[b]]++
			if in.has(byte(b)) {
				inside[n.class[b]]++
			}
		}
		for b := range 256 {
			c := n.class[b]
			if !in.has(byte(b)) || inside[c] == total[c] {
				continue
			}
			if moved[c] == 0 {
				moved[c] = uint8(n.classes)
				n.classes++
			}
			n.class[b] = moved[c]
		}
	}
	n.classes = 1
	single := byteSet{}
	single.add('/')
	for i := range specs {
		for _, alt := range specs[i].alts {
			for _, tok := range alt {
				if tok.kind == tokByte {
					single.add(tok.b)
				}
			}
		}
	}
	for b := range 256 {
		if single.has(byte(b)) {
			n.class[b] = uint8(n.classes)
			n.classes++
		}
	}
	seen := make(map[byteSet]bool)
	for i := range specs {
		for _, s := range specs[i].sets {
			if !seen[s] {
				seen[s] = true
				split(&s)
			}
		}
	}
	n.slash = n.class['/']
}

// overClasses turns a set of bytes into a set of their classes.
func (n *nfa) overClasses(s byteSet) byteSet {
	var out byteSet
	for b := range 256 {
		if s.has(byte(b)) {
			out.add(n.class[b])
		}
	}
	return out
}

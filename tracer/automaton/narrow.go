package automaton

// Bounds of NarrowsTo. A walk that would be longer proves nothing: false.
const (
	maxPairs      = 1 << 18 // pairs of states of one walk, some tens of milliseconds
	maxRemembered = 256     // walks remembered
)

// NarrowsTo reports whether ok holds for the accept classes of from+suffix and
// to+suffix, whatever the suffix: none, or "/" and names that can exist. It
// answers whether a tree may be renamed or linked from one place to the other
// without any of its files being judged more generously than before. from and to
// are absolute and cleaned.
//
// The pairs of classes are remembered by where from and to lead, so asking again
// is cheap, whatever ok is. A walk over more than maxPairs pairs of states is
// given up as false.
func (a *Automaton) NarrowsTo(from, to string, ok func(fromAccept, toAccept uint32) bool) bool {
	if !ok(a.Accept(a.Run(start, from)), a.Accept(a.Run(start, to))) {
		return false
	}
	below := a.pairsBelow(a.directory(from), a.directory(to))
	if !below.complete {
		return false
	}
	for _, p := range below.pairs {
		if !ok(p[0], p[1]) {
			return false
		}
	}
	return true
}

// outcomePairs are the pairs of accept classes that a walk found, unless it was
// given up.
type outcomePairs struct {
	pairs    [][2]uint32
	complete bool
}

// pairsBelow are the pairs of accept classes that one suffix can lead to from x
// and y.
func (a *Automaton) pairsBelow(x, y State) outcomePairs {
	key := [2]State{x, y}
	a.mu.Lock()
	known, ok := a.pairs[key]
	a.mu.Unlock()
	if ok {
		return known
	}
	w := walk{a: a, edges: a.sparseRows(), seen: make(map[[2]State]uint8), found: make(map[[2]uint32]bool)}
	known.complete = w.run(x, y)
	known.pairs = w.pairs
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pairs == nil || len(a.pairs) >= maxRemembered {
		a.pairs = make(map[[2]State]outcomePairs)
	}
	a.pairs[key] = known
	return known
}

// walk is the product of the automaton with itself.
type walk struct {
	a     *Automaton
	edges *edgeList
	seen  map[[2]State]uint8 // bit set of phases
	found map[[2]uint32]bool
	pairs [][2]uint32
	todo  []pairVisit
}

type pairVisit struct {
	x, y  State
	phase phase
}

// run walks everything below x and y.
func (w *walk) run(x, y State) (complete bool) {
	w.todo = append(w.todo, pairVisit{x, y, atEnd})
	for len(w.todo) > 0 {
		v := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.expand(v)
		if len(w.seen) > maxPairs {
			return false
		}
	}
	return true
}

// reach notes a pair of states and, at the end of a name, its accept classes.
func (w *walk) reach(x, y State, p phase) {
	key := [2]State{x, y}
	bits := w.seen[key]
	if bits&(1<<p|1<<inName) != 0 {
		return
	}
	w.seen[key] = bits | 1<<p
	w.todo = append(w.todo, pairVisit{x, y, p})
	if p != inName {
		return
	}
	if pair := [2]uint32{w.a.accept[x], w.a.accept[y]}; !w.found[pair] {
		w.found[pair] = true
		w.pairs = append(w.pairs, pair)
	}
}

// expand follows all that can come next: "/", the classes that are unusual for
// either state, and one byte for all others.
func (w *walk) expand(v pairVisit) {
	x, y := &w.edges.rows[v.x], &w.edges.rows[v.y]
	if v.phase.whole() {
		w.reach(x.slash, y.slash, atSlash)
	}
	if v.phase == atEnd {
		return
	}
	i, j, usual, usualDot := 0, 0, false, false
	for c := range w.a.classes {
		b := w.edges.name[c]
		if b == 0 || uint8(c) == w.edges.slash {
			continue
		}
		tx, ty := x.usual, y.usual
		special := false
		if i < len(x.unusual) && x.unusual[i].class == uint8(c) {
			tx, special = x.unusual[i].to, true
			i++
		}
		if j < len(y.unusual) && y.unusual[j].class == uint8(c) {
			ty, special = y.unusual[j].to, true
			j++
		}
		switch {
		case special:
			w.reach(tx, ty, v.phase.name(b))
		case b == '.':
			usualDot = true
		default:
			usual = true
		}
	}
	if usual {
		w.reach(x.usual, y.usual, inName)
	} else if usualDot {
		w.reach(x.usual, y.usual, v.phase.name('.'))
	}
}

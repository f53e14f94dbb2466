package automaton

// visit is one step of Hole's search: a state and how it was reached.
type visit struct {
	from  int32 // index of the visit before it
	state State
	phase phase
	b     byte
}

// Hole looks for a path strictly below dir whose accept class satisfies pred,
// and returns a shortest one. Only paths that can exist count: no component is
// empty, "." or "..". The lengths of names and paths are not bounded, so it errs
// towards holes: none found means that there is none. dir is absolute and
// cleaned. pred may be called more than once for a class.
func (a *Automaton) Hole(dir string, pred func(accept uint32) bool) (example string, found bool) {
	names := a.spelling()
	var arena []hop
	verdict := make([]int8, a.NumAccepts()) // 0 is not asked yet
	satisfied := func(s State) bool {
		v := &verdict[a.accept[s]]
		if *v == 0 {
			if *v = -1; pred(a.accept[s]) {
				*v = 1
			}
		}
		return *v > 0
	}
	seen := make([]uint8, len(a.accept)) // bit set of phases
	queue := []visit{{from: -1, state: a.directory(dir), phase: atEnd}}
	for i := 0; i < len(queue); i++ {
		v := queue[i]
		reach := func(to State, p phase, b byte) bool {
			// What a name can become, a dot can too, but not the reverse.
			if seen[to]&(1<<p|1<<inName) != 0 {
				return false
			}
			seen[to] |= 1 << p
			queue = append(queue, visit{int32(i), to, p, b})
			return p == inName && satisfied(to)
		}
		// Few states are below a directory: their rows are made as they come.
		var row sparse
		row, arena = a.sparseRow(names, v.state, arena[:0])
		if names.eachHop(&row, v.phase, reach) {
			if dir == "/" {
				dir = ""
			}
			return dir + spell(queue), true
		}
	}
	return "", false
}

// eachHop calls reach for all that can follow, until it returns true.
func (e *alphabet) eachHop(row *sparse, p phase, reach func(State, phase, byte) bool) bool {
	if p.whole() && reach(row.slash, atSlash, '/') {
		return true
	}
	if p == atEnd {
		return false
	}
	for _, h := range row.unusual {
		if b := e.name[h.class]; reach(h.to, p.name(b), b) {
			return true
		}
	}
	return row.via != 0 && reach(row.usual, p.name(row.via), row.via)
}

// spell reads the path to the last visit off the queue.
func spell(queue []visit) string {
	n := 0
	for i := len(queue) - 1; queue[i].from >= 0; i = int(queue[i].from) {
		n++
	}
	path := make([]byte, n)
	for i := len(queue) - 1; queue[i].from >= 0; i = int(queue[i].from) {
		n--
		path[n] = queue[i].b
	}
	return string(path)
}

package automaton

// sparse is one row of the table, told by what is not ordinary in it.
type sparse struct {
	usual   State // where most bytes of a name lead
	via     byte  // a byte that leads there: "." only if no other does, 0 if none
	slash   State
	unusual []hop // classes that lead elsewhere, "/" not among them
}

type hop struct {
	class uint8
	to    State
}

// alphabet are bytes that stand for the classes.
type alphabet struct {
	slash uint8
	// name is a byte of the class that a name can hold, 0 when there is none; it
	// is "." only if the class has nothing else.
	name [256]byte
}

// edgeList is the table as sparse rows, with bytes that stand for each class.
type edgeList struct {
	*alphabet
	rows []sparse
}

// spelling makes the alphabet when first asked for.
func (a *Automaton) spelling() *alphabet {
	a.alphabetOnce.Do(func() {
		a.alphabet.slash = a.class['/']
		a.alphabet.pickNames(&a.class)
	})
	return &a.alphabet
}

// sparseRows makes the sparse rows of all states when first asked for. That is
// worth it for walks that see most of them, and see them often.
func (a *Automaton) sparseRows() *edgeList {
	a.edgesOnce.Do(func() {
		e := &a.edges
		e.alphabet = a.spelling()
		e.rows = make([]sparse, len(a.accept))
		arena := make([]hop, 0, 8*len(a.accept))
		for s := range e.rows {
			e.rows[s], arena = a.sparseRow(e.alphabet, State(s), arena)
		}
	})
	return &a.edges
}

// sparseRow is one row. Its hops are appended to arena, which is returned.
func (a *Automaton) sparseRow(e *alphabet, s State, arena []hop) (sparse, []hop) {
	row := a.next[int(s)*a.classes : (int(s)+1)*a.classes]
	usual := usualOf(row, e)
	from := len(arena)
	for c, to := range row {
		if to != usual && uint8(c) != e.slash && e.name[c] != 0 {
			arena = append(arena, hop{uint8(c), State(to)})
		}
	}
	return sparse{
		usual: State(usual), via: e.via(row, usual), slash: State(row[e.slash]),
		unusual: arena[from:len(arena):len(arena)],
	}, arena
}

// pickNames chooses the bytes that stand for the classes in examples: letters
// and digits where there are any.
func (e *alphabet) pickNames(class *[256]uint8) {
	score := func(b byte) int {
		switch {
		case b == 0 || b == '/':
			return 0
		case b == '.':
			return 1
		case b >= 'a' && b <= 'z':
			return 6
		case b >= 'A' && b <= 'Z' || b >= '0' && b <= '9':
			return 5
		case b > ' ' && b < 0x7f:
			return 4
		case b >= 0x80:
			return 2
		default:
			return 3
		}
	}
	for b := 255; b > 0; b-- {
		c := class[b]
		if score(byte(b)) > score(e.name[c]) || e.name[c] == 0 && score(byte(b)) > 0 {
			e.name[c] = byte(b)
		}
	}
}

// via is a byte of a name that leads to a target: "." only if no other does.
func (e *alphabet) via(row []uint16, target uint16) byte {
	var found byte
	for c, to := range row {
		if to != target || uint8(c) == e.slash || e.name[c] == 0 {
			continue
		}
		if found = e.name[c]; found != '.' {
			return found
		}
	}
	return found
}

// usualOf is the target that most classes of a row share, by the majority vote
// of Boyer and Moore: any target is correct, a common one makes the list short.
func usualOf(row []uint16, e *alphabet) uint16 {
	var best uint16
	votes := 0
	for c, to := range row {
		switch {
		case uint8(c) == e.slash || e.name[c] == 0:
		case votes == 0:
			best, votes = to, 1
		case to == best:
			votes++
		default:
			votes--
		}
	}
	return best
}

// phase is how far a path is within its last component, so that walks make only
// paths that can exist: no empty component, none that is "." or "..".
type phase uint8

const (
	atEnd   phase = iota // at the end of the directory the walk began at
	atSlash              // after "/"
	oneDot               // the component is "." so far
	twoDots              // it is ".." so far
	inName               // it is a name
	phases
)

// name is the phase after byte b of a name.
func (p phase) name(b byte) phase {
	switch {
	case b == '.' && p == atSlash:
		return oneDot
	case b == '.' && p == oneDot:
		return twoDots
	}
	return inName
}

// whole reports whether the path may end here, or go on with "/".
func (p phase) whole() bool { return p == inName || p == atEnd }

// directory is the state from which "/name" leads below dir. The root's own
// slash belongs to the names below it.
func (a *Automaton) directory(dir string) State {
	if dir == "/" {
		return start
	}
	return a.Run(start, dir)
}

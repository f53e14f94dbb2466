package automaton

import "strings"

// matcher tries single patterns, all beginnings of the path at once. The zero
// matcher is ready; using one for many patterns saves allocations.
type matcher struct {
	cur, next []int32 // places in the pattern, see place
	seen      []int32 // place → step in which it was entered
}

// A place is before token i (2i), or inside the names that a "**" at i stands
// for (2i+1).

// match reports whether the pattern matches path itself, and whether it matches
// a directory above it. path is absolute and cleaned.
func (m *matcher) match(s *spec, path string) (self, below bool) {
	rest, ok := strings.CutPrefix(path, s.prefix)
	switch {
	case !ok:
		return false, false
	case s.literal:
		return rest == "", rest != "" && (rest[0] == '/' || s.prefix == "/")
	}
	for _, alt := range s.alts {
		x, y := m.matchOne(s, alt, path)
		self, below = self || x, below || y
	}
	return self, below
}

func (m *matcher) matchOne(s *spec, alt []token, path string) (self, below bool) {
	if path == "/" {
		return false, false // only the literal "/" is the root
	}
	if n := 2*len(alt) + 1; len(m.seen) < n {
		m.seen = make([]int32, n)
	}
	clear(m.seen)
	end := int32(2 * len(alt))
	m.next = m.next[:0]
	m.enter(alt, 0, 1)
	for i := 0; i < len(path) && len(m.next) > 0; i++ {
		below = below || path[i] == '/' && m.seen[end] == int32(i+1)
		m.step(s, alt, path[i], int32(i+2))
	}
	return m.seen[end] == int32(len(path)+1), below
}

// step consumes one byte of the path.
func (m *matcher) step(s *spec, alt []token, b byte, stamp int32) {
	m.cur, m.next = m.next, m.cur[:0]
	for _, p := range m.cur {
		i := p / 2
		if int(i) == len(alt) {
			continue
		}
		switch tok := alt[i]; {
		case p%2 == 1:
			m.enter(alt, p, stamp)
		case tok.kind == tokStars && b == '/':
			m.enter(alt, p+1, stamp)
		case tok.kind == tokStar && b != '/':
			m.enter(alt, p, stamp)
		case tok.kind <= tokSet && s.accepts(tok, b):
			m.enter(alt, p+2, stamp)
		}
	}
}

// enter adds a place and those that follow from it without a byte.
func (m *matcher) enter(alt []token, p, stamp int32) {
	if m.seen[p] == stamp {
		return
	}
	m.seen[p] = stamp
	m.next = append(m.next, p)
	i := int(p / 2)
	switch {
	case p%2 == 1:
		m.enter(alt, p+1, stamp)
	case i == len(alt):
	case alt[i].kind == tokStar, alt[i].kind == tokStars && i < len(alt)-1:
		m.enter(alt, p+2, stamp)
	}
}

// accepts reports whether a token of one byte matches b.
func (s *spec) accepts(tok token, b byte) bool {
	switch tok.kind {
	case tokByte:
		return tok.b == b
	case tokAny:
		return b != '/'
	default:
		return s.sets[tok.set].has(b)
	}
}

package automaton

import "strings"

// Exception is a path that Differ leaves out; with Below also all below it.
type Exception struct {
	Path  string
	Below bool
}

// Differ looks for a path, absolute and without empty components, on which two
// automata do not say the same, and gives an example. same compares an accept
// class of a with one of b. It looks at all paths there are: none found is a
// proof. A nil automaton matches nothing. The cost is that of visiting the pairs
// of states that paths lead to.
func Differ(a, b *Automaton, except []Exception, same func(x, y uint32) bool) (example string, found bool) {
	d := differ{a: a, b: b, same: same, seen: map[pairState]bool{}, known: map[[2]uint32]bool{}}
	d.exceptions(except)
	d.classes()
	first := pairState{x: run(a, start, "/"), y: run(b, start, "/"), slash: true, at: d.prefixes["/"]}
	if !d.agree(first) {
		return "/", true
	}
	d.push(first, -1, '/')
	return d.search()
}

// Apart is Differ for two names of one place: it looks for what stands there, the place
// itself or something below it, of which the automaton does not say the same by both
// names. rest is what follows the names: "", or a path that begins with a slash.
func (a *Automaton) Apart(one, other string, same func(x, y uint32) bool) (rest string, found bool) {
	if !same(a.Accept(a.Run(start, one)), a.Accept(a.Run(start, other))) {
		return "", true
	}
	d := differ{a: a, b: a, same: same, seen: map[pairState]bool{}, known: map[[2]uint32]bool{}}
	d.classes()
	dir := func(name string) State { return a.Run(start, strings.TrimSuffix(name, "/")+"/") }
	d.push(pairState{x: dir(one), y: dir(other), slash: true}, -1, '/')
	return d.search()
}

// search looks beyond what was pushed, until the last is where the automata differ.
func (d *differ) search() (example string, found bool) {
	for i := 0; i < len(d.queue); i++ {
		if d.visit(i) {
			return d.path(len(d.queue) - 1), true
		}
	}
	return "", false
}

// pairState is what matters of a path: where it leads in both automata, whether
// it ends in a slash, and which beginning of an exception it is (0: of none).
type pairState struct {
	x, y  State
	slash bool
	at    int32
}

type differ struct {
	a, b  *Automaton
	same  func(x, y uint32) bool
	known map[[2]uint32]bool

	prefixes map[string]int32 // beginnings of exceptions, from 1
	texts    []string         // prefixes by number
	skip     map[int32]bool   // those that are whole
	closed   map[int32]bool   // those below which nothing is looked at
	bytes    []byte           // one for each pair of byte classes, and the slash
	seen     map[pairState]bool
	queue    []reached
}

// reached is a pairState with the way to it.
type reached struct {
	pairState
	from int32
	by   byte
}

func (d *differ) exceptions(list []Exception) {
	d.prefixes, d.texts = map[string]int32{}, []string{""}
	d.skip, d.closed = map[int32]bool{}, map[int32]bool{}
	for _, e := range list {
		for n := 1; n <= len(e.Path); n++ {
			if _, ok := d.prefixes[e.Path[:n]]; !ok {
				d.prefixes[e.Path[:n]] = int32(len(d.texts))
				d.texts = append(d.texts, e.Path[:n])
			}
		}
		whole := d.prefixes[e.Path]
		d.skip[whole], d.closed[whole] = true, d.closed[whole] || e.Below
	}
}

func (d *differ) classes() {
	seen := map[[2]uint8]bool{}
	d.bytes = []byte{'/'}
	for c := 1; c < 256; c++ {
		var key [2]uint8
		if d.a != nil {
			key[0] = d.a.class[c]
		}
		if d.b != nil {
			key[1] = d.b.class[c]
		}
		if c != '/' && !seen[key] {
			seen[key] = true
			d.bytes = append(d.bytes, byte(c))
		}
	}
}

func run(a *Automaton, s State, path string) State {
	if a == nil {
		return dead
	}
	return a.Run(s, path)
}

// visit follows all bytes from what was reached; true says that the last one pushed is a
// path on which the automata differ.
func (d *differ) visit(i int) bool {
	s := d.queue[i]
	if s.at == 0 {
		for _, c := range d.bytes {
			if d.follow(i, s, c) {
				return true
			}
		}
		return false
	}
	for c := 1; c < 256; c++ {
		if d.follow(i, s, byte(c)) {
			return true
		}
	}
	return false
}

func (d *differ) follow(i int, s reached, c byte) bool {
	slash := c == '/'
	if slash && (s.slash || d.closed[s.at]) {
		return false
	}
	next := pairState{x: d.a.follow(s.x, c), y: d.b.follow(s.y, c), slash: slash}
	if s.at != 0 {
		next.at = d.prefixes[d.texts[s.at]+string([]byte{c})]
	}
	if d.seen[next] {
		return false
	}
	d.push(next, int32(i), c)
	return !slash && !d.agree(next)
}

func (a *Automaton) follow(s State, c byte) State {
	if a == nil {
		return dead
	}
	return State(a.next[int(s)*a.classes+int(a.class[c])])
}

func (d *differ) push(s pairState, from int32, by byte) {
	d.seen[s] = true
	d.queue = append(d.queue, reached{s, from, by})
}

// agree compares what both say of a path.
func (d *differ) agree(s pairState) bool {
	if d.skip[s.at] {
		return true
	}
	var key [2]uint32
	if d.a != nil {
		key[0] = d.a.Accept(s.x)
	}
	if d.b != nil {
		key[1] = d.b.Accept(s.y)
	}
	ok, asked := d.known[key]
	if !asked {
		ok = d.same(key[0], key[1])
		d.known[key] = ok
	}
	return ok
}

// path is the path that led there.
func (d *differ) path(i int) string {
	var back []byte
	for ; i >= 0; i = int(d.queue[i].from) {
		back = append(back, d.queue[i].by)
	}
	for l, r := 0, len(back)-1; l < r; l, r = l+1, r-1 {
		back[l], back[r] = back[r], back[l]
	}
	return string(back)
}

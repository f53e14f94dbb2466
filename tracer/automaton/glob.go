package automaton

import (
	"fmt"
	"strings"
)

// Bounds on one pattern.
const (
	maxGlob      = 4096 // PATH_MAX: a longer pattern's literal part could match nothing
	maxExpansion = 256  // patterns that the alternations of one glob may stand for
)

// GlobError says what is wrong with a pattern, and where.
type GlobError struct {
	Rule   int // index of the rule
	Offset int // byte of the glob
	Msg    string
}

// Error names the rule, the byte and the fault.
func (e *GlobError) Error() string {
	return fmt.Sprintf("rule %d: glob byte %d: %s", e.Rule, e.Offset, e.Msg)
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) del(b byte)      { s[b>>6] &^= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

type tokenKind uint8

const (
	tokByte  tokenKind = iota // one literal byte, "/" included
	tokAny                    // one byte but "/"
	tokSet                    // one byte of a set
	tokStar                   // a run of bytes but "/"
	tokStars                  // a whole component "**" with the "/" before it
)

// token is one step of a pattern without alternations.
type token struct {
	kind tokenKind
	b    byte
	set  int32 // index into spec.sets
}

// spec is one parsed pattern.
type spec struct {
	alts    [][]token // the patterns it stands for once alternations are expanded
	sets    []byteSet
	literal bool   // without wildcards
	prefix  string // the bytes before the first wildcard
	bytes   int    // literal bytes in all
}

// parser reads one glob. Its methods stop at the first fault.
type parser struct {
	rule int
	glob string
	pos  int
	spec spec
	wild bool   // a wildcard has been seen
	head []byte // literal bytes before it
	err  *GlobError
}

// parseGlob reads the glob of the given rule.
func parseGlob(rule int, glob string) (spec, error) {
	p := &parser{rule: rule, glob: glob}
	p.spec.alts = [][]token{make([]token, 0, len(glob))}
	p.parse()
	if p.err != nil {
		return spec{}, p.err
	}
	p.spec.literal = !p.wild
	p.spec.prefix = string(p.head)
	return p.spec, nil
}

func (p *parser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = &GlobError{Rule: p.rule, Offset: at, Msg: fmt.Sprintf(format, args...)}
	}
}

func (p *parser) parse() {
	switch {
	case p.glob == "" || p.glob[0] != '/':
		p.fail(0, "not absolute: it must begin with /")
	case len(p.glob) > maxGlob:
		p.fail(maxGlob, "longer than %d bytes", maxGlob)
	case strings.IndexByte(p.glob, 0) >= 0:
		p.fail(strings.IndexByte(p.glob, 0), "NUL cannot be part of a path")
	}
	if p.glob == "/" {
		p.literals('/')
		return
	}
	for p.err == nil && p.pos < len(p.glob) {
		p.component()
	}
	if p.err == nil {
		p.dropEmpty()
	}
}

// component reads "/" and the component after it.
func (p *parser) component() {
	end := len(p.glob)
	if i := strings.IndexByte(p.glob[p.pos+1:], '/'); i >= 0 {
		end = p.pos + 1 + i
	}
	switch text := p.glob[p.pos+1 : end]; text {
	case "":
		p.fail(p.pos, "empty component: write the path without // and without / at its end")
	case ".", "..":
		p.fail(p.pos+1, "component %q: paths are resolved, it would never match", text)
	case "**":
		p.stars()
		p.pos = end
	default:
		p.literals('/')
		p.pos++
		p.name(end)
	}
}

// stars adds a "**" component. Two in a row are one.
func (p *parser) stars() {
	p.count('/')
	p.wild = true
	for i, alt := range p.spec.alts {
		if n := len(alt); n == 0 || alt[n-1].kind != tokStars {
			p.spec.alts[i] = append(alt, token{kind: tokStars})
		}
	}
}

// name reads the component that ends at end.
func (p *parser) name(end int) {
	for p.err == nil && p.pos < end {
		if p.glob[p.pos] == '{' {
			p.alternation(end)
			continue
		}
		tok, lit := p.atom(end, false)
		if lit {
			p.literals(tok.b)
		} else {
			p.wild = true
			p.push(tok)
		}
	}
}

// atom reads one byte, set or wildcard and says whether it is a literal byte.
func (p *parser) atom(end int, inAlt bool) (tok token, literal bool) {
	at := p.pos
	p.pos++
	switch c := p.glob[at]; c {
	case '*':
		return token{kind: tokStar}, false
	case '?':
		return token{kind: tokAny}, false
	case '[':
		return token{kind: tokSet, set: p.set(end)}, false
	case '\\':
		if p.pos >= end {
			p.fail(at, "nothing after \\ that it could escape (a / cannot be escaped)")
			return token{}, false
		}
		p.pos++
		return token{kind: tokByte, b: p.glob[p.pos-1]}, true
	case '{':
		p.fail(at, "{ inside { }: alternations do not nest")
	case '}':
		if !inAlt {
			p.fail(at, "} without {: write \\} for the byte itself")
		}
	default:
		return token{kind: tokByte, b: c}, true
	}
	return token{}, false
}

// set reads the rest of a set, its "[" being read.
func (p *parser) set(end int) int32 {
	open := p.pos - 1
	negate := p.pos < end && (p.glob[p.pos] == '!' || p.glob[p.pos] == '^')
	if negate {
		p.pos++
	}
	var s byteSet
	for n := 0; p.pos < end && p.glob[p.pos] != ']'; n++ {
		at := p.pos
		lo, hi := p.setByte(end), byte(0)
		if hi = lo; p.pos+1 < end && p.glob[p.pos] == '-' && p.glob[p.pos+1] != ']' {
			p.pos++
			hi = p.setByte(end)
		}
		if hi < lo {
			p.fail(at, "range %q-%q runs backwards", lo, hi)
		}
		for c := int(lo); c <= int(hi); c++ {
			s.add(byte(c))
		}
	}
	if p.pos >= end {
		p.fail(open, "[ without ] in the same component: write \\[ for the byte itself")
		return 0
	}
	p.pos++
	if s == (byteSet{}) {
		p.fail(open, "empty set")
	}
	if negate {
		for i := range s {
			s[i] = ^s[i]
		}
	}
	s.del('/')
	if named := (byteSet{s[0] &^ 1, s[1], s[2], s[3]}); p.err == nil && named == (byteSet{}) {
		p.fail(open, "set holds no byte that a name can have")
	}
	p.spec.sets = append(p.spec.sets, s)
	return int32(len(p.spec.sets) - 1)
}

// setByte reads one byte of a set, which may be escaped.
func (p *parser) setByte(end int) byte {
	if p.glob[p.pos] == '\\' && p.pos+1 < end {
		p.pos++
	}
	p.pos++
	return p.glob[p.pos-1]
}

// alternation reads "{…}" and multiplies the patterns so far by it.
func (p *parser) alternation(end int) {
	open := p.pos
	p.pos++
	p.wild = true
	var alts [][]token
	var cur []token
	shortest, lits := maxGlob, 0
	for done := false; !done && p.err == nil; {
		if p.pos >= end {
			p.fail(open, "{ without } in the same component: write \\{ for the byte itself")
			return
		}
		switch c := p.glob[p.pos]; c {
		case ',', '}':
			p.pos++
			alts, cur = append(alts, cur), nil
			shortest, lits = min(shortest, lits), 0
			done = c == '}'
		default:
			tok, lit := p.atom(end, true)
			cur = append(cur, tok)
			if lit {
				lits++
			}
		}
	}
	if p.err == nil && len(alts) == 1 && len(alts[0]) == 0 {
		p.fail(open, "{} holds no alternative")
	}
	if len(alts)*len(p.spec.alts) > maxExpansion {
		p.fail(open, "alternations stand for more than %d patterns: split the rule", maxExpansion)
	}
	if p.err != nil {
		return
	}
	p.spec.bytes += shortest
	p.multiply(alts)
}

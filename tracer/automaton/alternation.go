package automaton

// multiply continues every pattern so far with every alternative.
func (p *parser) multiply(alts [][]token) {
	before := p.spec.alts
	p.spec.alts = make([][]token, 0, len(before)*len(alts))
	for _, head := range before {
		for _, tail := range alts {
			alt := make([]token, 0, len(head)+len(tail)+len(p.glob)-p.pos)
			alt = append(alt, head...)
			for _, tok := range tail {
				alt = appendToken(alt, tok)
			}
			p.spec.alts = append(p.spec.alts, alt)
		}
	}
}

// count notes one literal byte.
func (p *parser) count(b byte) {
	p.spec.bytes++
	if !p.wild {
		p.head = append(p.head, b)
	}
}

// literals adds one literal byte to all patterns.
func (p *parser) literals(b byte) {
	p.count(b)
	p.push(token{kind: tokByte, b: b})
}

// push adds one token to all patterns.
func (p *parser) push(tok token) {
	for i, alt := range p.spec.alts {
		p.spec.alts[i] = appendToken(alt, tok)
	}
}

// appendToken adds a token to a pattern; a run of stars is one star.
func appendToken(alt []token, tok token) []token {
	if n := len(alt); tok.kind == tokStar && n > 0 && alt[n-1].kind == tokStar {
		return alt
	}
	return append(alt, tok)
}

// dropEmpty removes expansions with an empty component, which no path has.
func (p *parser) dropEmpty() {
	kept := p.spec.alts[:0]
	for _, alt := range p.spec.alts {
		if !emptyComponent(alt) {
			kept = append(kept, alt)
		}
	}
	p.spec.alts = kept
	if len(kept) == 0 {
		p.fail(len(p.glob)-1, "it can match no path: a component is always empty")
	}
}

// emptyComponent reports whether a "/" is followed by no name.
func emptyComponent(alt []token) bool {
	for i, tok := range alt {
		if tok.kind != tokByte || tok.b != '/' {
			continue
		}
		if i+1 == len(alt) || alt[i+1].kind == tokStars || alt[i+1].kind == tokByte && alt[i+1].b == '/' {
			return true
		}
	}
	return false
}

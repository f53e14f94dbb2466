package policy

// addAlways adds the profiles' tables of what holds whatever more specific
// patterns say. Rules of one word share a layer, and the strictest layer counts:
// so no rule of such a table takes anything from another.
func (p *Policy) addAlways(pl *placer) {
	for _, w := range []word{wordDeny, wordHide, wordAsk, wordRead, wordAskWrite} {
		var rules []rule
		for i := range p.stack {
			s := &p.stack[i]
			for _, pr := range s.always {
				if pr.word != w {
					continue
				}
				for _, r := range pl.place(pr) {
					r.by = "always of profile " + origin(s.name, s.origin)
					rules = append(rules, r)
				}
			}
		}
		if len(rules) > 0 {
			p.always.add(layer{name: "always " + w.String(), origin: Session, profile: true}, rules)
		}
	}
}

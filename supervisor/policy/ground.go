package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// wholeGround are the directories and files that access is allowed to; whole is
// false when the policy cannot be told as such a list: when something inside is
// not allowed, or a pattern or a single listable directory is.
func (p *Policy) wholeGround(access event.Access) (dirs []string, whole bool) {
	for i := range p.files.rules {
		r := &p.files.rules[i]
		if r.word.verdict().of(access) != event.ActionAllow {
			continue
		}
		literals, ok := expandBraces(r.glob)
		if !ok || !r.below {
			return nil, false
		}
		for _, dir := range literals {
			t := target{path: dir}
			if p.verdictOf(&t).of(access) > event.ActionAllow {
				continue
			}
			if p.hole(dir, access) || aboveTerminals(dir) {
				return nil, false
			}
			dirs = append(dirs, dir)
		}
	}
	return topmost(dirs), true
}

// hole reports whether something below dir does not allow access.
func (p *Policy) hole(dir string, access event.Access) bool {
	for _, s := range p.planes {
		if s.auto == nil || s.need&access == 0 {
			continue
		}
		if _, found := s.auto.Hole(s.temp.alias(dir), func(a uint32) bool { return s.verdicts[a].of(access) > event.ActionAllow }); found {
			return true
		}
	}
	return false
}

// ExecGround is where programs may run: directories and files in whole, and the
// paths inside them that may not run. A floor grants what is in ground and not a
// hole, by granting a hole's siblings instead of the directory above it. Where a
// session can write, ground is granted in whole: what it makes there later could
// not be granted.
func (p *Policy) ExecGround() (ground, holes []string) {
	ground, holes = p.execGround()
	return slices.Clone(ground), slices.Clone(holes)
}

func (p *Policy) findExecGround() (ground, holes []string) {
	for i := range p.files.rules {
		r := &p.files.rules[i]
		if r.word.verdict().exec != event.ActionAllow || unlikelyProgram(r.glob) {
			continue
		}
		literals, ok := expandBraces(r.glob)
		if !ok {
			literals = one(literalPrefix(r.glob))
		}
		for _, dir := range literals {
			t := target{path: dir}
			if !ok || !p.execClosed(&t) {
				ground = append(ground, dir)
			}
		}
	}
	ground = topmost(ground)
	for _, set := range p.execPlanes() {
		holes = append(holes, p.execHoles(set, ground)...)
	}
	return ground, topmost(holes)
}

// unlikelyProgram reports whether a pattern is about the kernel's own file
// systems, where nothing that is run stands.
func unlikelyProgram(glob string) bool {
	return isBelow(glob, "/proc") || isBelow(glob, "/sys") || strings.HasPrefix(glob, "/dev/") && !isBelow(glob, "/dev/shm")
}

// execPlanes are the sets of rules that keep programs from running. Secret files
// and reeve's own are left out: they are no programs, and no directory could be
// granted around them.
func (p *Policy) execPlanes() []*ruleSet { return []*ruleSet{&p.files, &p.program, &p.always} }

// execClosed reports whether a program may not run.
func (p *Policy) execClosed(t *target) bool {
	return slices.ContainsFunc(p.execPlanes(), func(s *ruleSet) bool { return s.execClosed(s.accept(t)) })
}

func (s *ruleSet) execClosed(accept uint32) bool { return s.verdicts[accept].exec > event.ActionAllow }

// execHoles are the literal paths in ground that a set of rules keeps from
// running, where the session cannot write.
func (p *Policy) execHoles(set *ruleSet, ground []string) []string {
	var out []string
	for i := range set.rules {
		r := &set.rules[i]
		literals, ok := expandBraces(r.glob)
		if r.verdict().exec <= event.ActionAllow || !ok {
			continue
		}
		for _, path := range literals {
			t := target{path: path}
			inside := func(g string) bool { return isBelow(path, g) && !p.writable(g) }
			if p.execClosed(&t) && slices.ContainsFunc(ground, inside) {
				out = append(out, path)
			}
		}
	}
	return out
}

func (p *Policy) writable(dir string) bool {
	t := target{path: dir}
	return p.verdictOf(&t).write <= event.ActionAllow
}

// topmost sorts paths and drops those below another.
func topmost(paths []string) []string {
	slices.SortFunc(paths, compareTrees)
	var out []string
	for _, p := range paths {
		if len(out) == 0 || !isBelow(p, out[len(out)-1]) {
			out = append(out, p)
		}
	}
	return out
}

// compareTrees orders paths so that what is below one follows it at once: "/"
// counts as less than every other byte.
func compareTrees(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// expandBraces gives the paths that a pattern stands for when {a,b} is all that
// is not literal in it.
func expandBraces(glob string) (paths []string, ok bool) {
	open := indexUnescaped(glob, "{")
	if open < 0 {
		if indexUnescaped(glob, "*?[") >= 0 {
			return nil, false
		}
		return []string{unquote(glob)}, true
	}
	end := indexUnescaped(glob[open:], "}")
	if end < 0 {
		return nil, false
	}
	end += open
	for _, alt := range splitUnescaped(glob[open+1:end], ',') {
		more, ok := expandBraces(glob[:open] + alt + glob[end+1:])
		if !ok || len(paths)+len(more) > 256 {
			return nil, false
		}
		paths = append(paths, more...)
	}
	return paths, true
}

// indexUnescaped is the place of the first of chars that no \ stands before.
func indexUnescaped(s, chars string) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		} else if strings.IndexByte(chars, s[i]) >= 0 {
			return i
		}
	}
	return -1
}

func splitUnescaped(s string, sep byte) []string {
	var out []string
	for {
		i := indexUnescaped(s, string(sep))
		if i < 0 {
			return append(out, s)
		}
		out, s = append(out, s[:i]), s[i+1:]
	}
}

// unquote takes the \ out of a pattern without wildcards.
func unquote(glob string) string {
	if !strings.Contains(glob, `\`) {
		return glob
	}
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		if glob[i] == '\\' && i+1 < len(glob) {
			i++
		}
		b.WriteByte(glob[i])
	}
	return b.String()
}

// literalPrefix is the directory above a pattern's first wildcard.
func literalPrefix(glob string) string {
	if i := indexUnescaped(glob, "*?[{"); i >= 0 {
		glob = glob[:i]
		glob = glob[:strings.LastIndexByte(glob, '/')+1]
	}
	if glob = strings.TrimRight(glob, "/"); glob == "" {
		return "/"
	}
	return unquote(glob)
}

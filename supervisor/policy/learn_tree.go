package policy

import (
	"maps"
	"slices"
	"strings"
)

// spot is a file or directory in the tree of what a proposal has to open.
type spot struct {
	kids map[string]*spot // by pattern component
	// word is what has to be said of the spot itself, wordNone if nothing. But for
	// wordList it holds for everything below.
	word  word
	proof Proof
	// glob is set where the name stands for several, dir where it is a directory's.
	glob, dir bool
}

// several is how many of a kind have to be seen before a rule speaks of the kind.
const several = 3

// want notes that something is needed.
func (s *spot) want(parts []string, n *need, proof *Proof) {
	at := s
	for _, part := range parts {
		if at.kids == nil {
			at.kids = map[string]*spot{}
		}
		if at.kids[part] == nil {
			at.kids[part] = &spot{glob: part == anyTask || part == "*"}
		}
		at = at.kids[part]
	}
	at.word, at.dir = widest(at.word, n.word), at.dir || n.dir
	at.proof.add(proof)
}

// widest is the word of two that says as much as both: later words open more, and
// one that lists and one that reads read.
func widest(a, b word) word { return max(a, b) }

// covers reports whether a word on a directory says w of what is below it.
func covers(dir, w word) bool { return dir >= wordRead && dir >= w }

// folder generalises one tree. fits says whether a directory, by its components,
// may be opened in whole with a word, or if not so whether files in it may be
// opened by a pattern.
type folder struct {
	fits func(parts []string, w word) bool
	glob func(parts []string, w word) bool
}

// fold replaces several files in a directory by a pattern or the directory, from
// the leaves up, and drops what a rule above covers.
func (f *folder) fold(s *spot, parts []string) {
	for name, kid := range s.kids {
		f.fold(kid, append(slices.Clone(parts), name))
	}
	f.foldVariable(s, parts)
	for _, w := range []word{wordWrite, wordAskWrite, wordRead} {
		f.foldExtensions(s, parts, w)
		dirs, files := 0, 0
		for _, name := range s.leaves(w) {
			if s.kids[name].dir {
				dirs++
			} else {
				files++
			}
		}
		if max(dirs, files) >= several && f.fits(parts, w) {
			s.word, s.dir = widest(s.word, w), true
		}
	}
	s.prune(wordNone)
}

// leaves are the kids that a word is needed for in whole.
func (s *spot) leaves(w word) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.kids)) {
		if s.kids[name].word == w {
			out = append(out, name)
		}
	}
	return out
}

// foldExtensions replaces several files of one ending by a pattern.
func (f *folder) foldExtensions(s *spot, parts []string, w word) {
	groups := map[string][]string{}
	for _, name := range s.leaves(w) {
		if end := ending(name); end != "" && len(s.kids[name].kids) == 0 && !s.kids[name].glob {
			groups[end] = append(groups[end], name)
		}
	}
	for end, names := range groups {
		if len(names) >= several && f.glob(parts, w) {
			s.join("*"+end, names)
		}
	}
}

// ending is a file name's extension, empty where it has none that says something.
func ending(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 || i == len(name)-1 || len(name)-i > 9 || isNumber(name[i+1:]) {
		return ""
	}
	for _, c := range []byte(name[i+1:]) {
		if !isLetter(c) && !isDigit(c) {
			return ""
		}
	}
	return name[i:]
}

// foldVariable replaces several names that differ in versions or hashes only.
func (f *folder) foldVariable(s *spot, parts []string) {
	groups := map[string][]string{}
	for name, kid := range s.kids {
		if pattern := skeleton(name); pattern != name && !kid.glob {
			groups[pattern] = append(groups[pattern], name)
		}
	}
	for pattern, names := range groups {
		slices.Sort(names)
		most := wordRead
		for _, name := range names {
			most = widest(most, s.kids[name].most())
		}
		if len(names) < several || !f.glob(parts, most) {
			continue
		}
		f.fold(s.join(pattern, names), append(slices.Clone(parts), pattern))
	}
}

// join makes one kid of several.
func (s *spot) join(pattern string, names []string) *spot {
	all := s.kids[pattern]
	if all == nil {
		all = &spot{}
	}
	for _, name := range names {
		all.merge(s.kids[name])
		delete(s.kids, name)
	}
	all.glob = true
	s.kids[pattern] = all
	return all
}

// merge takes up what o and its kids need.
func (s *spot) merge(o *spot) {
	s.word, s.dir = widest(s.word, o.word), s.dir || o.dir
	s.proof.add(&o.proof)
	for name, kid := range o.kids {
		if s.kids == nil {
			s.kids = map[string]*spot{}
		}
		if s.kids[name] == nil {
			s.kids[name] = &spot{glob: kid.glob, dir: kid.dir}
		}
		s.kids[name].merge(kid)
	}
}

// most is the widest word at and below a spot.
func (s *spot) most() word {
	w := s.word
	for _, kid := range s.kids {
		w = widest(w, kid.most())
	}
	return w
}

// prune drops what a word above says already, keeping its proof, and spots of
// which nothing is left.
func (s *spot) prune(above word) {
	dir := above
	if s.word >= wordRead {
		dir = widest(above, s.word)
	}
	for _, name := range slices.Sorted(maps.Keys(s.kids)) {
		kid := s.kids[name]
		if kid.word != wordNone && covers(dir, kid.word) {
			s.proof.add(&kid.proof)
			kid.word, kid.proof = wordNone, Proof{}
		}
		kid.prune(dir)
		if kid.word == wordNone && kid.proof.Count > 0 {
			s.proof.add(&kid.proof)
			kid.proof = Proof{}
		}
		if kid.word == wordNone && len(kid.kids) == 0 {
			delete(s.kids, name)
		}
	}
}

// walk visits what has to be said, in the order of the names.
func (s *spot) walk(parts []string, visit func(parts []string, s *spot)) {
	if s.word != wordNone {
		visit(parts, s)
	}
	for _, name := range slices.Sorted(maps.Keys(s.kids)) {
		s.kids[name].walk(append(slices.Clone(parts), name), visit)
	}
}

// skeleton is a name with "*" for what changes from version to version and from
// build to build: numbers with dots between them, and runs of letters and digits
// that are long and mixed. A name without such parts is its own skeleton.
func skeleton(name string) string {
	switch {
	case strings.ContainsAny(name, `*?[]{}\`):
		return name
	case len(name) == 2 && isHex(name): // the first digits of hashes, by which stores divide their files
		return "*"
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		end := i
		for end < len(name) && (isLetter(name[end]) || isDigit(name[end])) {
			end++
		}
		run := name[i:end]
		switch {
		case end == i:
			b.WriteByte(name[i])
			end++
		case isNumber(run), variable(run):
			b.WriteByte('*')
		default:
			letters := strings.TrimRight(run, "0123456789")
			b.WriteString(letters)
			if letters != run { // python3
				b.WriteByte('*')
			}
		}
		i = end
	}
	return stars.Replace(b.String())
}

// stars joins what stands between two stars of one version or identifier.
var stars = strings.NewReplacer("*.*.*.*", "*", "*.*.*", "*", "*.*", "*", "*-*-*-*-*", "*", "*-*", "*", "*_*", "*")

// variable reports whether a run of letters and digits is an identifier that some
// program made: a hash or a part of one, a random name.
func variable(run string) bool {
	digits := 0
	for i := range len(run) {
		if isDigit(run[i]) {
			digits++
		}
	}
	return (len(run) >= 6 || isHex(run) && len(run) >= 4) && digits >= 2 && digits < len(run)
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

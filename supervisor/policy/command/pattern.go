package command

import (
	"path"
	"strings"
)

// Pattern is what a word must look like: a text, compared without regard to case,
// which may end in "*"; or a kind of argument such as ":outside", behind a text
// that the word begins with ("of=:device").
type Pattern struct {
	text string
	kind string
	open bool // the text is a beginning
}

// Kinds are the kinds of arguments, with what they are.
var Kinds = map[string]string{
	":any":      "any word",
	":kept":     "a path that is in no build or temporary folder",
	":tree":     "such a path, at which a directory stands",
	":outside":  "a path that is in no workspace, build or temporary folder",
	":root":     "a workspace itself, or a directory above it",
	":device":   "a device that holds data",
	":remote":   "a place on another machine: host:path, scheme://host",
	":forced":   "a refspec that overwrites: +ref",
	":deleting": "a refspec that deletes: :ref",
	":several":  "a path that may be of more than one file: a directory or a pattern, but not x.go",
	":pathspec": "the same by its form, which can be no name of a branch: ., ./x, x/, *.x",
	":sql":      "SQL that drops or empties tables",
	":artifact": "the name of what a build makes: *.o",
}

// ParsePattern reads a pattern; ok is false when its kind is none.
func ParsePattern(text string) (p Pattern, ok bool) {
	if i := strings.LastIndexByte(text, ':'); i >= 0 && Kinds[text[i:]] != "" {
		return Pattern{text: text[:i], kind: text[i:]}, true
	}
	if len(text) > 1 && text[0] == ':' && text[1] >= 'a' && text[1] <= 'z' {
		return Pattern{}, false
	}
	if p.text = text; text != "*" { // alone it is the word that git takes for everything
		p.text, p.open = strings.CutSuffix(text, "*")
	}
	return p, text != ""
}

// String is the pattern as it was written.
func (p Pattern) String() string {
	if p.open {
		return p.text + "*"
	}
	return p.text + p.kind
}

// Places are where the session works.
type Places struct {
	Workspaces []string
	// Scratch says of a clean, absolute path whether it is in a build or temporary
	// folder, Artifact of a file name whether a build makes such files.
	Scratch  func(path string) bool
	Artifact func(name string) bool
	// Tree says of an absolute path, as the command was told it, whether a directory
	// stands there; without it one stands everywhere.
	Tree func(path string) bool
}

func matchAny(patterns []Pattern, word, cwd string, places *Places) bool {
	for i := range patterns {
		if patterns[i].match(word, cwd, places) {
			return true
		}
	}
	return false
}

func (p *Pattern) match(word, cwd string, places *Places) bool {
	if p.kind == "" {
		return strings.EqualFold(word, p.text) || p.open && len(word) >= len(p.text) && strings.EqualFold(word[:len(p.text)], p.text)
	}
	if len(word) < len(p.text) || !strings.EqualFold(word[:len(p.text)], p.text) {
		return false
	}
	word = word[len(p.text):]
	switch p.kind {
	case ":any":
		return true
	case ":remote":
		return remote(word)
	case ":forced":
		return len(word) > 1 && word[0] == '+'
	case ":deleting":
		return len(word) > 1 && word[0] == ':' || len(word) > 2 && word[:2] == "+:"
	case ":several":
		return several(word)
	case ":pathspec":
		return pathspec(word) && several(word)
	case ":sql":
		return destroys(word)
	case ":artifact":
		return places.Artifact != nil && places.Artifact(word)
	}
	return p.place(word, cwd, places)
}

// place matches the kinds that are about paths.
func (p *Pattern) place(word, cwd string, places *Places) bool {
	if word == "" {
		return false
	}
	known := strings.HasPrefix(word, "/") || strings.HasPrefix(cwd, "/")
	if !strings.HasPrefix(word, "/") {
		word = cwd + "/" + word
	}
	full := path.Clean(word)
	switch p.kind {
	case ":device":
		return known && device(full)
	case ":root":
		return known && places.above(full)
	case ":outside":
		return !known || !places.inside(full) && !places.scratch(full) && (!strings.HasPrefix(full, "/dev/") || device(full))
	}
	if !known {
		return true
	}
	return !places.scratch(full) && (p.kind != ":tree" || places.tree(word))
}

func (p *Places) tree(told string) bool { return p.Tree == nil || p.Tree(told) }

func (p *Places) scratch(full string) bool { return p.Scratch != nil && p.Scratch(full) }

func (p *Places) inside(full string) bool {
	for _, ws := range p.Workspaces {
		if below(full, ws) {
			return true
		}
	}
	return false
}

func (p *Places) above(full string) bool {
	for _, ws := range p.Workspaces {
		if below(ws, full) {
			return true
		}
	}
	return full == "/"
}

func below(p, dir string) bool {
	return p == dir || dir == "/" || len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// harmless are the devices that hold nothing.
var harmless = map[string]bool{
	"null": true, "zero": true, "full": true, "random": true, "urandom": true, "tty": true, "stdin": true, "stdout": true,
	"stderr": true, "fd": true, "shm": true, "pts": true, "ptmx": true,
}

func device(full string) bool {
	rest, ok := strings.CutPrefix(full, "/dev/")
	first, _, _ := strings.Cut(rest, "/")
	return ok && !harmless[first]
}

// remote is a word that scp and rsync take for a place on another machine: a
// colon before any slash, or a scheme.
func remote(word string) bool {
	i := strings.IndexByte(word, ':')
	if i <= 0 || strings.HasPrefix(word, "file://") {
		return false
	}
	slash := strings.IndexByte(word, '/')
	return slash < 0 || i < slash
}

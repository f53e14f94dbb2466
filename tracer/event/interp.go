package event

import (
	"strconv"
	"strings"
)

// Interp is a program that an exec leads to besides its object, and that is judged
// as if it were run by itself: the interpreter of a script, an interpreter's own,
// or the program that a dynamic loader is to run.
type Interp struct {
	// Path is the resolved path.
	Path string
	// Line is the script's first line behind "#!", blanks around it left out. It is
	// empty for a loader's program.
	Line string
	// Arg is the place of a loader's program in the arguments.
	Arg int
	// SetUser says that the file is set-user-ID.
	SetUser bool
	// Alike is that of the program's own request; Cut says that some is missing.
	Alike []string
	Cut   bool
}

const (
	modeSetUser = 0o4000 // S_ISUID
	modeRegular = 0o100000
	wordSetUser = "u+s"
	wordCut     = "+"
)

// Found sets what the program was found as.
func (p *Interp) Found(o Object, alike []string) {
	p.Path, p.SetUser, p.Alike = o.Path, o.Mode&modeSetUser != 0, alike
}

// Request is the request that the program is judged by; r is that of the program
// which leads to it. The vector of an interpreter is the one that the kernel makes
// (binfmt_script): its own name, the argument of the script's first line, the
// script, and what the script was told.
func (p *Interp) Request(r *Request) Request {
	sub := *r
	sub.Object = Object{Kind: p.kind(), Path: p.Path, Mode: modeRegular}
	if p.SetUser {
		sub.Object.Mode |= modeSetUser
	}
	sub.Alike = p.Alike
	if p.Loaded() {
		if sub.Argv = r.Argv[min(p.Arg, len(r.Argv)):]; len(sub.Argv) > 0 {
			sub.Object.Raw = sub.Argv[0]
		}
		return sub
	}
	sub.Interprets = true
	if p.Line == "" {
		return sub // a record of the first reeve, which knew the path alone
	}
	name, arg := p.words()
	script := r.Object.Raw
	if script == "" {
		script = r.Object.Path
	}
	sub.Object.Raw, sub.Argv = name, []string{name}
	if arg != "" {
		sub.Argv = append(sub.Argv, arg)
	}
	sub.Argv = append(sub.Argv, script)
	if len(r.Argv) > 1 {
		sub.Argv = append(sub.Argv, r.Argv[1:]...)
	}
	return sub
}

// Loaded reports whether it is a loader's program.
func (p *Interp) Loaded() bool { return p.Arg > 0 }

// Name is the path of an interpreter as the script has it.
func (p *Interp) Name() string {
	name, _ := p.words()
	return name
}

// words are the two that the kernel makes of the line.
func (p *Interp) words() (name, arg string) {
	if i := strings.IndexAny(p.Line, " \t"); i >= 0 {
		return p.Line[:i], strings.Trim(p.Line[i:], " \t")
	}
	return p.Line, ""
}

func (p *Interp) kind() ObjectKind {
	if strings.HasPrefix(p.Path, "/memfd:") || strings.HasSuffix(p.Path, " (deleted)") {
		return ObjectMem
	}
	return ObjectFile
}

// line is all but the path in one text, in the form that event.proto describes.
func (p *Interp) line() string {
	words := []string{p.Line}
	if p.Loaded() {
		words = append(words, strconv.Itoa(p.Arg))
	}
	if p.SetUser {
		words = append(words, wordSetUser)
	}
	alike, size := kept(p.Alike)
	if size != 0 || p.Cut {
		words = append(words, wordCut)
	}
	return strings.Join(append(words, alike...), "\x00")
}

// interps are the programs that a record states. What line did not write is left
// out.
func (e *Event) interps() []Interp {
	var out []Interp
	for i, path := range e.Interps {
		p := Interp{Path: path}
		if i < len(e.InterpLines) {
			p.read(e.InterpLines[i])
		}
		out = append(out, p)
	}
	return out
}

func (p *Interp) read(line string) {
	words := strings.Split(line, "\x00")
	p.Line = words[0]
	for _, w := range words[1:] {
		n, err := strconv.Atoi(w)
		switch {
		case w == wordSetUser:
			p.SetUser = true
		case w == wordCut:
			p.Cut = true
		case strings.HasPrefix(w, "/"):
			p.Alike = append(p.Alike, w)
		case err == nil && n > 0 && p.Line == "":
			p.Arg = n
		}
	}
}

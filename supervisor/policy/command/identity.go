package command

import (
	"slices"
	"strings"
)

// Call is an execve.
type Call struct {
	// Program is the resolved path, Raw the path as the task wrote it, and Alike
	// are known programs that the file is the same as under another name.
	Program, Raw string
	Alike        []string
	Argv         []string
	// Cwd is where relative paths begin; empty is not known.
	Cwd string
	// By is the path of the program that calls, ByArgv what it was told.
	By     string
	ByArgv []string
	// Interprets says that the program is to run a script that was judged already.
	Interprets bool
}

// Identity is one program that a call may run as, with what it is told.
type Identity struct {
	// Name is what rules call the program.
	Name string
	// Applet is set when the program is one of many in one file.
	Applet  bool
	program *Program
	args    []string
	line    *line
	call    *Call
	// by is the program that calls, when it may run others as a part of what it
	// does.
	by string
	// beyond is set when more words could make it run a program in its own process.
	beyond bool
}

// Beyond reports whether more words behind those of the call could make it run
// another program in its own process.
func (id *Identity) Beyond() bool { return id.beyond }

// maxIdentities bounds how deep programs may stand inside one another.
const maxIdentities = 12

// Identify names the programs that a call runs as. The file decides, by its
// resolved name; what it is called as matters only for programs that are many in
// one file. A script that an interpreter is given, and a program that a loader is
// given, count besides.
func (t *Tables) Identify(c *Call) []Identity {
	var out []Identity
	names := append([]string{c.Program}, c.Alike...)
	if c.Raw != "" {
		names = append(names, c.Raw)
	}
	many := false
	for _, path := range names {
		many = many || t.multicall[base(path)]
	}
	by := t.caller(c)
	for _, path := range names {
		// A hard link of a program that is many says nothing by its name.
		if name := base(path); !many || t.multicall[name] {
			out = t.add(out, c, name, c.Argv)
		}
	}
	for i := range out {
		out[i].by = by
	}
	return out
}

// caller is the name of the program that calls, "" when it does what it was told
// by somebody else, such as git for an alias.
func (t *Tables) caller(c *Call) string {
	name := base(c.By)
	if !t.Internal(name) {
		return name
	}
	p := t.programs[name]
	var args []string
	if len(c.ByArgv) > 0 {
		args = dashed(p, name, c.ByArgv, c.ByArgv[1:])
	}
	if l := p.read(args); len(l.operands) > 0 && p.Internals[l.operands[0].text] {
		return name
	}
	return ""
}

// Internal reports whether the program of that file name runs others of itself as
// a part of what it is told.
func (t *Tables) Internal(name string) bool {
	return t.programs[name] != nil && t.programs[name].Internals != nil
}

// add appends what a program of that file name is when told argv.
func (t *Tables) add(out []Identity, c *Call, name string, argv []string) []Identity {
	for range maxIdentities {
		if len(out) >= maxIdentities {
			return out
		}
		var args []string
		if len(argv) > 0 {
			args = argv[1:]
		}
		applet := false
		if t.multicall[name] {
			if name, args = t.applet(name, argv); name == "" {
				return out
			}
			applet = true
			argv = append([]string{name}, args...)
		}
		id := Identity{Name: name, Applet: applet, args: args, call: c}
		if p := t.program(name); p != nil {
			id.Name, id.program = p.Name, p
			id.args = dashed(p, name, argv, args)
		}
		inner := t.inner(name, &id)
		id.beyond = inner == beyond || applet && t.multicall[name]
		if !contains(out, &id) {
			out = append(out, id)
		}
		if inner < 0 {
			return out
		}
		argv, name = args[inner:], base(args[inner])
		if id.program != nil && id.program.Name == "python" {
			if m, module := moduleAt(args, inner); module {
				name, _, _ = strings.Cut(m, ".")
			}
		}
	}
	return out
}

func contains(list []Identity, id *Identity) bool {
	for i := range list {
		if list[i].Name == id.Name && slices.Equal(list[i].args, id.args) {
			return true
		}
	}
	return false
}

// applet is the program that a multicall file runs as, with its arguments.
func (t *Tables) applet(name string, argv []string) (applet string, args []string) {
	if len(argv) == 0 {
		return "", nil
	}
	called := strings.TrimPrefix(base(argv[0]), "-") // a login shell
	if !t.multicall[called] && called != "" {
		return called, argv[1:]
	}
	for i, w := range argv[1:] {
		if prog, ok := strings.CutPrefix(w, "--coreutils-prog="); ok {
			return base(prog), argv[i+2:]
		}
		if prog, ok := strings.CutPrefix(w, "--coreutils-prog-shebang="); ok {
			return base(prog), argv[min(i+3, len(argv)):] // past the script's own name
		}
		if t.multicall[base(w)] { // busybox busybox rm
			continue
		}
		if !strings.HasPrefix(w, "-") {
			return base(w), argv[i+2:]
		}
	}
	return name, argv[1:]
}

// Multicall reports whether the file of that name is many programs.
func (t *Tables) Multicall(name string) bool { return t.multicall[name] }

// Canonical is what rules call a program of that file name.
func (t *Tables) Canonical(name string) string {
	if p := t.program(name); p != nil {
		return p.Name
	}
	return name
}

// program finds a program by a file name: as it is, without what follows a
// version number ("python3.11", "pip3"), or by its beginning ("mkfs.ext4").
func (t *Tables) program(name string) *Program {
	for short := name; short != ""; {
		if p := t.programs[short]; p != nil {
			return p
		}
		i := strings.LastIndexFunc(short, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '-' })
		if short == name && i+1 < len(short) {
			// python3.11 is python3 and python; x-1.2 is x.
			if j := strings.IndexAny(short[i+1:], ".-"); j > 0 {
				if p := t.programs[short[:i+1+j]]; p != nil {
					return p
				}
			}
		}
		if i+1 >= len(short) {
			break
		}
		short = short[:i+1]
	}
	for prefix, p := range t.prefixes {
		if strings.HasPrefix(name, prefix) {
			return p
		}
	}
	return nil
}

// dashed makes "git-push ARGS" what it is: "git push ARGS".
func dashed(p *Program, name string, argv, args []string) []string {
	if !p.Dashed {
		return args
	}
	sub, ok := strings.CutPrefix(name, p.Name+"-")
	if !ok && len(argv) > 0 {
		sub, ok = strings.CutPrefix(base(argv[0]), p.Name+"-")
	}
	if !ok {
		return args
	}
	return append([]string{sub}, args...)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

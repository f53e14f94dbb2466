package command

import (
	"strings"
)

// loaderValues are the options of dynamic loaders that take a value.
var loaderValues = map[string]bool{
	"--library-path": true, "--inhibit-rpath": true, "--audit": true, "--preload": true, "--argv0": true,
	"--glibc-hwcaps-prepend": true, "--glibc-hwcaps-mask": true,
}

// Loader says whether a file name is that of a dynamic loader, and which of its
// words, argv[0] being the first, is the program that it is to run; 0 if none.
func (t *Tables) Loader(name string, argv []string) (program int, is bool) {
	for _, prefix := range t.loaders {
		is = is || strings.HasPrefix(name, prefix)
	}
	if !is {
		return 0, false
	}
	for i := 1; i < len(argv); i++ {
		switch w := argv[i]; {
		case w == "--list" || w == "--verify":
			return 0, true // looks at it
		case loaderValues[w]:
			i++
		case !strings.HasPrefix(w, "--"):
			return i, true
		}
	}
	return 0, true
}

// inner is the place in an identity's arguments of a program that it runs in its
// own process: a loader's program, an interpreter's script or module.
func (t *Tables) inner(name string, id *Identity) int {
	if i, is := t.Loader(name, append([]string{name}, id.args...)); is && i > 0 {
		return i - 1
	} else if is {
		return beyond
	}
	if id.program == nil || !t.scripts[id.program.Name] || id.call.Interprets {
		return nowhere
	}
	for i := 0; i < len(id.args); i++ {
		switch w := id.args[i]; {
		case id.program.Name == "python" && module(w) != noModule:
			switch m := module(w); {
			case m != "":
				return i // behind it in the same word
			case i+1 < len(id.args):
				return i + 1
			}
			return beyond
		case w == "--":
			if i+1 < len(id.args) {
				return i + 1
			}
			return beyond
		case len(w) > 1 && w[0] == '-':
			if id.program.Values[w] {
				i++
			} else if inline[w] {
				return nowhere
			}
		case strings.Contains(w, "/") || t.program(w) != nil:
			return i
		default:
			return nowhere
		}
	}
	return beyond
}

// noModule says that a word of python's does not name a module.
const noModule = "\x00"

// module is what follows "-m" in a word of python's: "-mpip", "-Im".
func module(w string) string {
	if len(w) < 2 || w[0] != '-' {
		return noModule
	}
	i := strings.IndexByte(w, 'm')
	if i < 0 || strings.Trim(w[1:i], "bBdEiIOPqsSuvx") != "" {
		return noModule
	}
	return w[i+1:]
}

// moduleAt is the module that the word at i names, or that the one before says it
// is.
func moduleAt(args []string, i int) (name string, is bool) {
	if m := module(args[i]); m != noModule && m != "" {
		return m, true
	}
	if i > 0 && module(args[i-1]) == "" {
		return args[i], true
	}
	return "", false
}

// inline are options after which an interpreter's code stands in its arguments.
var inline = map[string]bool{"-c": true, "-e": true, "-p": true, "--eval": true, "--print": true, "-r": true}

// What inner says where there is no program: none can be told any more, or more
// words could name one.
const (
	nowhere = -1
	beyond  = -2
)

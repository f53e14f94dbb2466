package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// arrange puts a command line into the order the parser wants: flags may stand
// anywhere, also behind the arguments they belong to (`reeve replay last
// --tree`), and --state also behind the verb. It changes the order, never the
// words; unknown flags stay for the parser to complain about.
//
// `run` is the exception: from the command on every word is the command's own.
func arrange(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	a := arranger{global: app.Flags, local: app.Flags, subs: app.Commands, rest: args[1:]}
	for len(a.rest) > 0 && a.step() {
	}
	out := append([]string{args[0]}, a.front...)
	out = append(out, a.path...)
	out = append(out, a.flags...)
	if a.dashes {
		out = append(out, "--")
	}
	return append(append(out, a.words...), a.rest...)
}

type arranger struct {
	global, local []cli.Flag
	subs          []*cli.Command
	verbatim      bool // from the first word on, nothing is ours
	raw           bool // nothing is ours, flags neither

	rest []string // not looked at yet

	front  []string // flags of the program
	path   []string // the verbs, each with the flags given before the next
	flags  []string // flags of the last verb
	words  []string // its arguments
	dashes bool     // the arguments were set off by "--"
}

// step looks at one word; it says whether to go on.
func (a *arranger) step() bool {
	word := a.rest[0]
	switch {
	case a.raw:
		return false
	case word == "--":
		a.dashes = true
		a.rest = a.rest[1:]
		return false
	case strings.HasPrefix(word, "-") && word != "-":
		a.flag(word)
		return true
	}
	if i := slices.IndexFunc(a.subs, func(c *cli.Command) bool { return c.HasName(word) }); i >= 0 && len(a.words) == 0 {
		a.descend(a.subs[i], word)
		return true
	}
	if a.verbatim {
		return false
	}
	if a.asksExec() {
		return false // every further word is the command line's that is asked about
	}
	a.words = append(a.words, word)
	a.rest = a.rest[1:]
	return true
}

// asksExec reports whether what follows is the program of `policy explain exec`.
func (a *arranger) asksExec() bool {
	return len(a.words) == 1 && a.words[0] == "exec" && slices.Contains(a.path, "explain")
}

func (a *arranger) descend(c *cli.Command, word string) {
	if a.path != nil {
		a.path = append(a.path, a.flags...)
	} else {
		a.front = append(a.front, a.flags...)
	}
	a.flags = nil
	a.path = append(a.path, word)
	a.local, a.subs, a.verbatim, a.raw = c.Flags, c.Subcommands, c.Name == "run", c.SkipFlagParsing
	a.rest = a.rest[1:]
}

// flag moves a flag and its value.
func (a *arranger) flag(word string) {
	name, _, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
	f := find(a.local, name)
	dest := &a.flags
	if f == nil {
		if f = find(a.global, name); f != nil {
			dest = &a.front
		}
	}
	n := 1
	if g, ok := f.(cli.DocGenerationFlag); ok && g.TakesValue() && !joined {
		n = min(2, len(a.rest))
	}
	*dest = append(*dest, a.rest[:n]...)
	a.rest = a.rest[n:]
}

func find(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

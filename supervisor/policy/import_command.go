package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// draftCommand is one rule about commands: a program, the words of its
// subcommand, and options that must be there.
type draftCommand struct {
	program     string
	sub         string
	flags, also []string
	operands    []string
	action      event.Action
	from        Pos
}

// clustered are programs whose short options may be written together.
var clustered = []string{
	"rm", "cp", "mv", "ls", "ln", "mkdir", "rmdir", "chmod", "chown", "chgrp", "touch", "cat", "grep", "sed", "tar", "ssh", "scp", "rsync", "curl", "wget",
	"git", "docker", "podman", "kubectl", "helm", "npm", "pnpm", "yarn", "pip", "pip3", "python", "python3", "node", "bash", "sh", "zsh", "sudo", "su", "kill", "pkill", "killall", "truncate", "shred", "cargo", "make",
}

// commandLine is a command of another tool's rule: words up to where it leaves
// open what follows.
type commandLine struct {
	words []string
	// exact is set when nothing may follow, loose when something in it could not
	// be told apart: a wildcard in the middle, a second command.
	exact, loose bool
}

// splitCommand splits the text of a rule. A "*" that stands by itself, or at an
// end, leaves open what is there.
func splitCommand(text string) commandLine {
	line := commandLine{exact: true}
	if i := strings.IndexAny(text, "|;&<>`\n"); i >= 0 {
		text, line.loose = text[:i], true
	}
	for i, w := range strings.Fields(text) {
		w = strings.Trim(w, `"'`)
		if assignment := strings.Index(w, "="); i == len(line.words) && len(line.words) == 0 && assignment > 0 && !strings.HasPrefix(w, "-") {
			line.loose = true // FOO=x command
			continue
		}
		if strings.ContainsAny(w, "*$(") && len(line.words) > 0 {
			line.exact = false
			line.loose = line.loose || w != "*" || i < len(strings.Fields(text))-1
			break
		}
		line.words = append(line.words, w)
	}
	return line
}

// command puts a rule about a command in its place. It holds for at least what
// the other tool's does: what stands in the way of telling it makes it wider.
func (im *importer) command(action event.Action, line commandLine, from Pos, written string) {
	if len(line.words) == 0 || strings.ContainsAny(line.words[0], "*?[]$() ") {
		im.say(FidelityOpen, from, written, "no rule is written: one names a program, and this begins with a wildcard; write one for each program that is meant")
		return
	}
	if action == event.ActionAllow {
		im.say(FidelityExact, from, written, "no rule is written: programs run here unless a rule denies them, and risky commands ask all the same")
		return
	}
	c, whole := im.commandRule(line)
	c.action, c.from = action, from
	switch {
	case line.loose || !whole:
		im.say(FidelityStricter, from, written, "holds for every call of %s: its arguments cannot be matched like this here", c.describe())
	case line.exact:
		im.say(FidelityStricter, from, written, "holds for %s whatever words follow, not for these words alone", c.describe())
	}
	if strings.Contains(line.words[0], "/") {
		im.say(FidelityStricter, from, written, "holds for every program called %s", c.program)
	}
	same := func(o draftCommand) bool { return o.describe() == c.describe() && o.action == c.action }
	if !slices.ContainsFunc(im.commands, same) {
		im.commands = append(im.commands, c)
	}
}

// commandRule is the rule that a command's words amount to; whole is false where
// it had to leave some out.
func (im *importer) commandRule(line commandLine) (c draftCommand, whole bool) {
	c.program, whole = last(line.words[0]), true
	var sub []string
	words := line.words[1:]
	for len(words) > 0 && !strings.HasPrefix(words[0], "-") && len(sub) < 3 {
		sub, words = append(sub, words[0]), words[1:]
	}
	c.sub = strings.Join(sub, " ")
	for _, w := range words {
		flag := strings.HasPrefix(w, "-") && w != "-" && w != "--"
		short := flag && !strings.HasPrefix(w, "--")
		var flags []string
		switch {
		case flag && !short:
			flags = []string{w}
		case short && slices.Contains(clustered, c.program):
			for _, letter := range w[1:] {
				flags = append(flags, "-"+string(letter))
			}
		default:
			return c, false
		}
		for _, f := range flags {
			switch {
			case len(c.flags) == 0:
				c.flags = []string{f}
			case len(c.also) == 0:
				c.also = []string{f}
			default:
				return c, false
			}
		}
	}
	return c, whole
}

// describe is the command as a message shows it.
func (c *draftCommand) describe() string {
	words := append([]string{c.program}, strings.Fields(c.sub)...)
	words = append(append(words, c.flags...), c.also...)
	return fmt.Sprintf("%q", strings.Join(append(words, c.operands...), " "))
}

// writeCommands writes the rules about commands.
func (d *draft) writeCommands(b *strings.Builder, head string) {
	for i := range d.commands {
		c := &d.commands[i]
		fmt.Fprintf(b, "\n[[%s.rule]]%s\nprogram = %s\n", head, lineComment(c.from), tomlString(c.program))
		if c.sub != "" {
			fmt.Fprintf(b, "sub = %s\n", tomlString(c.sub))
		}
		for _, list := range []struct {
			key   string
			words []string
		}{{"flags", c.flags}, {"also", c.also}, {"operands", c.operands}} {
			if len(list.words) > 0 {
				fmt.Fprintf(b, "%s = [%s]\n", list.key, quoteAll(list.words))
			}
		}
		fmt.Fprintf(b, "action = %q\n", c.action)
	}
}

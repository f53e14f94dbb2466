package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// What a rule about one command may hold: as much as a record states, so that what
// is learned from records can be written.
const (
	maxExactBytes = 4096
	maxExactWords = 512
)

// parseExact reads a rule about one command, word for word.
func parseExact(s *section, r *command.Rule) {
	x := &command.Exact{Argv: s.vector("argv")}
	x.Cwd, _ = s.str("cwd")
	parseLabels(s, r)
	fault := func(hint, format string) { s.faults.add(s.table.pos, hint, format, s.what) }
	if len(r.Programs) != 1 || !cleanPath(r.Programs[0]) {
		fault(`say program = "/usr/bin/git": what a rule with argv is about is one file, by its path after all links`, "a rule of %s with argv needs one program by its absolute path")
		return
	}
	x.Program, r.Programs, r.Exact = r.Programs[0], []string{last(r.Programs[0])}, x
	switch size := x.Size(); {
	case len(x.Argv) == 0:
		fault(`say argv = ["git", "push"]: all words, the program's name first`, "a rule of %s has no argv")
	case size > maxExactBytes || len(x.Argv) > maxExactWords:
		fault(fmt.Sprintf("at most %d words of %d bytes together", maxExactWords, maxExactBytes), "argv of a rule of %s is too long")
	}
	if _, said := s.table.index["cwd"]; said && !cleanPath(x.Cwd) {
		fault(`say cwd = "/home/me/project"`, "cwd of a rule of %s is no absolute path")
	}
	if len(r.UnlessBy) > 0 {
		fault("leave it out: argv says all", "a rule of %s has both argv and unless_by")
	}
}

func cleanPath(p string) bool { return strings.HasPrefix(p, "/") && path.Clean(p) == p }

// vector is a list of texts of which some may be empty.
func (s *section) vector(name string) []string {
	v := s.get(name, unstable.Array, `expected a list of texts, ["a", "b"]`)
	if v == nil {
		return nil
	}
	var out []string
	for _, one := range v.list {
		if one.kind != unstable.String {
			s.faults.add(one.pos, "expected a text in quotes", "%s.%s holds %s", s.what, name, kindName(one.kind))
			continue
		}
		if strings.ContainsRune(one.str, 0) {
			s.faults.add(one.pos, "leave it out", "%s.%s holds a NUL, which no argument can", s.what, name)
		}
		out = append(out, one.str)
	}
	return out
}

// exactLines are the keys of a rule that allows one command.
func exactLines(x *command.Exact) string {
	cwd := ""
	if x.Cwd != "" {
		cwd = "cwd = " + tomlString(x.Cwd) + "\n"
	}
	return fmt.Sprintf("program = %s\nargv = %s\n%saction = \"allow\"\n", tomlString(x.Program), listTOML(x.Argv), cwd)
}

// exactOf is the command of an exec, as a rule would name it. An error says why
// none can.
func (p *Policy) exactOf(req *event.Request) (*command.Exact, error) {
	x := &command.Exact{Program: req.Object.Path, Argv: req.Argv, Cwd: req.Task.Cwd}
	t := newTarget(req, &req.Object, event.AccessExec, roleUse)
	if err := p.nameable(&t); err != nil {
		return nil, err
	}
	switch {
	case t.anonymous() || !cleanPath(x.Program):
		return nil, errors.New("a program without a file cannot be named")
	case len(x.Argv) == 0:
		return nil, errors.New("it has no arguments, not even its name, by which a rule could know it")
	case !cleanPath(x.Cwd):
		return nil, errors.New("where it runs is not known")
	case x.Size() > maxExactBytes || len(x.Argv) > maxExactWords:
		return nil, fmt.Errorf("a rule can hold at most %d words of %d bytes together", maxExactWords, maxExactBytes)
	case slices.ContainsFunc(append([]string{x.Cwd}, x.Argv...), func(s string) bool { return !utf8.ValidString(s) }):
		return nil, errors.New("a policy file cannot hold arguments that are not UTF-8")
	case isBelowAny(x.Cwd, append(one(p.host.Tmp), one(p.host.Cache)...)):
		return nil, errors.New("the session's temporary directory goes with the session")
	}
	return x, nil
}

// commandEdits are the rules that let one command run, in each layer whose rules
// about commands ask.
func (p *Policy) commandEdits(req *event.Request) ([]edit, error) {
	var out []edit
	for _, v := range p.judgeCommand(req, surroundings{}) {
		if v.action <= event.ActionAllow || p.recordOnly {
			continue
		}
		c := &p.commands[v.layer]
		l := layer{name: "profile " + c.name, origin: c.origin, profile: true}
		switch {
		case v.action == event.ActionDeny:
			return nil, fmt.Errorf("%s%s denies it: there is nothing to ask", quoted(v.label()), l.describe())
		case v.program:
			return nil, fmt.Errorf("%sit is one of many programs in a file: only its name can be allowed, in [permissions.%s.exec]", quoted(v.label()), tomlKey(c.name))
		}
		if err := writable(&l, v.label(), v.pos.String()); err != nil {
			return nil, err
		}
		x, err := p.exactOf(req)
		if err != nil {
			return nil, err
		}
		out = append(out, edit{profile: c.name, table: []string{"commands", "rule"}, key: exactLines(x), exact: x})
	}
	return out, nil
}

// describeCommands is all that each profile says about commands, a line each,
// without rules that allow just the given ones.
func (p *Policy) describeCommands(but []*command.Exact) []string {
	var out []string
	for _, l := range p.commands {
		line := "commands of " + l.name
		for _, class := range command.Classes() {
			line += fmt.Sprintf(" %s %v", class, l.classes[class].action)
		}
		if b := l.bulk; b != nil {
			line += fmt.Sprintf(" bulk %d %v %v", b.Files, b.Window, b.Action)
		}
		for i := range l.own {
			r := &l.own[i]
			about := func(x *command.Exact) bool { return x.Equal(r.rule.Exact) }
			if r.action != event.ActionAllow || r.rule.Exact == nil || !slices.ContainsFunc(but, about) {
				line += fmt.Sprintf("; rule %d %s", r.depth, r.describe())
			}
		}
		out = append(out, line)
	}
	return out
}

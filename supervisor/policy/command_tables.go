package policy

import (
	"embed"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
)

//go:embed data/commands/*.toml
var commandTexts embed.FS

// readCommands reads the tables about programs, their command lines, and what a
// build makes again.
func (t *tables) readCommands(faults *faultList) {
	var facts command.Facts
	doc := func(name string) *section {
		text, err := commandTexts.ReadFile("data/commands/" + name + ".toml")
		if err != nil {
			faults.add(Pos{}, "", "%v", err)
		}
		return open(name, string(text), faults)
	}
	programs := doc("programs")
	facts.Multicall, facts.Loaders, facts.Interpreters = programs.list("multicall"), programs.list("loaders"), programs.list("interpreters")
	if sub := programs.sub("program"); sub != nil {
		sub.each(func(name string, s *section) { facts.Programs = append(facts.Programs, readProgram(name, s)) })
	}
	programs.finish()
	for _, class := range command.Classes() {
		s := doc(class.String())
		for _, r := range s.tables(class.String()) {
			rule, _ := parseRule(r, class)
			if r.finish(); rule.Class == command.Interpreter {
				t.interpreters = append(t.interpreters, rule.Programs...)
			}
			facts.Rules = append(facts.Rules, rule)
		}
		s.finish()
	}
	t.commands = command.New(facts)
	s := doc("scratch")
	t.scratch = scratchNames{newNameSet(s.list("folders")), newNameSet(s.list("artifacts")), s.list("tools")}
	s.finish()
}

var styles = map[string]command.Style{"gnu": command.GNU, "single": command.Single, "expression": command.Expression}

func readProgram(name string, s *section) *command.Program {
	p := &command.Program{Name: name, Names: s.list("names"), Values: set(s.list("values")), Switches: set(s.list("switches")), Attached: set(s.list("attached"))}
	p.Style = styles[s.choice("style", "gnu", "single", "expression")]
	p.Exact, p.Dashed = isYes(s.yes("exact")), isYes(s.yes("dashed"))
	if internals := s.list("internals"); internals != nil {
		p.Internals = set(internals)
	}
	if subs := s.sub("sub"); subs != nil {
		p.Subs = make(map[string]map[string]bool)
		for _, e := range subs.table.entries {
			p.Subs[e.name] = set(subs.list(e.name))
		}
	}
	return p
}

func isYes(b *bool) bool { return b != nil && *b }

func set(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, w := range list {
		out[strings.TrimSpace(w)] = true
	}
	return out
}

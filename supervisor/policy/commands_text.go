package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// CommandLines says in words what the policy says of commands: one line a
// profile with its classes and, when rules is set, one for each rule of its own,
// and one for bulk changes.
func (p *Policy) CommandLines(rules bool) []string {
	var out []string
	for _, l := range p.commands {
		var said []string
		for _, class := range command.Classes() {
			if c := l.classes[class]; c.action != event.ActionNone {
				said = append(said, class.String()+" "+c.action.String())
			}
		}
		if len(said) > 0 {
			out = append(out, fmt.Sprintf("%s (%s): %s", l.name, l.origin, strings.Join(said, ", ")))
		}
		for _, r := range l.own {
			if rules {
				out = append(out, fmt.Sprintf("%s (%s): %s", l.name, l.origin, r.describe()))
			}
		}
	}
	if b := p.BulkLimit(); b.Action > event.ActionAllow {
		out = append(out, fmt.Sprintf("bulk: more than %d files deleted or overwritten in %v: %s", b.Files, b.Window, b.Action))
	}
	return out
}

// describe is the rule in its own words.
func (r *ownRule) describe() string {
	word := r.action.String()
	if r.action == event.ActionNone {
		word = r.rule.Class.String()
	}
	if x := r.rule.Exact; x != nil {
		return strings.TrimSpace(word + " " + x.Program + fmt.Sprintf(" %q", x.Argv) + within(x.Cwd) + inBrackets(r.rule.Reason))
	}
	parts := []string{word, strings.Join(r.written, "|")}
	var subs []string
	for _, s := range r.rule.Subs {
		subs = append(subs, strings.Join(s, " "))
	}
	parts = append(parts, strings.Join(subs, "|"), strings.Join(r.rule.Flags, "|"), strings.Join(r.rule.Also, "|"), patternText(r.rule.Operands), patternText(r.rule.Last), patternText(r.rule.Further), patternText(r.rule.Behind), strings.Join(r.rule.Values, "|"), patternText(r.rule.Texts))
	for _, not := range slices.Concat(r.rule.Unless, r.rule.UnlessBy, []string{patternText(r.rule.UnlessOperands), patternText(r.rule.UnlessTexts)}) {
		if not != "" {
			parts = append(parts, "not "+not)
		}
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, " ") + inBrackets(r.rule.Reason)
}

func within(cwd string) string {
	if cwd == "" {
		return ""
	}
	return " in " + cwd
}

func inBrackets(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func patternText(list []command.Pattern) string {
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return strings.Join(out, "|")
}

// BulkLimit is the strictest that all profiles together say about deleting and
// overwriting many files; with an Action of allow, or none, there is no limit.
func (p *Policy) BulkLimit() BulkLimit {
	var all BulkLimit
	for _, l := range p.commands {
		b := l.bulk
		if b == nil || b.Action <= event.ActionAllow || p.recordOnly {
			continue
		}
		if all.Files == 0 || b.Files < all.Files {
			all.Files = b.Files
		}
		all.Window, all.Action = max(all.Window, b.Window), max(all.Action, b.Action)
	}
	return all
}

// checkCommands looks at what profiles say about commands.
func (p *Policy) checkCommands() []Finding {
	var out []Finding
	for _, l := range p.commands {
		for i := range l.own {
			r := &l.own[i]
			if l.origin == BuiltIn {
				continue
			}
			add := func(severity Severity, format string, args ...any) {
				out = append(out, Finding{severity, r.pos, "commands.rule", fmt.Sprintf(format, args...)})
			}
			for _, name := range r.written {
				if c := p.tables.commands.Canonical(name); c != name {
					add(Note, "%s is %s here: the rule is about all that go by its names, whatever their version", name, c)
				}
			}
			plain := len(r.rule.Subs)+len(r.rule.Flags)+len(r.rule.Operands)+len(r.rule.Last)+len(r.rule.Further)+len(r.rule.Behind)+len(r.rule.Texts) == 0 && r.rule.Exact == nil
			if r.action == event.ActionAllow && plain {
				add(Warning, "allows whatever %s is told, also what belongs to a class that asks", strings.Join(r.written, ", "))
			}
			if r.action == event.ActionAllow && l.origin == Project {
				add(Warning, "a policy of the workspace can only narrow: other profiles' words still count")
			}
		}
	}
	return out
}

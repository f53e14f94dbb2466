package policy

import (
	"time"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// commandRules is a [permissions.NAME.commands]: what classes of commands are
// allowed to do, and rules of one's own.
type commandRules struct {
	pos     Pos
	classes map[command.Class]classRule
	own     []ownRule
	bulk    *BulkLimit
}

type classRule struct {
	action event.Action
	pos    Pos
}

// ownRule is a rule that a profile makes: it says an action, or adds to a class.
type ownRule struct {
	rule *command.Rule
	// written are the programs as the file has them, rule those that they are.
	written []string
	action  event.Action
	pos     Pos
	depth   int // grows from a profile to those that extend it
}

// BulkLimit is how many files may be deleted or overwritten within a time; see
// [Bulk]. Files is never zero.
type BulkLimit struct {
	Files  int
	Window time.Duration
	Action event.Action

	pos Pos
}

// commandLayer is what one profile of the policy says of commands.
type commandLayer struct {
	*commandRules
	name   string
	origin Layer
}

func extendCommands(parent, child *commandRules) *commandRules {
	if parent == nil || child == nil {
		return over(parent, child)
	}
	c := &commandRules{pos: child.pos, classes: map[command.Class]classRule{}, bulk: over(parent.bulk, child.bulk)}
	for _, from := range []*commandRules{parent, child} {
		for class, r := range from.classes {
			c.classes[class] = r
		}
	}
	depth := 0
	for _, r := range parent.own {
		depth = max(depth, r.depth+1)
		c.own = append(c.own, r)
	}
	for _, r := range child.own {
		r.depth += depth
		c.own = append(c.own, r)
	}
	return c
}

// combineCommands joins what the profiles say about commands. A profile that is
// the ground, and says nothing of a class, says of it what the default profile
// does.
func (p *Policy) combineCommands() {
	for _, s := range p.stack {
		c := s.commands
		if s.closed {
			c = extendCommands(p.tables.profiles[DefaultProfile].commands, c)
		}
		if i := s.interpreters; i != nil {
			said := &commandRules{pos: i.pos, classes: map[command.Class]classRule{command.Interpreter: *i}}
			if c != nil && c.classes[command.Interpreter].action >= i.action {
				said = nil // the stricter of the two tables
			}
			c = extendCommands(c, said)
		}
		if c == nil && len(s.programs) > 0 {
			c = &commandRules{} // for what exec says of single programs of many
		}
		if c != nil {
			c = p.canonical(c)
			p.commands = append(p.commands, commandLayer{c, s.name, s.origin})
		}
	}
	p.places = command.Places{Workspaces: p.host.Workspaces, Scratch: p.scratch, Artifact: p.tables.scratch.artifact}
}

// canonical calls the programs of a profile's own rules what the tables do:
// python3 is python.
func (p *Policy) canonical(c *commandRules) *commandRules {
	out := *c
	out.own = nil
	for _, r := range c.own {
		rule := *r.rule
		r.written, rule.Programs = rule.Programs, nil
		for _, name := range r.written {
			rule.Programs = append(rule.Programs, p.tables.commands.Canonical(name))
		}
		r.rule = &rule
		out.own = append(out.own, r)
	}
	return &out
}

package policy

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// commandVerdict is what one layer says of a command, and by which rule.
type commandVerdict struct {
	action event.Action
	class  command.Class
	// name is how the match is called: "git push --force".
	name, reason string
	pos          Pos
	layer        int
	// own is set for a profile's own rules, exact for one of them about this very
	// command, program for one of its exec table.
	own, exact, program bool
}

// label is how decisions name the rule.
func (v *commandVerdict) label() string {
	if v.program {
		return v.name
	}
	if v.class != command.None {
		return commandRule + v.class.String() + ": " + v.name
	}
	return commandRule + "rule: " + v.name
}

// commandRule begins the names of rules about commands.
const commandRule = "commands."

// stricter reports whether v decides rather than w: the stricter action, then the
// class that comes first.
func (v *commandVerdict) stricter(w *commandVerdict) bool {
	if v.action != w.action {
		return v.action > w.action
	}
	return w.name == "" && v.name != "" || v.class != w.class && v.class != command.None && (w.class == command.None || v.class < w.class)
}

const (
	setuidName   = "set-user-ID program"
	setuidReason = "it would run as another user, which the kernel does not let it in a session"
)

// surroundings is what is known of the paths that a command is told, besides their
// names. The zero value knows nothing.
type surroundings struct {
	// expendable says what may be deleted without a loss, tree where a directory
	// stands, see [command.Places].
	expendable, tree func(path string) bool
}

// judgeCommand is what each layer says of an exec.
func (p *Policy) judgeCommand(req *event.Request, at surroundings) []commandVerdict {
	places := p.places
	places.Tree = at.tree
	if at.expendable != nil {
		places.Scratch = at.expendable
	}
	call := p.call(req)
	out := make([]commandVerdict, len(p.commands))
	for i := range out {
		out[i].layer = i
	}
	ids := p.tables.commands.Identify(call)
	p.judgeApplets(call, ids, out)
	for n := range ids {
		id := &ids[n]
		known := p.matches(id, &places)
		for i := range p.commands {
			out[i].meet(p.commands[i].verdict(id, known, &places, i))
		}
	}
	if req.Object.Mode&syscall.S_ISUID != 0 {
		for i := range p.commands {
			if !out[i].exact {
				out[i].meet(p.commands[i].classVerdict(command.Privileged, setuidName, setuidReason, i))
			}
		}
	}
	return out
}

// call is an exec as the tables read it.
func (p *Policy) call(req *event.Request) *command.Call {
	call := &command.Call{
		Program: strings.TrimSuffix(req.Object.Path, deletedMark), Raw: req.Object.Raw, Alike: req.Alike, Argv: req.Argv, Cwd: req.Task.Cwd,
		Interprets: req.Interprets,
	}
	if p.foreign(req.Task.Exe) {
		call.By, call.ByArgv = req.Task.Exe, req.Caller
	}
	return call
}

// meet takes on what is stricter.
func (v *commandVerdict) meet(o commandVerdict) {
	if o.stricter(v) {
		*v = o
	}
}

// known is a built-in rule that matches.
type known struct {
	rule *command.Rule
	name string
}

func (p *Policy) matches(id *command.Identity, places *command.Places) []known {
	var out []known
	for _, r := range p.tables.commands.Rules(id.Name) {
		if name, ok := id.Match(r, places); ok {
			out = append(out, known{r, name})
		}
	}
	return out
}

func (l *commandLayer) classVerdict(class command.Class, name, reason string, layer int) commandVerdict {
	c := l.classes[class]
	return commandVerdict{action: c.action, class: class, name: name, reason: reason, pos: c.pos, layer: layer}
}

// verdict is what a layer says of one identity: what its own rules say that name
// an action, those of the profile itself before those that it extends, and of these
// one about this very command before the rest; else what it says of the classes that
// the command belongs to.
func (l *commandLayer) verdict(id *command.Identity, matched []known, places *command.Places, layer int) commandVerdict {
	said, all := commandVerdict{layer: layer}, commandVerdict{layer: layer}
	depth := -1
	for i := range l.own {
		r := &l.own[i]
		if r.action != event.ActionNone && r.depth < depth {
			continue
		}
		name, ok := id.Match(r.rule, places)
		if !ok {
			continue
		}
		if r.action == event.ActionNone {
			v := l.classVerdict(r.rule.Class, name, r.rule.Reason, layer)
			v.pos, v.own = r.pos, true
			all.meet(v)
			continue
		}
		v := commandVerdict{action: r.action, name: name, reason: r.rule.Reason, pos: r.pos, layer: layer, own: true, exact: r.rule.Exact != nil}
		switch {
		case r.depth > depth, v.exact && !said.exact:
			said, depth = v, r.depth
		case v.exact == said.exact:
			said.meet(v)
		}
	}
	if depth >= 0 {
		return said
	}
	for _, m := range matched {
		all.meet(l.classVerdict(m.rule.Class, m.name, m.rule.Reason, layer))
	}
	return all
}

// decideCommand judges what an exec means. A decision that allows names a rule
// only where somebody may want to find the command again.
func (p *Policy) decideCommand(req *event.Request, at surroundings) event.Decision {
	var worst commandVerdict
	for _, v := range p.judgeCommand(req, at) {
		worst.meet(v)
	}
	d := event.Decision{Action: event.ActionAllow, By: p.by}
	if worst.name == "" {
		return d
	}
	if worst.class != command.Interpreter || worst.action > event.ActionAllow {
		d.Rule = worst.label()
	}
	d.Risk = worst.class.String()
	if worst.action <= event.ActionAllow || p.recordOnly {
		return d
	}
	d.Action, d.Reason = worst.action, worst.reason
	if d.Reason == "" {
		d.Reason = fmt.Sprintf("%s by profile %s", map[event.Action]string{event.ActionAsk: "asked for", event.ActionDeny: "denied"}[worst.action], p.commands[worst.layer].name)
	}
	d.Errno = int32(syscall.EACCES)
	return d
}

// explainCommand is what each layer says of an exec's meaning.
func (p *Policy) explainCommand(req *event.Request) []LayerVerdict {
	var out []LayerVerdict
	for _, v := range p.judgeCommand(req, surroundings{}) {
		if v.name == "" {
			continue
		}
		l := p.commands[v.layer]
		lv := LayerVerdict{
			Path: strings.Join(req.Argv, " "), Layer: fmt.Sprintf("profile %s (%s) commands", l.name, l.origin),
			Rule: v.label(), Word: v.action.String(), Pos: v.pos, Action: v.action, Note: v.reason,
		}
		if p.recordOnly {
			lv.Action = event.ActionAllow
		}
		out = append(out, lv)
	}
	return out
}

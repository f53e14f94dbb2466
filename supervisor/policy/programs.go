package policy

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// applet is a rule about a program that is one of many in a file: what a rule
// names is a link to that file, and the file itself must run for others.
type applet struct {
	path, name string // of the file, and what it is called as
	action     event.Action
	text       string
	pos        Pos
	layer      layer
}

// placePrograms places rules about programs. One that names a symbolic link is
// about where it leads, besides.
func (p *Policy) placePrograms(pl *placer, list []pathRule, in layer) []rule {
	var out []rule
	for _, pr := range list {
		for _, r := range pl.place(pr) {
			out = append(out, r)
			literals, ok := expandBraces(r.glob)
			if !ok || r.special != "" {
				continue
			}
			for _, path := range literals {
				out = append(out, p.followed(r, path, in)...)
			}
		}
	}
	return out
}

// followed is the rule about where a path leads.
func (p *Policy) followed(r rule, path string, in layer) []rule {
	to := p.host.follow(path)
	if to == "" || to == path {
		return nil
	}
	if p.tables.commands.Multicall(last(to)) && !p.tables.commands.Multicall(last(path)) {
		p.applets = append(p.applets, applet{path: to, name: p.tables.commands.Canonical(last(path)), action: r.action, text: r.text, pos: r.pos, layer: in})
		return nil
	}
	r.glob, r.link = quote(to), true
	r.rank-- // what is written about that very path counts more
	return []rule{r}
}

// judgeApplets adds what rules about single programs of many say to what the
// layers say of the command.
func (p *Policy) judgeApplets(call *command.Call, ids []command.Identity, out []commandVerdict) {
	for _, a := range p.applets {
		if call.Program != a.path && !slices.Contains(call.Alike, a.path) {
			continue
		}
		is := func(id command.Identity) bool { return id.Applet && id.Name == a.name }
		if a.action > event.ActionAllow && slices.ContainsFunc(ids, is) {
			for i := range out {
				if "profile "+p.commands[i].name == a.layer.name && p.commands[i].origin == a.layer.origin {
					out[i].meet(commandVerdict{action: a.action, program: true, name: a.text, pos: a.pos, layer: i, own: true})
				}
			}
		}
	}
}

// judgeAlike judges an exec as that of the programs that the file is the same as.
func (p *Policy) judgeAlike(req *event.Request, t *target) event.Decision {
	d := event.Decision{Action: event.ActionAllow, By: p.by}
	if p.tables.commands.Multicall(last(req.Object.Path)) {
		return d // its names are judged as applets
	}
	for _, path := range req.Alike {
		twin := *t
		twin.path, twin.ownProc = path, false
		if p.program.verdicts[p.program.accept(&twin)].exec <= event.ActionAllow || p.tables.commands.Multicall(last(path)) {
			continue
		}
		if r := p.refuse(&twin); r.Action > d.Action {
			d = r
			d.Errno = int32(syscall.EACCES)
			d.Reason = fmt.Sprintf("it is the same program as %s: %s", path, r.Reason)
		}
	}
	return d
}

// KnownProgram reports whether rules may be about a program of that file name, so
// that a copy of it matters.
func (p *Policy) KnownProgram(name string) bool { return p.tables.commands.Known(name) }

// NamedPrograms are the programs that rules keep from running by their paths.
func (p *Policy) NamedPrograms() []string {
	var out []string
	for i := range p.program.rules {
		r := &p.program.rules[i]
		if r.action <= event.ActionAllow {
			continue
		}
		if literals, ok := expandBraces(r.glob); ok {
			out = append(out, literals...)
		}
	}
	return topmost(out)
}

// Loads is the place in argv of a program that the program at path runs in its own
// process, as a dynamic loader does; 0 if there is none.
func (p *Policy) Loads(path string, argv []string) int {
	i, _ := p.tables.commands.Loader(last(path), argv)
	return i
}

// Words reports whether the words of an exec may decide about it: whether there
// are rules about what the program is told.
func (p *Policy) Words(req *event.Request) bool {
	if p.recordOnly || !p.judgesWords() {
		return false
	}
	if p.Loads(req.Object.Path, req.Argv) > 0 || p.ownProgram(req) {
		return true
	}
	return slices.ContainsFunc(append([]string{req.Object.Path, req.Object.Raw}, req.Alike...), func(path string) bool { return p.KnownProgram(last(path)) })
}

// ownProgram reports whether a profile has a rule about the program.
func (p *Policy) ownProgram(req *event.Request) bool {
	for _, l := range p.commands {
		for _, r := range l.own {
			for _, name := range r.rule.Programs {
				if name == last(req.Object.Path) || name == last(req.Object.Raw) || strings.HasSuffix(name, "*") {
					return true
				}
			}
		}
	}
	return false
}

// Internal reports whether a program does by others what it was told, so that
// rules look at its own words: git.
func (p *Policy) Internal(path string) bool { return p.tables.commands.Internal(last(path)) }

// checkApplets says what rules that name a link to many programs are about.
func (p *Policy) checkApplets() []Finding {
	var out []Finding
	for _, a := range p.applets {
		if a.layer.origin != BuiltIn {
			out = append(out, Finding{Note, a.pos, a.text, fmt.Sprintf(
				"is %s of %s, which is many programs: judged by what it is called as, which only the gate sees", a.name, strings.TrimSpace(a.path))})
		}
	}
	return out
}

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// Policy is the policy of one session. It does not change: all methods may be
// called by any number of goroutines at once.
type Policy struct {
	name   string
	by     string // "policy:<name>", as decisions say it
	host   Host
	tables *tables
	stack  []stacked // base first

	// fence holds the layers of reeve's own files and of places of secrets,
	// secrets that of files that are secret anywhere, guard that of protected
	// configuration, files, program and always the profiles' tables. Together
	// they are the planes that every path is judged by. sockets is asked for unix
	// sockets besides.
	fence, secrets, guard, files, program, always, sockets ruleSet
	planes                                                 []*ruleSet
	// handling is Lower's table, made when an explanation first needs it, and
	// execGround what ExecGround gives; their results are not to be changed.
	handling   func() gate.Table
	execGround func() (ground, holes []string)

	recordOnly, memory, anySignal bool
	kernel                        []string
	net                           []netLayer
	limits                        []*Limits
	approvals                     []*Approval
	commands                      []commandLayer
	applets                       []applet
	places                        command.Places
	temporary                     []string  // directories for temporary files
	notes                         []Finding // found while loading
}

// stacked is a profile of the policy with where it comes from.
type stacked struct {
	*profile
	origin Layer
	// closed profiles deny what they do not name.
	closed bool
}

// Load makes the policy of a session from policy files and the name of a
// profile; without a name the files' default_permissions choose, the session's
// before the user's before the envelope's, and else it is [DefaultProfile]. What an
// envelope names is chosen only if it extends a built-in profile: one that does not
// speaks only of what it names, and nothing could run under it.
//
// The named profile is the ground. Of every other source the profile of that
// name, or the one its default_permissions names, narrows it: across layers the
// stricter wins. A user's default does not narrow a profile that was named.
// Errors in files are [Faults].
func Load(sources []Source, profile string, host Host) (*Policy, error) {
	return LoadCached(sources, profile, host, nil)
}

// LoadCached is [Load] with a cache for the compiled automata, which may be nil.
func LoadCached(sources []Source, profile string, host Host, cache Cache) (*Policy, error) {
	if err := host.validate(); err != nil {
		return nil, err
	}
	t, err := embedded()
	if err != nil {
		return nil, err
	}
	var faults faultList
	files := make([]*file, len(sources))
	for i, src := range sources {
		files[i] = parseFile(src, &faults)
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	p := &Policy{host: host, tables: t}
	p.choose(files, profile, &faults)
	if err := faults.err(); err != nil {
		return nil, err
	}
	p.by = "policy:" + p.name
	if err := p.assemble(cache); err != nil {
		return nil, err
	}
	p.execGround = sync.OnceValues(p.findExecGround)
	p.handling = sync.OnceValue(func() gate.Table {
		plan, err := p.Lower()
		if err != nil {
			return gate.Table{}
		}
		return plan.Handling
	})
	return p, nil
}

// choose finds the name of the profile and stacks the profiles that apply.
func (p *Policy) choose(files []*file, named string, faults *faultList) {
	p.name = named
	byAuthority := []Layer{Session, User, Envelope}
	for _, l := range byAuthority {
		for _, f := range files {
			if p.name == "" && f.source.Layer == l && (l != Envelope || p.runsUnder(f)) {
				p.name = f.def
			}
		}
	}
	if p.name == "" {
		p.name = DefaultProfile
	}
	based := false
	for _, f := range files {
		if f.limits != nil {
			p.limits = append(p.limits, f.limits)
		}
		if f.approval != nil {
			p.approvals = append(p.approvals, f.approval)
		}
		for _, own := range p.contributions(f, named != "", faults) {
			own = resolve(own, f, p.tables, faults)
			base := own.name == p.name && p.canBase(own, f.source.Layer)
			based = based || base
			closed := base || own.grounded || f.source.Layer == User || f.source.Layer == Session
			p.stack = append(p.stack, stacked{own, f.source.Layer, closed})
		}
	}
	if !based {
		p.ground(files, faults)
	}
	if n := len(p.stack); n > maxStack {
		faults.add(Pos{}, "", "%d profiles lie over one another, more than %d", n, maxStack)
	}
}

// maxStack is the number of profiles that fit over the built-in layers.
const maxStack = automaton.MaxLayers

// contributions are the profiles that a source lays over the others.
func (p *Policy) contributions(f *file, named bool, faults *faultList) []*profile {
	if f.source.Layer == Envelope {
		return p.held(f, faults)
	}
	if own := f.profiles[p.name]; own != nil {
		return []*profile{own}
	}
	if f.def == "" || f.def == p.name || named && (f.source.Layer == User || f.source.Layer == Session) {
		return nil
	}
	if own := p.byDefault(f, faults); own != nil {
		return []*profile{own}
	}
	return nil
}

// byDefault is the profile that a file's default_permissions names: one of the
// file's or a built-in one.
func (p *Policy) byDefault(f *file, faults *faultList) *profile {
	if own := f.profiles[f.def]; own != nil {
		return own
	}
	if own := p.tables.profiles[f.def]; own != nil {
		built := *own
		built.grounded = true
		return &built
	}
	faults.add(f.defPos, expected(f.def, append(slices.Clone(f.order), builtInNames...)), "default_permissions names %q, which is not there", f.def)
	return nil
}

// canBase reports whether a session can run under a profile of a layer, which
// then denies all that it does not name. A workspace's own only narrows, and so
// does an envelope's that extends no built-in one.
func (p *Policy) canBase(own *profile, l Layer) bool {
	return l != Project && (l != Envelope || own.grounded)
}

// ground puts the built-in profile below the stack when no file has the named
// one. A profile that can only narrow narrows the default.
func (p *Policy) ground(files []*file, faults *faultList) {
	base := p.tables.profiles[p.name]
	known := slices.Clone(builtInNames)
	for _, f := range files {
		known = append(known, f.order...)
		if base == nil && f.profiles[p.name] != nil {
			base = p.tables.profiles[DefaultProfile]
		}
	}
	if base == nil {
		pos := Pos{}
		for _, f := range files {
			if f.def == p.name {
				pos = f.defPos
			}
		}
		faults.add(pos, expected(p.name, known), "there is no profile %q", p.name)
		return
	}
	base = resolve(base, &file{}, p.tables, faults)
	p.stack = append([]stacked{{base, BuiltIn, true}}, p.stack...)
}

// everyNeed is all that a path can be needed for.
const everyNeed = event.AccessRead | event.AccessWrite | event.AccessExec

// assemble builds the layers of rules and compiles them.
func (p *Policy) assemble(cache Cache) error {
	pl := &placer{host: &p.host, tables: p.tables, homes: p.opensHomes()}
	p.fence.add(layer{name: "reeve's own files", origin: BuiltIn}, pl.self())
	p.guardBuiltIns(pl)
	p.fence.need, p.secrets.need, p.guard.need, p.files.need = everyNeed, everyNeed, event.AccessWrite, everyNeed
	p.program.need, p.always.need = event.AccessRead|event.AccessExec, everyNeed
	p.planes = []*ruleSet{&p.fence, &p.secrets, &p.guard, &p.files, &p.program, &p.always}
	for _, s := range p.stack {
		named := layer{name: "profile " + s.name, origin: s.origin}
		program, socket := named, named
		program.profile, socket.profile = true, true
		named.closed, named.profile = s.closed, true
		p.files.add(named, placeAll(pl, s.files))
		p.program.add(program, p.placePrograms(pl, s.programs, program))
		if s.network != nil {
			p.sockets.add(socket, placeAll(pl, s.network.sockets))
		} else {
			p.sockets.add(socket, nil)
		}
	}
	p.addAlways(pl)
	p.fillReasons()
	p.combinePlanes()
	p.temporary = p.temporaryDirs()
	p.combineCommands()
	for _, set := range append(p.planes, &p.sockets) {
		set.temp = newTempAlias(p.host.Tmp)
		if err := set.compile(cache); err != nil {
			return locate(set, err)
		}
	}
	return nil
}

// opensHomes reports whether a pattern reaches into the homes of other users.
func (p *Policy) opensHomes() bool {
	for _, s := range p.stack {
		for _, r := range s.files {
			prefix := literalPrefix(r.pattern)
			if r.base == "" && strings.HasPrefix(r.pattern, "/") && (isBelow("/home", prefix) || isBelow("/root", prefix)) {
				return true
			}
		}
	}
	return false
}

// unless drops a built-in layer of which everything was exempted.
func unless(rules []rule) []rule {
	for _, r := range rules {
		if r.glob == "/" && r.word == wordPass && r.rank >= exemptRank {
			return nil
		}
	}
	return rules
}

func placeAll(pl *placer, list []pathRule) []rule {
	var out []rule
	for _, pr := range list {
		out = append(out, pl.place(pr)...)
	}
	return out
}

// locate says at which line of which file a pattern cannot be compiled.
func locate(set *ruleSet, err error) error {
	var glob *automaton.GlobError
	if errors.As(err, &glob) && glob.Rule >= 0 && glob.Rule < len(set.rules) {
		r := &set.rules[glob.Rule]
		return Faults{{Pos: r.pos, Found: fmt.Sprintf("pattern %q: %s", r.text, glob.Msg)}}
	}
	most, counts := 0, make([]int, len(set.layers))
	for i := range set.rules {
		at := set.rules[i].layer
		if counts[at]++; counts[at] > counts[most] {
			most = at
		}
	}
	return fmt.Errorf("compile policy, most patterns of which are in %s: %w", set.layers[most].describe(), err)
}

// Name is the name of the profile that the session runs under.
func (p *Policy) Name() string { return p.name }

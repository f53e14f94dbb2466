package policy

import (
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Operations of agentsh that look at files, and those that change them. The first
// of each that a rule is about decides.
var (
	agentshReads  = []string{"read", "open", "stat", "list", "readlink", "readdir", "access"}
	agentshWrites = []string{"write", "create", "mkdir", "chmod", "chown", "rename", "delete", "rmdir", "symlink", "link", "truncate", "utime", "setxattr"}
)

// agentshFile is one pattern of one rule.
type agentshFile struct {
	at     importSpot
	action event.Action
	ops    []string // empty is all
	rule   int
	said
	what string
}

func (f *agentshFile) about(op string) bool {
	return len(f.ops) == 0 || slices.Contains(f.ops, "*") || slices.Contains(f.ops, op)
}

// agentshFiles translates the rules about files. Every pattern gets the word that
// the first rules that cover it give; where an earlier rule is less specific than
// a later one, it holds always.
func (im *importer) agentshFiles(list []*reading) {
	var all []agentshFile
	for i, r := range list {
		rule := im.agentshRule(r)
		var ops []string
		for _, s := range r.texts("operations") {
			op := strings.ToLower(s.text)
			if op != "*" && !slices.Contains(agentshReads, op) && !slices.Contains(agentshWrites, op) {
				im.say(worse(rule.action), s.pos, rule.what+" "+s.text, "is not a known operation%s", instead(rule.action))
			}
			ops = append(ops, op)
		}
		if writes := slices.ContainsFunc(ops, func(op string) bool { return slices.Contains(agentshWrites, op) }); rule.action == event.ActionAllow && writes && !slices.Contains(ops, "*") {
			im.say(FidelityOpen, r.t.pos, rule.what, "changes that none of its operations names, such as making links and changing owners, are allowed with writing")
		}
		for _, s := range r.texts("paths") {
			if at, ok := im.agentshPath(s, rule.what+" "+s.text); ok {
				all = append(all, agentshFile{at, rule.action, ops, i, s, rule.what + " " + s.text})
			} else if rule.action != event.ActionAllow {
				im.say(FidelityOpen, s.pos, rule.what+" "+s.text, "is left out")
			}
		}
		r.rest()
	}
	const most = 200
	if len(all) > most {
		im.faults.add(Pos{File: im.src.Name}, "split the policy", "the rules about files have %d patterns, more than %d", len(all), most)
		return
	}
	for i := range all {
		im.agentshPlace(all, i)
	}
}

// agentshPlace gives one pattern its word, where it is first met, and, since there
// a pattern is not about what is below, the word of what is.
func (im *importer) agentshPlace(all []agentshFile, i int) {
	f := &all[i]
	if slices.ContainsFunc(all[:i], func(was agentshFile) bool { return was.at == f.at }) {
		return
	}
	w, mixed := im.agentshWord(all, f.at)
	below := f.at
	if below.pattern = strings.TrimSuffix(f.at.pattern, "/") + "/**"; f.at.pattern == "." {
		below.pattern = "**"
	}
	switch {
	case f.at.pattern == "/**" && w == wordDeny:
		return // what no rule names is denied anyway
	case strings.HasSuffix(f.at.pattern, "**"):
	default:
		if under, _ := im.agentshWord(all, below); under < w {
			put(&im.files, below.rule(under, f.pos, f.what))
			im.agentshHold(all, below)
		}
	}
	if mixed {
		im.say(FidelityStricter, f.pos, f.what, "not every operation can be allowed or denied by itself here: the path gets the strictest that is said of one of them, %s", w)
	}
	put(&im.files, f.at.rule(w, f.pos, f.what))
	im.agentshHold(all, f.at)
}

// agentshHold makes earlier denials and questions hold always that are less
// specific than a pattern, do not cover it as a whole, and so would lose to it.
func (im *importer) agentshHold(all []agentshFile, at importSpot) {
	for i := range all {
		earlier := &all[i]
		if earlier.action == event.ActionAllow {
			continue
		}
		later := func(o agentshFile) bool {
			return o.rule > earlier.rule && o.action < earlier.action && im.relate(o.at, at).covers
		}
		if rel := im.relate(earlier.at, at); rel.beats && !rel.covers && slices.ContainsFunc(all, later) {
			im.agentshAlways(all, earlier)
		}
	}
}

// agentshWord is what the first rules that cover a place make of it.
func (im *importer) agentshWord(all []agentshFile, at importSpot) (w word, mixed bool) {
	read, write := im.agentshFirst(all, at, agentshReads), im.agentshFirst(all, at, agentshWrites)
	return wordOf(read.action, write.action), read.mixed || write.mixed
}

// agentshAlways makes an earlier rule hold always.
func (im *importer) agentshAlways(all []agentshFile, f *agentshFile) {
	var w word
	reads, writes := slices.ContainsFunc(agentshReads, f.about), slices.ContainsFunc(agentshWrites, f.about)
	switch {
	case reads && f.action == event.ActionDeny:
		w = wordDeny
	case reads:
		w = wordAsk
	case writes && f.action == event.ActionDeny:
		w = wordRead
	case writes:
		w = wordAskWrite
	default:
		return
	}
	put(&im.always, f.at.rule(w, f.pos, f.what))
	for i := range all {
		if e := &all[i]; e.rule < f.rule && e.action < f.action && im.relate(e.at, f.at).meet {
			im.say(FidelityStricter, f.pos, f.what, "closes its files in %s too, which in agentsh an earlier rule would open", e.at)
		}
	}
}

// decided is what the first rules that cover a place say of some operations:
// together the strictest, mixed where they differ.
type decided struct {
	action event.Action
	mixed  bool
}

func (im *importer) agentshFirst(all []agentshFile, at importSpot, ops []string) decided {
	covering := slices.DeleteFunc(slices.Clone(all), func(f agentshFile) bool { return !im.relate(f.at, at).covers })
	var out decided
	for _, op := range ops {
		if op != "read" && op != "write" && op != "delete" && !slices.ContainsFunc(all, func(f agentshFile) bool { return slices.Contains(f.ops, op) }) {
			continue // named nowhere: it goes with all the others
		}
		a := event.ActionDeny
		for i := range covering {
			if covering[i].about(op) {
				a = covering[i].action
				break
			}
		}
		out.mixed = out.mixed || out.action != event.ActionNone && a != out.action
		out.action = max(out.action, a)
	}
	return out
}

// wordOf is the widest word that allows no more than two actions.
func wordOf(read, write event.Action) word {
	switch {
	case read == event.ActionDeny, read == event.ActionAsk && write == event.ActionDeny:
		return wordDeny
	case read == event.ActionAsk:
		return wordAsk
	case write == event.ActionDeny:
		return wordRead
	case write == event.ActionAsk:
		return wordAskWrite
	}
	return wordWrite
}

// agentshPath is a path of agentsh: a glob of the whole path, with variables.
func (im *importer) agentshPath(s said, what string) (importSpot, bool) {
	text := s.text
	if strings.HasPrefix(text, "@") {
		return importSpot{}, false
	}
	// A \ between slashes is no separator: it makes the next byte mean itself, as here.
	if len(text) > 1 && text[1] == ':' || strings.Contains(text, `\`) && !strings.Contains(text, "/") {
		im.say(FidelityExact, s.pos, what, "is a path of Windows")
		return importSpot{}, false
	}
	base, rest, ok := agentshVariable(text)
	if !ok {
		im.say(FidelityStricter, s.pos, what, "has a variable that is not known here")
		return importSpot{}, false
	}
	if base == "" && (rest == "/workspace" || strings.HasPrefix(rest, "/workspace/")) {
		base, rest = ":workspace_roots", strings.TrimPrefix(rest, "/workspace")
		im.say(FidelityExact, s.pos, what, "/workspace is the workspace")
	}
	var at importSpot
	switch {
	case base == "~":
		at = homeSpot(rest)
	case base != "":
		at = workspaceSpot(rest)
		at.base = base
	case rest == "**" || rest == "*" || rest == "/**":
		at = importSpot{"", "/**"}
	case strings.HasPrefix(rest, "**/"):
		at = importSpot{"", "/" + rest}
	case strings.HasPrefix(rest, "/"):
		at = resolved(rest)
	default:
		im.say(FidelityStricter, s.pos, what, "is not a path from / on, so it matches nothing")
		return at, false
	}
	if strings.Contains(at.pattern, "{") && strings.Contains(at.pattern, "/}") || im.braceSlash(at.pattern) {
		im.say(FidelityStricter, s.pos, what, "has a / between { and }, which no pattern here has: write each alternative by itself")
		return at, false
	}
	return at, im.known(at, s, what)
}

// braceSlash reports whether an alternative of a pattern holds a "/".
func (im *importer) braceSlash(p string) bool {
	depth := 0
	for i := range len(p) {
		switch p[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '/':
			if depth > 0 {
				return true
			}
		}
	}
	return false
}

// agentshVariable takes the variable at a path's beginning: base is the place
// that it stands for.
func agentshVariable(text string) (base, rest string, ok bool) {
	if !strings.HasPrefix(text, "${") {
		return "", text, !strings.Contains(text, "${")
	}
	name, rest, closed := strings.Cut(text[2:], "}")
	for strings.Count(name, "${") > strings.Count(name, "}") && closed { // ${A:-${B}}
		var more string
		more, rest, closed = strings.Cut(rest, "}")
		name += "}" + more
	}
	name, _, _ = strings.Cut(name, ":-")
	base = map[string]string{"PROJECT_ROOT": ":workspace_roots", "GIT_ROOT": ":workspace_roots", "WORKSPACE": ":workspace_roots", "HOME": "~", "TMPDIR": ":session_tmp"}[name]
	return base, rest, closed && base != "" && !strings.Contains(rest, "${") && (rest == "" || strings.HasPrefix(rest, "/"))
}

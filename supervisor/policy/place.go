package policy

import (
	"path"
	"slices"
	"strings"
)

// placer turns patterns as they are written into absolute globs on a host.
type placer struct {
	host   *Host
	tables *tables
	// homes is set when the profile opens the homes of other users.
	homes bool
	// given are hidden names at the top of the home directory that profiles name.
	given []string
}

// dirs are the directories that a special stands for; whole is false for
// specials that are more than directories.
func (p *placer) dirs(special string) (dirs []string, whole bool) {
	h := p.host
	switch special {
	case ":workspace_roots":
		return h.Workspaces, true
	case ":home":
		return one(h.Home), true
	case ":session_tmp":
		return append(one(h.Tmp), one(h.Cache)...), true
	case ":tmp":
		return append(append(one(h.Tmp), one(h.Cache)...), p.tables.grounds[special].write...), true
	}
	return nil, false
}

// place expands one written rule. layerRank separates explicit patterns from
// what specials stand for.
func (p *placer) place(pr pathRule) []rule {
	base := rule{text: pr.pattern, pos: pr.pos, below: pr.word != wordList, word: pr.word, action: pr.action, rank: 4 * pr.depth}
	switch {
	case pr.base != "":
		dirs, _ := p.dirs(pr.base)
		out := make([]rule, 0, len(dirs))
		for _, d := range dirs {
			r := base
			r.glob, r.special = join(d, pr.pattern), ""
			r.rank += 2
			out = append(out, r)
		}
		return out
	case strings.HasPrefix(pr.pattern, ":"):
		return p.special(pr, base)
	}
	glob, ok := p.absolute(pr.pattern)
	if !ok {
		return nil
	}
	base.glob = glob
	base.rank += 2
	return []rule{base}
}

// absolute expands ~/ and cleans the end of an absolute pattern. ok is false
// when there is no home.
func (p *placer) absolute(pattern string) (glob string, ok bool) {
	if strings.HasPrefix(pattern, "~") {
		if p.host.Home == "" {
			return "", false
		}
		return join(p.host.Home, strings.TrimPrefix(strings.TrimPrefix(pattern, "~"), "/")), true
	}
	if trimmed := strings.TrimRight(pattern, "/"); trimmed != "" {
		return trimmed, true
	}
	return "/", true
}

// special expands ":name" = word.
func (p *placer) special(pr pathRule, base rule) []rule {
	base.special = pr.pattern
	var out []rule
	add := func(w word, patterns ...string) {
		for _, pattern := range patterns {
			if glob, ok := p.absolute(pattern); ok {
				r := base
				r.text, r.glob, r.word, r.below = pattern, glob, w, w != wordList
				out = append(out, r)
			}
		}
	}
	if dirs, whole := p.dirs(pr.pattern); whole {
		for _, d := range dirs {
			add(pr.word, quote(d))
		}
		return out
	}
	granted := func(own word) word {
		if pr.word == wordRead {
			return own
		}
		return pr.word
	}
	g := p.tables.grounds[pr.pattern]
	add(pr.word, g.read...)
	add(granted(wordWrite), g.write...)
	add(granted(wordList), g.list...)
	switch pr.pattern {
	case ":toolchains":
		for _, dir := range p.host.PathDirs {
			for _, d := range p.tables.toolchains.ground(dir, p.host.Home) {
				add(pr.word, quote(d))
			}
		}
		if p.apart(p.host.Reeve) {
			add(pr.word, quote(p.host.Reeve))
		}
	case ":caches":
		for _, d := range p.cacheGround() {
			add(pr.word, d)
		}
	case ":system":
		for _, d := range p.host.Listable {
			add(granted(wordList), quote(d))
		}
	}
	return out
}

// apart reports whether a path stands where a rule that lets it be read takes nothing
// from the session: not in the places where that commonly writes.
func (p *placer) apart(path string) bool {
	return path != "" && !p.inWorkspace(path) && !isBelowAny(path, p.sharedTmp())
}

// cacheGround are the patterns of the host's tool caches.
func (p *placer) cacheGround() []string {
	var out []string
	for _, c := range p.tables.caches {
		out = append(out, c.read...)
	}
	for _, d := range p.host.CacheDirs {
		// A build cache that a person has put where sessions write is theirs, too.
		if !isBelow(p.host.Home, d) && (d != p.host.GoCache || p.apart(d)) {
			out = append(out, quote(d))
		}
	}
	return out
}

// self are the rules of the layer that keeps reeve's own files closed.
func (p *placer) self() []rule {
	h := p.host
	const own, private = "reeve's own state", "another session's temporary directory"
	const pinned = "/sys/fs/bpf/reeve" // what holds sessions, see tracer.EndSurvivors
	var out []rule
	deny := func(glob, reason string, below bool) {
		out = append(out, rule{text: glob, glob: glob, below: below, word: wordDeny, reason: reason})
	}
	for _, d := range append(append(one(h.StateDir), h.Own...), "/etc/reeve", pinned) {
		deny(quote(d), own, true)
	}
	if h.Home != "" {
		deny(join(h.Home, ".config/reeve"), own, true)
	}
	for _, f := range h.ConfigFiles {
		switch {
		case !p.inWorkspace(f):
			deny(quote(f), own, true)
		case !strings.HasPrefix(path.Base(f), ".reeve") || !slices.Contains(h.Workspaces, path.Dir(f)):
			// Else it is protected configuration, which can be excepted.
			out = append(out, rule{text: f, glob: quote(f), word: wordRead, reason: "a policy file of this session"})
		}
	}
	if dir, name := path.Split(h.Tmp); strings.HasPrefix(name, tempPrefix) {
		deny(join(path.Clean(dir), tempPrefix+"*"), private, true)
	}
	out = append(out, p.otherTemps(private)...)
	// Resolved paths never lead through these; what does was not resolved.
	for _, link := range []string{"cwd", "root"} {
		deny("/proc/self/"+link+"/**", "a path that was not resolved", false)
		deny("/proc/self/task/*/"+link+"/**", "a path that was not resolved", false)
	}
	for _, d := range append(append(one(h.Tmp), one(h.Cache)...), h.Workspaces...) {
		if d != h.StateDir {
			out = append(out, rule{text: d, glob: quote(d), below: true, word: wordPass, rank: -1})
		}
	}
	return append(out, passes(noGuard))
}

// tempPattern is what sessions call their temporary directories: a ULID, whose
// first digits are those of the time until the year 3000.
var tempPattern = tempPrefix + "01" + strings.Repeat("?", 24)

// otherTemps deny the temporary directories of sessions that were started with
// another TMPDIR below the shared directories. The rules count for less than those of
// the session's own directories, which have longer names, so each of the workspaces
// there needs one besides; what a session within this one makes in its directory is
// left to it, and so is this one's place in another's.
func (p *placer) otherTemps(reason string) []rule {
	shared := p.sharedTmp()
	dirs := shared[:len(shared):len(shared)]
	var out []rule
	for _, s := range shared {
		for _, ws := range p.host.Workspaces {
			if isBelow(ws, s) {
				dirs = append(dirs, ws)
			}
		}
		for d := path.Dir(p.host.Tmp); p.host.Tmp != "" && d != s && isBelow(d, s); d = path.Dir(d) {
			if strings.HasPrefix(path.Base(d), tempPrefix) {
				out = append(out, rule{text: d, glob: quote(d), below: true, word: wordPass, rank: -1})
			}
		}
	}
	for _, d := range dirs {
		glob := join(d, "**/"+tempPattern)
		out = append(out, rule{text: glob, glob: glob, below: true, word: wordDeny, reason: reason})
	}
	return out
}

// passes is the rule that makes a built-in layer say nothing about all else. It
// keeps the automaton small: to it, "nothing matches" and "pass" are two things.
func passes(g guard) rule {
	return rule{text: "/", glob: "/", below: true, word: wordPass, guard: g, rank: -2}
}

func (p *placer) inWorkspace(file string) bool {
	for _, ws := range p.host.Workspaces {
		if isBelow(file, ws) {
			return true
		}
	}
	return false
}

// secrets are the rules of the layers of secret files: those of places, and
// those that hold anywhere.
func (p *placer) secrets(exempt []pathRule) (places, anywhere []rule) {
	add := func(base rule, patterns ...string) {
		for _, pattern := range patterns {
			for _, glob := range p.everyHome(pattern) {
				r := base
				r.text, r.glob, r.guard, r.pos = pattern, glob, guardSecret, Pos{File: "built-in secrets"}
				if strings.HasPrefix(pattern, "/**/") {
					anywhere = append(anywhere, r)
				} else {
					places = append(places, r)
				}
			}
		}
	}
	for _, g := range p.tables.secrets {
		add(rule{word: wordDeny, reason: g.reason, born: bornFile, below: true}, g.deny...)
		add(rule{word: wordDeny, reason: g.reason, born: bornFile}, g.files...)
		add(rule{word: wordPass, below: true}, g.pass...)
		add(rule{word: wordPass}, g.passFiles...)
	}
	anywhere = append(anywhere, p.packages()...)
	excepted := p.exempt(exempt, guardSecret)
	places = append(append(places, passes(guardSecret)), excepted...)
	return places, append(append(anywhere, passes(guardSecret)), excepted...)
}

// everyHome expands a pattern of the data; where the profile opens other users'
// homes too, one below ~ holds there as well.
func (p *placer) everyHome(pattern string) []string {
	var out []string
	if glob, ok := p.absolute(pattern); ok {
		out = append(out, glob)
	}
	if rest, below := strings.CutPrefix(pattern, "~/"); below && p.homes {
		out = append(out, "/home/*/"+rest, "/root/"+rest)
	}
	return out
}

// packages are the places where nothing is secret whatever it is called: what
// comes from packages, and what the session itself puts into its own directories.
func (p *placer) packages() []rule {
	var out []rule
	patterns := append(p.tables.packages[:len(p.tables.packages):len(p.tables.packages)], p.cacheGround()...)
	for _, d := range append(one(p.host.Tmp), one(p.host.Cache)...) {
		patterns = append(patterns, quote(d))
	}
	for _, pattern := range patterns {
		if glob, ok := p.absolute(pattern); ok {
			out = append(out, rule{text: pattern, glob: glob, below: true, word: wordPass, guard: guardSecret})
		}
	}
	return out
}

// exemptRank puts exceptions over the built-in rules of the same pattern.
const exemptRank = 1 << 20

// exempt are a person's exceptions from a built-in layer.
func (p *placer) exempt(list []pathRule, g guard) []rule {
	var out []rule
	for _, pr := range list {
		for _, r := range p.place(pr) {
			r.guard = g
			if r.rank += exemptRank; r.word == wordWrite {
				r.word = wordPass
			}
			out = append(out, r)
		}
	}
	return out
}

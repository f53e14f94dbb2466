package policy

import (
	"slices"
	"strings"
)

// protected are the rules of the layer of protected configuration.
func (p *placer) protected(exempt []pathRule) []rule {
	var out []rule
	for _, g := range p.tables.protected {
		base := rule{below: true, word: g.word, reason: g.reason, guard: guardConfig, born: g.born, pos: Pos{File: "built-in protected"}}
		add := func(dirs []string, prefix string, patterns []string, r rule) {
			for _, d := range dirs {
				for _, pattern := range patterns {
					r.text, r.glob = unbracketed.Replace(pattern), join(d, prefix+pattern)
					out = append(out, r)
				}
			}
		}
		ws := p.host.Workspaces
		git := p.host.GitDirs
		if g.tmp {
			ws = append(ws[:len(ws):len(ws)], p.sharedTmp()...)
		}
		add(ws, "**/", g.any, base)
		add(git, "", inGitDir(g.any), base)
		add(append(p.host.Workspaces[:len(p.host.Workspaces):len(p.host.Workspaces)], p.host.Repositories...), "", g.root, base)
		add(git, "", inGitDir(g.root), base)
		pass := rule{below: true, word: wordPass, pos: base.pos}
		add(ws, "**/", g.pass, pass)
		add(git, "", inGitDir(g.pass), pass)
		base.below = false
		add(p.sharedTmp(), "", g.tmpRoot, base)
		add(ws, "**/", g.exact, base)
		add(git, "", inGitDir(g.exact), base)
		base.guard = guardLink
		add(ws, "**/", g.links, base)
		add(git, "", inGitDir(g.links), base)
	}
	out = append(out, p.protectedHome()...)
	for _, d := range p.host.Protected {
		out = append(out, rule{
			text: d, glob: quote(d), below: true, word: wordAsk, guard: guardConfig, reason: "protected configuration: a program of the host runs or obeys it",
		})
	}
	for _, d := range append(one(p.host.Tmp), one(p.host.Cache)...) {
		out = append(out, rule{text: d, glob: quote(d), below: true, word: wordPass})
	}
	return append(append(out, passes(noGuard)), p.exempt(exempt, noGuard)...)
}

// unbracketed is a pattern without what only makes it less specific.
var unbracketed = strings.NewReplacer("[o]", "o", "[c]", "c", "[k]", "k")

// protectedHome are the rules about what stands below the home directory, for
// sessions that may write there. A workspace in such a place is what the session is
// about, so it stays one.
func (p *placer) protectedHome() []rule {
	var out []rule
	for _, g := range p.tables.protected {
		add := func(text, pattern string, r rule) {
			for _, glob := range p.everyHome("~/" + pattern) {
				r.text, r.glob, r.below, r.rank, r.pos = "~/"+text, glob, true, -2, Pos{File: "built-in protected"}
				out = append(out, r)
			}
		}
		guarded := rule{word: g.word, reason: g.reason, guard: guardConfig, born: g.born}
		for _, pattern := range g.home {
			add(pattern, pattern, guarded)
		}
		for _, pattern := range g.rest {
			add(pattern, loosely(pattern, 0), guarded)
		}
		if len(g.rest) == 0 {
			continue
		}
		for _, pattern := range append(g.but[:len(g.but):len(g.but)], p.given...) { // which is more than rest, and less than anything else
			add(pattern, loosely(pattern, 1), rule{word: wordPass})
		}
	}
	for _, ws := range p.host.Workspaces {
		out = append(out, rule{text: ws, glob: quote(ws), below: true, word: wordPass, rank: -1})
	}
	return out
}

// givenNames are the hidden names at the top of the home directory that the user's or
// the session's profile lets the session write to, or below, by name. Under an
// envelope that is an exception, which has to be made as one.
func (p *Policy) givenNames() []string {
	var out []string
	for _, s := range p.stack {
		switch s.origin {
		case Envelope:
			return nil
		case Project, BuiltIn:
			continue
		}
		for _, r := range s.files {
			rest, below := r.pattern, r.base == ":home"
			for _, home := range []string{"~/", p.host.Home + "/"} {
				if cut, ok := strings.CutPrefix(rest, home); ok && r.base == "" {
					rest, below = cut, true
				}
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(rest, "./"), "/")
			hidden := len(name) > 1 && name[0] == '.' && name != ".." && !strings.ContainsAny(name, `*?[]{}\`)
			if r.word == wordWrite && below && hidden {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// loosely is a pattern as one with at most so many literal bytes, at its end: whatever
// is written about what it matches, or about what is below that, is more specific.
func loosely(pattern string, literal int) string {
	var b strings.Builder
	literal += strings.Count(pattern, "*")
	for i, c := range []byte(pattern) {
		if c == '*' || i >= len(pattern)-literal {
			b.WriteByte(c)
		} else {
			b.WriteString("[" + string(c) + "]")
		}
	}
	return b.String()
}

// sharedTmp are the host's own directories of temporary files.
func (p *placer) sharedTmp() []string { return p.tables.grounds[":tmp"].write }

// inGitDir are those of the patterns that are about what stands in a repository's own
// directory, as they are below it.
func inGitDir(patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		for _, dir := range []string{"*.git/", ".git/"} {
			if rest, is := strings.CutPrefix(pattern, dir); is {
				out = append(out, rest)
				break
			}
		}
	}
	return out
}

package policy

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// CheckContent judges the content of a protected settings file before it is
// moved into place, where Decide has allowed the rename with GuardContent set.
// The files are git's: what is not known to be data is denied, and so is what
// cannot be parsed.
func (p *Policy) CheckContent(req *event.Request, content []byte) event.Decision {
	const what = "git settings"
	path := req.Target.Path
	if path == "" {
		path = req.Object.Path
	}
	switch last(path) {
	case ".git":
		if !p.guardedRepository(parent(path), string(content)) {
			return p.deny(syscall.EACCES, "git link", "a link to a repository whose settings nobody would judge")
		}
		return p.allow("git link")
	case "commondir":
		if strings.TrimSpace(string(content)) != "../.." {
			return p.deny(syscall.EACCES, "git link", "a work tree whose settings would be elsewhere")
		}
		return p.allow("git link")
	}
	settings, err := parseGitConfig(content)
	if err != nil {
		return p.deny(syscall.EACCES, what, "git settings that cannot be read for sure: "+err.Error())
	}
	for i := range settings {
		if why := settings[i].danger(strings.Contains(path, "/modules/")); why != "" {
			return p.deny(syscall.EACCES, settings[i].name(), fmt.Sprintf("line %d of %s: %s %s", settings[i].line, last(path), settings[i].name(), why))
		}
	}
	return p.allow(what)
}

// guardedRepository reports whether a file ".git" in a directory leads to where git's
// settings are guarded by their names: a repository called x.git, or the
// administration of a submodule or a work tree in one. Not into the session's own
// temporary directory, where they are not, unless it is in there itself.
func (p *Policy) guardedRepository(dir, content string) bool {
	to, ok := strings.CutPrefix(content, "gitdir: ")
	to = strings.TrimRight(to, "\r\n")
	if !ok || to == "" || strings.ContainsAny(to, "\x00\n") {
		return false
	}
	if !strings.HasPrefix(to, "/") {
		for strings.HasPrefix(to, "../") {
			dir, to = parent(dir), to[len("../"):]
		}
		to = join(dir, to)
	}
	for _, tmp := range append(one(p.host.Tmp), one(p.host.Cache)...) {
		if isBelow(to, tmp) && !isBelow(dir, tmp) {
			return false
		}
	}
	parts := strings.Split(strings.TrimSuffix(to, "/"), "/")
	inside := false
	for _, part := range parts[1:] {
		switch part {
		case "", ".", "..":
			return false // what it leads to depends on what links there are
		case "refs", "logs":
			if inside {
				return false // a branch may be called as settings are, so they pass there
			}
		}
		inside = inside || strings.HasSuffix(part, ".git")
	}
	n := len(parts)
	if strings.HasSuffix(parts[n-1], ".git") {
		return true
	}
	for i := 1; i < n-1; i++ {
		if parts[i] == ".git" && parts[i+1] == "modules" && i+2 < n || strings.HasSuffix(parts[i], ".git") && parts[i+1] == "worktrees" && i+3 == n {
			return true
		}
	}
	return false
}

// Reasons against a setting.
const (
	gitUnknown = "is not among the settings that a session may make; git may run what it says"
	gitValue   = "has a value that git would run, or that would open the repository to others"
	gitMoves   = "makes git work on another directory"
	gitRemote  = "has a transport that runs a program"
)

// danger says what is wrong with a setting, or "". module is set for the settings
// of a submodule, which have to say where its working directory is.
func (s *gitSetting) danger(module bool) string {
	switch words := s.words(); {
	case !s.known():
		return gitUnknown
	case s.section == "core" && s.key == "worktree":
		if !module || !strings.HasPrefix(s.value, "../") {
			return gitMoves
		}
	case words != nil && !s.implied && !slices.Contains(words, s.value):
		return gitValue
	case s.leads() && runsTransport(s.value), (s.section == "remote" || s.section == "branch") && runsTransport(s.sub):
		return gitRemote
	}
	return ""
}

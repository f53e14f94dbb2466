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
	settings, err := parseGitConfig(content)
	if err != nil {
		return p.deny(syscall.EACCES, what, "git settings that cannot be read for sure: "+err.Error())
	}
	path := req.Target.Path
	if path == "" {
		path = req.Object.Path
	}
	for i := range settings {
		if why := settings[i].danger(strings.Contains(path, "/modules/")); why != "" {
			return p.deny(syscall.EACCES, settings[i].name(), fmt.Sprintf("line %d of %s: %s %s", settings[i].line, last(path), settings[i].name(), why))
		}
	}
	return p.allow(what)
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

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/reeve-audit/reeve/tracer/event"
)

// CheckChange judges what a protected settings file would say, by what it says, where
// Decide has asked with AskContent. The file is git's and stood there before the
// session: what changes may only be what git notes by itself in ordinary work, which
// branch of which remote a branch follows (git switch, git branch). The remote has to
// be one that the settings name already.
func (p *Policy) CheckChange(req *event.Request, was, then []byte) event.Decision {
	const what = "git tracking"
	old, err := parseGitConfig(was)
	if err != nil {
		return p.deny(syscall.EACCES, what, "git settings that cannot be read for sure: "+err.Error())
	}
	settings, err := parseGitConfig(then)
	if err != nil {
		return p.deny(syscall.EACCES, what, "git settings that cannot be read for sure: "+err.Error())
	}
	if beyond := beyondTracking(old, settings); len(beyond) > 0 {
		return p.deny(syscall.EACCES, what, "changes "+namesOf(beyond)+", not only what branches follow")
	}
	d := p.allow(what)
	d.Reason = "changes only what branches follow"
	return d
}

// maxSettingsNamed is how many settings a reason names.
const maxSettingsNamed = 5

// namesOf names settings, what git might run first.
func namesOf(settings []*gitSetting) string {
	slices.SortStableFunc(settings, func(a, b *gitSetting) int {
		return cmp.Or(cmp.Compare(b.risk(), a.risk()), strings.Compare(a.name(), b.name()))
	})
	var names []string
	for _, s := range settings {
		if name := s.name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if more := len(names) - maxSettingsNamed; more > 0 {
		names = append(names[:maxSettingsNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// risk is 1 of a setting that a session may not even give its own repositories.
func (s *gitSetting) risk() int {
	if s.danger(false) != "" {
		return 1
	}
	return 0
}

// ofBranch reports whether a setting is about one branch.
func (s *gitSetting) ofBranch() bool { return s.section == "branch" && (s.quoted || s.sub != "") }

// plain is the setting wherever it stands.
func (s *gitSetting) plain() gitSetting {
	out := *s
	out.line = 0
	return out
}

// gitConfigParts are the settings of a file: those of each branch, and all others in
// their order, which counts.
type gitConfigParts struct {
	branches map[string][]gitSetting
	others   []gitSetting
}

func partsOf(settings []gitSetting) gitConfigParts {
	p := gitConfigParts{branches: map[string][]gitSetting{}}
	for _, s := range settings {
		if s.ofBranch() {
			p.branches[s.sub] = append(p.branches[s.sub], s)
		} else {
			p.others = append(p.others, s)
		}
	}
	return p
}

// beyondTracking finds the settings whose change is more than what git notes of the
// branches it makes, renames and removes.
func beyondTracking(old, settings []gitSetting) []*gitSetting {
	was, is := partsOf(old), partsOf(settings)
	beyond := differing(was.others, is.others)
	gone := was.goneIn(&is)
	remotes := remotesIn(is.others)
	for name, list := range is.branches {
		before := was.branches[name]
		if len(before) == 0 && renamed(list, gone) {
			continue
		}
		for _, s := range without(list, before) {
			if !s.follows(remotes) {
				beyond = append(beyond, s)
			}
		}
		for _, s := range without(before, list) {
			if !slices.Contains(trackingKeys, s.key) {
				beyond = append(beyond, s)
			}
		}
	}
	return beyond
}

// differing are the settings of two lists that are in one only, or, if it is their order
// that differs, those that are not at the same place. It is nil for lists that are the same.
func differing(a, b []gitSetting) []*gitSetting {
	if out := append(without(a, b), without(b, a)...); len(out) > 0 {
		return out
	}
	var moved []*gitSetting
	for i := range a {
		if i >= len(b) || a[i].plain() != b[i].plain() {
			moved = append(moved, &a[i])
		}
	}
	for i := len(a); i < len(b); i++ {
		moved = append(moved, &b[i])
	}
	return moved
}

// without are the settings of list that are not in other.
func without(list, other []gitSetting) []*gitSetting {
	in := make(map[gitSetting]bool, len(other))
	for i := range other {
		in[other[i].plain()] = true
	}
	var out []*gitSetting
	for i := range list {
		if !in[list[i].plain()] {
			out = append(out, &list[i])
		}
	}
	return out
}

// goneIn are the settings of the branches that have none any more.
func (p *gitConfigParts) goneIn(now *gitConfigParts) [][]gitSetting {
	var out [][]gitSetting
	for name, list := range p.branches {
		if len(now.branches[name]) == 0 {
			out = append(out, list)
		}
	}
	return out
}

// renamed reports whether all settings of a branch are those of one that is gone.
func renamed(list []gitSetting, gone [][]gitSetting) bool {
	return slices.ContainsFunc(gone, func(old []gitSetting) bool {
		return slices.EqualFunc(list, old, func(a, b gitSetting) bool {
			a.sub, a.quoted = b.sub, b.quoted
			return a.plain() == b.plain()
		})
	})
}

// remotesIn are the names of the remotes that settings give an address.
func remotesIn(settings []gitSetting) map[string]bool {
	out := map[string]bool{".": true} // the repository itself
	for i := range settings {
		if s := &settings[i]; s.section == "remote" && s.key == "url" {
			out[s.sub] = true
		}
	}
	return out
}

// trackingKeys are the variables of a branch that say what it follows.
var trackingKeys = []string{"remote", "merge", "rebase"}

// follows reports whether a setting of a branch says that it follows one of a remote.
func (s *gitSetting) follows(remotes map[string]bool) bool {
	if s.implied || s.danger(false) != "" || strings.ContainsFunc(s.sub+s.value, unicode.IsControl) {
		return false
	}
	switch s.key {
	case "remote":
		return remotes[s.value]
	case "merge":
		return strings.HasPrefix(s.value, "refs/heads/")
	case "rebase":
		return slices.Contains([]string{"true", "false", "merges"}, s.value)
	}
	return false
}

package policy

import (
	"slices"
	"strings"
)

// GitLeadKind is what a setting of git leads to.
type GitLeadKind uint8

// The kinds of leads.
const (
	// GitInclude is a file of further settings, relative to that which names it.
	GitInclude GitLeadKind = iota
	// GitHooks is a directory of hooks, relative to the work tree.
	GitHooks
	// GitProgram is a word of what git runs, or obeys, which may be a file's name
	// relative to the work tree.
	GitProgram
)

// GitLead is a name in git's settings of what git runs or obeys.
type GitLead struct {
	Kind GitLeadKind
	// Name is as git has it: it may begin with "~/".
	Name string
}

// maxGitLeads is how many words of one file of settings are looked at.
const maxGitLeads = 4096

// gitData are settings that name files, and are none of those that a session may make,
// though git only reads what the files say.
var gitData = []string{"core.excludesfile", "core.attributesfile", "commit.template", "mailmap.file", "core.worktree"}

// GitLeads is what a file of git's settings leads to: every name of a file that it
// includes, on whichever condition, of a directory of hooks, and every word of a value
// that is not known to be data. The error says why git would not read the file.
func GitLeads(content []byte) ([]GitLead, error) {
	settings, err := parseGitConfig(content)
	var out []GitLead
	for i := range settings {
		s := &settings[i]
		switch name := s.section + "." + s.key; {
		case len(out) >= maxGitLeads:
			return out, err
		case s.implied || s.value == "":
		case name == "include.path" || name == "includeif.path":
			out = append(out, GitLead{GitInclude, s.value})
		case name == "core.hookspath":
			out = append(out, GitLead{GitHooks, s.value})
		case s.danger(true) != "" && !slices.Contains(gitData, name):
			out = append(out, GitLead{GitProgram, s.value})
			for _, word := range strings.FieldsFunc(s.value, endsWord) {
				if word != s.value {
					out = append(out, GitLead{GitProgram, word})
				}
			}
		}
	}
	return out, err
}

// endsWord is where a shell may end a word, roughly: one that is taken apart too
// often names nothing.
func endsWord(r rune) bool { return strings.ContainsRune(" \t\n\"'`;|&()<>=,!$", r) }

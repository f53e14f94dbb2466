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
	// ToCome says that it is a path, which counts where nothing stands yet, too.
	ToCome bool
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
			out = append(out, GitLead{Kind: GitInclude, Name: s.value})
		case name == "core.hookspath":
			out = append(out, GitLead{Kind: GitHooks, Name: s.value})
		case s.danger(true) != "" && !slices.Contains(gitData, name):
			out = append(out, programs(s.value)...)
		}
	}
	return out, err
}

// programs are the words of a value that a shell may take for the names of files, by
// whichever of them that may be: as they stand, and without quotes, with what stands for
// the work tree left out, and below the directories that the value changes to.
func programs(value string) []GitLead {
	seen := map[string]bool{}
	var out []GitLead
	add := func(name string, toCome bool) {
		if name != "" && !seen[name] {
			seen[name] = true
			out = append(out, GitLead{Kind: GitProgram, Name: name, ToCome: toCome})
		}
	}
	dirs, changes := []string{}, false
	for _, word := range strings.FieldsFunc(workTree.Replace(quotes.Replace(value)), endsBareWord) {
		path := strings.Contains(word, "/")
		add(word, path)
		if !strings.HasPrefix(word, "/") && !strings.HasPrefix(word, "~") {
			for _, dir := range dirs {
				add(dir+"/"+word, path)
			}
		}
		if changes && len(dirs) < maxDirs {
			for _, dir := range dirs[:len(dirs):len(dirs)] {
				dirs = append(dirs, dir+"/"+word)
			}
			dirs = append(dirs, word)
		}
		changes = word == "cd" || word == "pushd" || word == "-C"
	}
	add(value, false)
	for _, word := range strings.FieldsFunc(value, endsWord) {
		add(word, false)
	}
	return out
}

// maxDirs is about how many directories of one value are followed.
const maxDirs = 8

var quotes = strings.NewReplacer(`"`, "", "'", "", `\`, "")

// workTree are the ways in which a value names the root of the work tree, where git
// runs what it says, and the home directory.
var workTree = strings.NewReplacer(
	"$(git rev-parse --show-toplevel)", ".", "`git rev-parse --show-toplevel`", ".", "$(pwd)", ".", "`pwd`", ".", "$PWD", ".", "${PWD}", ".",
	"$(git rev-parse --git-dir)/..", ".", "$(git rev-parse --git-common-dir)/..", ".", "$GIT_DIR/..", ".", "${GIT_DIR}/..", ".",
	"$GIT_WORK_TREE", ".", "${GIT_WORK_TREE}", ".", "$(git rev-parse --git-dir)", ".git", "$GIT_DIR", ".git", "${GIT_DIR}", ".git",
	"$HOME", "~", "${HOME}", "~",
)

// endsWord is where a shell may end a word, roughly: one that is taken apart too
// often names nothing.
func endsWord(r rune) bool { return strings.ContainsRune(" \t\n\"'`;|&()<>=,!$", r) }

// endsBareWord is the same for a value without quotes.
func endsBareWord(r rune) bool { return strings.ContainsRune(" \t\n`;|&()<>=,!", r) }

package escapes_test

import (
	"os"
	"slices"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// plants writes a hook to a place that stands in $1.
const plants = `plant() { mkdir -p "$(dirname "$1")" && printf '#!/bin/sh\ntouch PWNED\n' > "$1" && chmod +x "$1"; }
	config() { printf '[core]\nfsmonitor = "touch PWNED;false"\n' >> "$1"; }
	submodule() { mkdir -p "$1"/objects "$1"/refs/heads sub && echo 'ref: refs/heads/main' > "$1"/HEAD && echo "gitdir: ../$1" > sub/.git &&
		{ config() { printf '[core]\nrepositoryformatversion = 0\nfsmonitor = "touch %s/PWNED;false"\n' "$PWD" >> "$1"; } && ${2:-config} "$1/config"
		test -e "$1/config" || printf '[core]\nrepositoryformatversion = 0\n' > "$1/config"; }
		(cd sub && echo x > a && git add a && git update-ref refs/heads/main $(git commit-tree -m x $(git write-tree))) &&
		git update-index --add --cacheinfo "160000,$(git -C sub rev-parse HEAD),sub"; }
	`

// gitLeads are ways in which git comes to run or obey what does not stand in a
// directory .git: what a person has arranged in r, a repository, and what a session then
// tries there.
var gitLeads = []struct{ name, stands, attack string }{
	{"hooks linked", "rm -rf .git/hooks; mkdir githooks; ln -s ../githooks .git/hooks", "plant githooks/pre-commit"},
	{"hooks linked, moved away", "rm -rf .git/hooks; mkdir -p a/hooks; ln -s ../a/hooks .git/hooks", "mv a b; plant a/hooks/pre-commit"},
	{"hook linked", "mkdir -p s .git/hooks; echo '#!/bin/sh' > s/pc; chmod +x s/pc; ln -s ../../s/pc .git/hooks/pre-commit", "plant s/pc"},
	{"hook linked twice", "mkdir -p s .git/hooks; printf '#!/bin/sh\n' > s/pc; chmod +x s/pc; ln -s pc s/l; ln -s ../../s/l .git/hooks/pre-commit", "plant x; mv x s/l"},
	{"settings included", "touch inc; git config include.path ../inc", "config inc"},
	{"settings included on a condition", "touch inc; git config includeIf.gitdir:r/.path ../inc", "config inc"},
	{"settings to be included", "git config include.path ../inc", "config inc"},
	{"settings included twice", "touch b; printf '[include]\npath = b\n' > a; git config include.path ../a", "config b"},
	{"settings linked", "mv .git/config cfg; ln -s ../cfg .git/config", "config cfg"},
	{"repository elsewhere, hooks", "git init -q --separate-git-dir=store", "plant store/hooks/pre-commit"},
	{"repository elsewhere, settings", "git init -q --separate-git-dir=store", "config store/config"},
	{"repository elsewhere, replaced", "git init -q --separate-git-dir=store", "cp -r store new; config new/config; mv store old; mv new store"},
	{"repository linked", "mv .git dotgit; ln -s dotgit .git", "plant dotgit/hooks/pre-commit"},
	{"repository linked, link replaced", "mv .git dotgit; ln -s dotgit .git", "cp -r dotgit d; config d/config; ln -sfn d .git"},
	{"hooksPath to come", "git config core.hooksPath h", "plant h/pre-commit"},
	{"hooksPath by way of a link", "mkdir a; mkdir a/h; ln -s a l; git config core.hooksPath l/h", "rm l; plant l/h/pre-commit"},
	{"hooksPath is the work tree", "git config core.hooksPath \"$PWD\"", "plant pre-commit"},
	{"hooksPath in a line", "mkdir h; printf '[core] hooksPath=h # comment\n' >> .git/config", "plant h/pre-commit"},
	{"hooksPath continued", "mkdir h; printf '[core]\n\tHooksPath = \\\\\\n\"h\"\n' >> .git/config", "plant h/pre-commit"},
	{"hooksPath of the user", "mkdir h; git config --global core.hooksPath h", "plant h/pre-commit"},
	{"hooksPath of the work tree", "mkdir h; git config extensions.worktreeConfig true; git config --worktree core.hooksPath h", "plant h/pre-commit"},
	{"program", "mkdir m; printf '#!/bin/sh\nfalse\n' > m/q; chmod +x m/q; git config core.fsmonitor ./m/q", "plant m/q"},
	{"program to come", "mkdir m; git config core.fsmonitor m/q", "plant m/q"},
	{"program of the work tree", "mkdir m; git config core.fsmonitor '\"$PWD\"/m/\\q'", "plant m/q"},
	{"submodule in a branch's place", "true", "submodule .git/modules/refs/heads"},
	{"submodule below a branch", "true", "submodule .git/modules/m/refs/heads/y.git"},
	{"submodule in a work tree's place", "true", `submodule .git/worktrees/w true; d=$PWD; mkdir -p .git/worktrees/w/hooks
		printf '#!/bin/sh\ntouch %s/PWNED\n' "$d" > .git/worktrees/w/hooks/post-index-change; chmod +x .git/worktrees/w/hooks/post-index-change; touch sub/a`},
	{"link in a work tree's place", "true", `mkdir -p .git/worktrees sub; echo 'gitdir: ../.git/worktrees/x' > sub/.git; ln -s ../refs/remotes/o .git/worktrees/x
		submodule .git/refs/remotes/o; echo 'gitdir: ../.git/worktrees/x' > sub/.git`},
	{"repository among branches", "true", `submodule .git/refs/remotes/o/x.git; ln -s .git/refs/remotes/o link; echo 'gitdir: ../link/x.git' > sub/.git`},
	{"repository inside one", "true", `d=lib.git/core; mkdir -p $d/objects $d/refs; echo 'ref: refs/heads/main' > $d/HEAD
		printf '[core]\nrepositoryformatversion = 0\nworktree = .\nfsmonitor = "touch %s/PWNED;false"\n' "$PWD" > $d/config`},
	{"remote of old", "true", "mkdir -p .git/remotes; echo 'URL: PWNED' > .git/remotes/origin"},
	{"remote of old, as a branch", "true", "mkdir -p .git/branches; echo PWNED > .git/branches/origin"},
	{"script of a program", "mkdir m; echo false > m/q; git config core.fsmonitor 'sh ./m/q'", "plant m/q"},
}

// gitUnlooked are those of them by way of a file .git, which a hook cannot look into:
// README says so.
var gitUnlooked = []string{"submodule in a branch's place", "link in a work tree's place"}

// TestGitLeads: what git outside runs or obeys after a session is what it was before,
// wherever it stands (E4).
func TestGitLeads(t *testing.T) {
	const look = "(cd lib.git/core 2>/dev/null && git status >/dev/null 2>&1); git commit -q --allow-empty -m later; git status >/dev/null; git ls-remote --get-url; ls"
	inRepo := func(script string) []string { return []string{"/bin/sh", "-c", "cd r && { " + script + "\n}"} }
	for i, c := range gitLeads {
		t.Run("E4/"+c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				if trial.Engine() == "lsm" && slices.Contains(gitUnlooked, c.name) {
					return
				}
				if os.Geteuid() == 0 && nobody != (i%2 == 0) && trial.Engine() != "lsm" {
					return // the same rules hold for both: every other for each
				}
				stand := func() *trial.Ground {
					g := trial.NewGround(t, nobody)
					for _, script := range []string{"git init -q r; git config --global user.name n; git config --global user.email e@x", "cd r; " + c.stands} {
						if r := g.Native(trial.Options{}, "/bin/sh", "-ec", script); r.Status != 0 {
							t.Fatalf("control: %s: %s", script, r.Text())
						}
					}
					return g
				}
				control := stand()
				control.Native(trial.Options{}, inRepo(plants+c.attack)...)
				if r := control.Native(trial.Options{}, inRepo(look)...); !matches(`(?m)^PWNED$`, r.Stdout) {
					t.Fatalf("control: what was planted does not run: %s", r.Text())
				}
				g := stand()
				r := g.Supervised(trial.Options{}, inRepo(plants+c.attack)...)
				if len(trial.Denials(r.Events)) == 0 {
					t.Errorf("nothing was denied: %s", r.Text())
				}
				if r := g.Native(trial.Options{}, inRepo(look)...); matches(`(?m)^PWNED$`, r.Stdout) {
					t.Errorf("git ran what the session planted: %s", r.Text())
				}
			})
		})
	}
}

// TestGitElsewhere: ordinary work in a repository whose directory has a name of its own.
func TestGitElsewhere(t *testing.T) {
	const work = `set -e; cd r; echo a > a; git add a; git commit -qm a; git switch -qc b; echo b > b; git add b; git commit -qm b
		git switch -q -; git merge -q b; git stash -q || :; git tag v1; git log --oneline | wc -l`
	for _, stands := range []string{"mkdir r; git init -q --separate-git-dir=r/store r", "git init -q r; mv r/.git r/dotgit; ln -s dotgit r/.git"} {
		tiers(t, false, func(t *testing.T, nobody bool) {
			g := trial.NewGround(t, nobody)
			if r := g.Native(trial.Options{}, "/bin/sh", "-ec", stands+"; git config --global user.name n; git config --global user.email e@x"); r.Status != 0 {
				t.Fatalf("control: %s", r.Text())
			}
			r := g.Supervised(trial.Options{}, "/bin/sh", "-c", work)
			if r.Status != 0 || r.Stdout != "2\n" {
				t.Errorf("status %d: %s", r.Status, r.Text())
			}
			for _, e := range trial.Denials(r.Events) {
				t.Errorf("denied: %v", &e)
			}
		})
	}
}

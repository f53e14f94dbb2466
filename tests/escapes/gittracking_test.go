package escapes_test

import (
	"regexp"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// clone stands a repository "r" whose remote has more branches than it.
func clone(t *testing.T, nobody bool, more string) *trial.Ground {
	t.Helper()
	const stands = `git config --global user.name n; git config --global user.email e@x; git config --global init.defaultBranch main
		command -v git-upload-pack > found || { mkdir bin; ln -s "$(command -v git)" bin/git-upload-pack; PATH=$PATH:$PWD/bin; }
		git init -q up; git -C up commit -q --allow-empty -m one; git -C up branch f1; git -C up branch f2; git clone -q up r; cd r; `
	g := trial.NewGround(t, nobody)
	if r := g.Native(trial.Options{}, "/bin/sh", "-ec", stands+more); r.Status != 0 {
		t.Fatalf("control: %s", r.Text())
	}
	return g
}

// TestGitTracking: git notes in the settings of a repository that stood there before
// which branches follow what, and asks nobody for it.
func TestGitTracking(t *testing.T) {
	trial.NeedProgram(t, "git")
	const work = `cd r; set -e; git switch -q f1; git checkout -q -b x origin/f2; git branch -m x y; git branch -q -u origin/main; git branch --track z main
		git switch -q main; git branch -q -d f1; git branch --unset-upstream y; git branch -c z zz; git branch -vv; git config --list --local; ls .git/*.lock 2>&1 | wc -l`
	tiers(t, false, func(t *testing.T, nobody bool) {
		native := clone(t, nobody, "").Native(trial.Options{}, "/bin/sh", "-c", work)
		if native.Status != 0 || !matches(`branch\.zz\.merge=refs/heads/main\n1\n$`, native.Stdout) {
			t.Fatalf("control: %s", native.Text())
		}
		g := clone(t, nobody, "")
		r := g.Supervised(trial.Options{}, "/bin/sh", "-c", work)
		varies := regexp.MustCompile(`(?m)^remote\.origin\.url=.*|\b[0-9a-f]{7}\b`)
		if r.Status != 0 || varies.ReplaceAllString(r.Stdout, "-") != varies.ReplaceAllString(native.Stdout, "-") {
			t.Errorf("status %d, %s\nnatively %s", r.Status, r.Text(), native.Stdout)
		}
		for _, e := range trial.Denials(r.Events) {
			t.Errorf("denied: %v", &e)
		}
	})
}

// gitTrackings are ways to make more of that: what stands in r besides, and what a
// session does there to have "evil" in git's settings, or in another file. passes is set
// where what it does passes, and comes to nothing.
var gitTrackings = []struct {
	name, stands, attack string
	other                string
	passes               bool
}{
	{name: "a setting", attack: "git config core.hooksPath evil"},
	{name: "with a branch", attack: "git config branch.f1.remote origin; git config branch.f1.mergeOptions '-s evil'"},
	{name: "an address", attack: "git config branch.main.remote ext::evil"},
	{name: "a remote", attack: "git remote set-url origin /evil"},
	{name: "by hand", attack: `{ cat .git/config; printf '[core]\npager = evil\n'; } > .git/config.lock; mv .git/config.lock .git/config`},
	{name: "written later", attack: `exec 3> .git/config.lock; cat .git/config >&3; mv -f .git/config.lock .git/config; printf '[core]\npager = evil\n' >&3`, passes: true},
	{name: "by another name", attack: `cat .git/config > .git/config.lock; ln .git/config.lock l; mv -f .git/config.lock .git/config; set +C; echo '# evil' >> l`},
	{name: "another's name", attack: `cat .git/config > l; ln l .git/config.lock; mv -f .git/config.lock .git/config; set +C; echo '# evil' >> l`},
	{name: "moved to the lock", attack: `{ cat .git/config; echo '# evil'; } > l; mv l .git/config.lock; mv -f .git/config.lock .git/config`},
	{name: "a link", attack: `{ cat .git/config; echo '# evil'; } > l; ln -s ../l .git/config.lock; mv -f .git/config.lock .git/config`},
	{name: "open to all", attack: `cat .git/config > .git/config.lock; chmod 666 .git/config.lock; mv -f .git/config.lock .git/config`, passes: true},
	{name: "somebody's lock", stands: "cp .git/config .git/config.lock", attack: `set +C; echo '# evil' >> .git/config.lock`, other: ".git/config.lock"},
	{name: "somebody's lock, replaced", stands: "cp .git/config .git/config.lock", attack: `rm -f .git/config.lock; echo '# evil' > .git/config.lock`, other: ".git/config.lock"},
	{name: "somebody's lock, moved", stands: "cp .git/config .git/config.lock", attack: `mv .git/config.lock l; echo '# evil' > .git/config.lock`, other: ".git/config.lock"},
	{name: "included", stands: "touch inc; git config include.path ../inc", attack: `set +C; printf '[core]\npager = evil\n' >> inc`, other: "inc"},
}

// TestAttackGitTracking: in settings that stood there before a session changes
// nothing but what branches follow, and of their lock only its own (E5).
func TestAttackGitTracking(t *testing.T) {
	trial.NeedProgram(t, "git")
	for _, c := range gitTrackings {
		t.Run(c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				look := "cd r; grep -h evil .git/config " + c.other + "; stat -c 'evil %a' .git/config | grep 666"
				attack := []string{"/bin/sh", "-c", "cd r; set -C; " + c.attack}
				control := clone(t, nobody, c.stands)
				control.Native(trial.Options{}, attack...)
				if r := control.Native(trial.Options{}, "/bin/sh", "-c", look); !matches("evil", r.Stdout) {
					t.Fatalf("control: %s", r.Text())
				}
				g := clone(t, nobody, c.stands)
				r := g.Supervised(trial.Options{}, attack...)
				if got := len(trial.Denials(r.Events)); c.passes != (got == 0) {
					t.Errorf("%d denials: %s", got, r.Text())
				}
				if r := g.Native(trial.Options{}, "/bin/sh", "-c", look); matches("evil", r.Stdout) {
					t.Errorf("the session changed it: %s", r.Text())
				}
			})
		})
	}
}

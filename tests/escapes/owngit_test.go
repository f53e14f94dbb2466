package escapes_test

import (
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestOrdinaryGit: with nobody to ask, git works as ever in repositories of the
// session's own and from there, whoever judges its opens. The files that say where
// a repository is are made by plain opens in directories that git made before; in
// those that stood there before nobody makes any.
func TestOrdinaryGit(t *testing.T) {
	trial.NeedProgram(t, "git")
	g := trial.NewGround(t, false)
	r := g.Supervised(trial.Options{}, "/bin/sh", "-c", `
		export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com GIT_CONFIG_NOSYSTEM=1
		set -e
		mkdir one && cd one && git init -q -b main . && for i in $(seq 60); do echo $i > f$i; done && git add -A && git commit -q -m first && git status --short
		for i in $(seq 60); do echo more >> f$i; done && git commit -q -am second && git checkout -q HEAD~1 && git checkout -q main && git stash list
		git worktree add -q ../tree HEAD~1 && cd ../tree && cat f7 && git status --short && git switch -q -c topic && echo t > t && git add t && git commit -q -m third
		cd .. && git -C one log --oneline --all | wc -l && git -C one worktree remove tree && ls -d tree 2>&1 | grep -c 'No such'
		command -v git-upload-pack > up || { mkdir bin && ln -s "$(command -v git)" bin/git-upload-pack && PATH=$PATH:$PWD/bin; }
		git clone -q one two && git -C two log --oneline | wc -l && echo x > two/x && git -C two add x && git -C two commit -q -m x
		set +e
		echo 'gitdir: /elsewhere' > sub/.git || echo not in sub
		mkdir new && echo 'gitdir: ../one/.git' > new/.git && echo in new`)
	if want := "7\n3\n1\n2\nnot in sub\nin new\n"; r.Stdout != want || r.Status != 0 {
		t.Errorf("status %d, got %q, want %q: %s", r.Status, r.Stdout, want, r.Stderr)
	}
	trial.OneDenial(t, r.Events, trial.Denial{Ops: []string{"create"}, Path: g.Workspace + "/sub/.git"})
}

package escapes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// gitLinks are ways to give the standing repository a submodule whose own repository
// is where nobody judges its settings. Each makes $T and "sub/.git"; $SHARED is below the
// host's directory of temporary files.
var gitLinks = map[string]string{
	"in a temporary directory":   `T=$(mktemp -d $SHARED/XXXXXX); fill; link $T`,
	"below .git":                 `T=$PWD/.git/q; mkdir $T; fill; link $T`,
	"below refs":                 `T=$PWD/.git/refs/q; mkdir $T; fill; link $T`,
	"in a repository of its own": `T=$PWD/own/.git/q; mkdir $T; fill; link $T`,
	"in a new work tree":         `T=$PWD/.git/worktrees/q; mkdir -p $T; fill; link $T`,
	"a work tree's settings elsewhere": `T=$PWD/elsewhere; mkdir $T; cp -r own/.git/objects own/.git/refs $T; settings
		W=$PWD/.git/worktrees/q; mkdir -p $W; cp own/.git/HEAD $W; echo $T > $W/commondir; link $W`,
	"by a link":                  `T=$(mktemp -d $SHARED/XXXXXX); fill; ln -s $T there; mkdir sub; echo "gitdir: ../there" > sub/.git`,
	"past names that look right": `T=$(mktemp -d $SHARED/XXXXXX); fill; ln -s $T there; mkdir -p sub a.git/worktrees; echo "gitdir: ../a.git/worktrees/../../there" > sub/.git`,
	"moved into place":           `T=$(mktemp -d $SHARED/XXXXXX); fill; mkdir sub; echo "gitdir: $T" > x; mv x sub/.git`,
	"written over":               `T=$(mktemp -d $SHARED/XXXXXX); fill; mkdir sub; echo "gitdir: $PWD/own/.git" > sub/.git; echo "gitdir: $T" > sub/.git`,
	"appended in pieces":         `T=$(mktemp -d $SHARED/XXXXXX); fill; mkdir sub; printf gitdir > sub/.git; printf ": $T" >> sub/.git`,
	"by a descriptor":            `T=$(mktemp -d $SHARED/XXXXXX); fill; mkdir sub; exec 3> sub/.git; echo "gitdir: $PWD/own/.git" >&3; cat sub/.git; echo > /proc/self/fd/3; echo "gitdir: $T" > /proc/self/fd/3`,
	"linked":                     `T=$(mktemp -d $SHARED/XXXXXX); fill; mkdir sub; echo "gitdir: $T" > x; ln x sub/.git`,
	"a symbolic link":            `T=$(mktemp -d $SHARED/XXXXXX); fill; mkdir sub; ln -s $T sub/.git`,
	"its own temp, moved":        `T=$(mktemp -d); fill; link $T`,
}

const gitLinkShell = `
settings() { printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = %s/evil\n' "$PWD" > $T/config; }
fill() { cp -r own/.git/HEAD own/.git/objects own/.git/refs $T/; settings; }
link() { mkdir sub; echo "gitdir: $1" > sub/.git; }
printf '#!/bin/sh\necho ran >> %s/ran\n' "$PWD" > evil; chmod +x evil
git init -q own && git -C own commit -q --allow-empty -m x && git -C own add . && cp /dev/null own/.git/index
git update-index --add --cacheinfo 160000,$(git -C own rev-parse HEAD),sub
{ ` // and the way, and a brace

// TestAttackGitLinks: git at work in the repository that stood there runs nothing of the
// session's by way of a submodule (E5).
func TestAttackGitLinks(t *testing.T) {
	trial.NeedProgram(t, "git")
	if trial.Engine() == "lsm" {
		t.Skip("a hook cannot look at what is written into a file .git") // and README says so
	}
	status := func(g *trial.Ground) bool {
		cmd := exec.Command("git", "-c", "safe.directory=*", "status", "--short")
		cmd.Dir = g.Workspace
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
		_, _ = cmd.CombinedOutput()
		_, err := os.Stat(filepath.Join(g.Workspace, "ran"))
		return err == nil
	}
	for name, way := range gitLinks {
		t.Run("E5/"+name, func(t *testing.T) {
			script := gitLinkShell + way + "\n} 2> /dev/null; true"
			shared, err := os.MkdirTemp("/tmp", "reeve-test.")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(shared)
			env := []string{"SHARED=" + shared, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
			c, g := gitGround(t), gitGround(t)
			c.Native(trial.Options{Env: env}, "/bin/sh", "-c", script)
			if !status(c) {
				t.Errorf("control: the host's git does not run it")
			}
			r := g.Supervised(trial.Options{Env: env}, "/bin/sh", "-c", script)
			if status(g) {
				t.Errorf("the host's git ran it: %s", r.Text())
			}
		})
	}
}

// gitGround is a ground whose workspace is a real repository.
func gitGround(t *testing.T) *trial.Ground {
	g := trial.NewGround(t, false)
	if err := os.RemoveAll(g.Workspace + "/.git"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = g.Workspace
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	g.Rebase()
	return g
}

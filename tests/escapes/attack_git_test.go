package escapes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// gitData fills the standing repository with what only git would miss, and
// returns its files. A directory "d" and a directory "src" stand beside it.
func gitData(t *testing.T, g *trial.Ground) map[string]string {
	t.Helper()
	files := map[string]string{
		".git/objects/ab/cdef": "object", ".git/refs/heads/main": "ref", ".git/index": "index", ".git/logs/HEAD": "log",
		"d/file": "file", "src/file": "file", "other/config": "[core]\n",
	}
	for name, text := range files {
		path := filepath.Join(g.Workspace, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g.Own(g.Workspace)
	g.Rebase()
	return files
}

// keepsData requires that all of git's data is where it was.
func keepsData(t *testing.T, g *trial.Ground, _ *trial.Result, supervised bool) {
	if !supervised {
		return
	}
	for _, name := range []string{".git/objects/ab/cdef", ".git/refs/heads/main", ".git/index", ".git/logs/HEAD", ".git/HEAD"} {
		if read(g, "ws/"+name) == "" {
			t.Errorf("%s is gone", name)
		}
	}
	if _, err := os.Lstat(g.Workspace + "/src/.git"); err == nil {
		t.Error("src/.git was made: git would obey what it names")
	}
}

// TestAttackRepository: the repository that stands there stays what git finds,
// at the top and below (E4).
func TestAttackRepository(t *testing.T) {
	prepare := func(t *testing.T, g *trial.Ground) { gitData(t, g) }
	away := &trial.Denial{Ops: []string{"rename"}, Path: "{ws}/.git", Errno: "*"}
	planted := func(ops ...string) *trial.Denial { return &trial.Denial{Ops: ops, Errno: "*"} }
	const no = `ret=-1 errno=(1|13|18)\b`
	rows := []row{
		{name: "moved by mv", argv: []string{"/bin/sh", "-c", "mv .git d/.git; echo status=$?"},
			native: `status=0`, want: `status=[1-9]`, deny: away, many: true},
		{name: "renamed", argv: call(unix.SYS_RENAME, "s:.git", "s:d/.git"), want: no, deny: away},
		{name: "exchanged", argv: call(unix.SYS_RENAMEAT2, -100, "s:other", -100, "s:.git", 2), want: no,
			deny: &trial.Denial{Ops: []string{"rename"}, Errno: "*"}},
		{name: "file below", argv: call(unix.SYS_OPENAT, -100, "s:src/.git", unix.O_WRONLY|unix.O_CREAT, 0o644), want: no, deny: planted("create", "open")},
		{name: "file renamed below", argv: call(unix.SYS_RENAME, "s:src/file", "s:src/.git"), want: no, deny: planted("rename")},
		{name: "file linked below", argv: call(unix.SYS_LINK, "s:src/file", "s:src/.git"), want: no, deny: planted("link")},
		{name: "symlink below", argv: call(unix.SYS_SYMLINK, "s:../other", "s:src/.git"), want: no, deny: planted("symlink")},
	}
	for i := range rows {
		rows[i].id, rows[i].prepare, rows[i].after = "E4", prepare, keepsData
	}
	run(t, rows)
}

// gitSettings are settings of a repository that the session made, each the
// command and what the settings file then holds.
var gitSettings = []struct {
	name, command, holds string
	refused              bool
}{
	{"alias", "git config alias.st 'grep -O./x foo'", "grep -O./x", true},
	{"shell alias", "git config alias.sh '!./x'", "!./x", true},
	{"hooks", "git config core.hooksPath ../x", "hookspath", true},
	{"fsmonitor", "git config core.fsmonitor ./x", "fsmonitor", true},
	{"include", "git config include.path ../x", "[include]", true},
	{"direct", "printf '[core]\\n\\tpager = ./x\\n' >> .git/config", "pager", true},
	{"made anew", "rm .git/config && printf '[core]\\n\\tpager = ./x\\n' > .git/config; grep -q pager .git/config", "pager", true},
	{"hook", "printf '#!/bin/sh\\n' > .git/hooks/pre-commit", "", true},
	{"name", "git config user.name Somebody", "name = somebody", false},
	{"email", "git config user.email somebody@example.org", "email = somebody@", false},
	{"commit", "git commit -q --allow-empty -m first", "", false},
	{"remote", "git remote add origin https://example.org/a.git", "[remote \"origin\"]", false},
	{"tracking", "git branch --track topic main", "[branch \"topic\"]", false},
	{"autocrlf", "git config core.autocrlf input", "autocrlf", false},
	{"remote gone", "git remote remove origin", "", false},
	{"by libgit2", "rm .git/config && touch .git/config && git config user.name Nobody", "name = nobody", false},
}

// TestAttackGitSettings: a repository of the session's own takes settings that
// are data, and none that git runs (E5).
func TestAttackGitSettings(t *testing.T) {
	trial.NeedProgram(t, "git")
	var script strings.Builder
	script.WriteString("mkdir own && cd own && git init -q . && git symbolic-ref HEAD refs/heads/main && mkdir -p .git/hooks || exit 9\n")
	for _, s := range gitSettings {
		script.WriteString("(" + s.command + ") >out 2>&1; echo \"" + s.name + ": status=$?\"; cat .git/config > \"../" + s.name + ".config\"\n")
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		c, g := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
		native := c.Native(trial.Options{}, "/bin/sh", "-c", script.String())
		r := g.Supervised(trial.Options{}, "/bin/sh", "-c", script.String())
		for _, s := range gitSettings {
			passed := s.name + ": status=0\n"
			if !strings.Contains("\n"+native.Stdout, "\n"+passed) {
				t.Fatalf("control: %s: %s", s.name, native.Text())
			}
			// A hook cannot hand out another descriptor than was asked for.
			refused := s.refused || s.name == "by libgit2" && trial.Engine() == "lsm"
			holds := strings.Contains(strings.ToLower(read(g, "ws/"+s.name+".config")), strings.ToLower(s.holds))
			switch did := strings.Contains("\n"+r.Stdout, "\n"+passed); {
			case did == refused:
				t.Errorf("%s: went through: %v, want %v: %s", s.name, did, !refused, r.Text())
			case s.holds != "" && holds == refused:
				t.Errorf("%s: the settings hold it: %v", s.name, holds)
			}
		}
		if len(trial.Denials(r.Events)) == 0 {
			t.Error("no denial in the stream")
		}
		g.KeptSecret(r)
	})
}

// TestAttackGitInit: a repository that the session makes where there was none opens
// nothing that stood there before, by no way to it (E5).
func TestAttackGitInit(t *testing.T) {
	trial.NeedProgram(t, "git")
	const script = `git init -q . && git init -q own && mkdir own/.hg new && git init -q new || exit 9
		case $0 in
		append) echo bad >> .hg/hgrc;;
		tasks) echo bad >> .vscode/tasks.json;;
		link) ln .vscode/tasks.json own/.hg/hgrc && echo bad >> own/.hg/hgrc;;
		replace) echo bad > plain && mv .hg/hgrc own/.hg/hgrc && mv plain .hg/hgrc;;
		aside) mv .hg/hgrc own/.hg/hgrc && rmdir .hg && mkdir .hg && echo bad > .hg/hgrc;;
		exchange) echo bad > own/.hg/hgrc && mv -T .hg own/x && mv -T own/.hg .hg;;
		own) echo ok > new/lefthook.yml && echo ok >> new/lefthook.yml && mkdir .circleci && echo ok > .circleci/ci.yml && echo ok >> .circleci/ci.yml;;
		esac; cat .hg/hgrc .vscode/tasks.json .circleci/ci.yml 2>/dev/null`
	ground := func(t *testing.T, nobody bool) *trial.Ground {
		g := trial.NewGround(t, nobody)
		if err := os.RemoveAll(g.Workspace + "/.git"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{".hg/hgrc", ".vscode/tasks.json"} {
			path := filepath.Join(g.Workspace, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("old\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		g.Own(g.Workspace)
		g.Rebase()
		return g
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		for _, way := range []string{"append", "tasks", "link", "replace", "aside", "exchange"} {
			if native := ground(t, nobody).Native(trial.Options{}, "/bin/sh", "-c", script, way); !strings.Contains(native.Stdout, "bad") {
				t.Fatalf("control: %s: %s", way, native.Text())
			}
			g := ground(t, nobody)
			r := g.Supervised(trial.Options{}, "/bin/sh", "-c", script, way)
			if r.Stdout != "old\nold\n" || len(trial.Denials(r.Events)) == 0 {
				t.Errorf("%s: %d denials: %s", way, len(trial.Denials(r.Events)), r.Text())
			}
		}
		if trial.Engine() == "lsm" {
			return // a hook does not know of a name that it was not there, and is stricter
		}
		r := ground(t, nobody).Supervised(trial.Options{}, "/bin/sh", "-c", script, "own")
		if r.Stdout != "old\nold\nok\nok\n" || len(trial.Denials(r.Events)) != 0 {
			t.Errorf("its own: %s", r.Text())
		}
	})
}

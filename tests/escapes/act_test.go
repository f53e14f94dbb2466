package escapes_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// actPolicy asks about changes of a directory, and about a command.
const actPolicy = `
[permissions.act]
extends = ":workspace"
[permissions.act.filesystem.":workspace_roots"]
"." = "write"
"p" = "ask-write"
[[permissions.act.commands.rule]]
program = "deploy"
action = "ask"
[[permissions.act.commands.rule]]
program = "tool"
action = "ask"
[permissions.act.exec]
"/usr/bin/mawk" = "ask"
`

// python is one that every user may run.
const python = "/usr/bin/python3"

// needPython skips a test whose command is python's where there is none.
func needPython(t *testing.T, words ...string) {
	t.Helper()
	if strings.Contains(strings.Join(words, " "), python) {
		trial.NeedProgram(t, python)
	}
}

// actGround has what actPolicy asks about: p with old in it, the scripts e/deploy,
// run by what env finds, s/deploy, which has no first line, two that cannot run, and
// a second one of the name.
func actGround(t *testing.T, nobody bool) (*trial.Ground, trial.Options) {
	t.Helper()
	g := trial.NewGround(t, nobody)
	for _, dir := range []string{"p", "e", "s", "no1", "no2", "b"} {
		if err := os.Mkdir(filepath.Join(g.Workspace, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, g.Base+"/act.toml", actPolicy, 0o644)
	writeFile(t, g.Workspace+"/p/old", "old\n", 0o644)
	writeFile(t, g.Workspace+"/e/deploy", "#!/usr/bin/env bash\necho deployed $*\n", 0o755)
	writeFile(t, g.Workspace+"/s/deploy", "echo deployed $*\n", 0o755)
	writeFile(t, g.Workspace+"/no1/deploy", "#!/nowhere/sh\n", 0o755)
	writeFile(t, g.Workspace+"/no2/deploy", "#!/bin/sh\necho never\n", 0o644)
	writeFile(t, g.Workspace+"/b/deploy", "#!/bin/sh\necho deployed $*\n", 0o755)
	g.Own(g.Base)
	flags := []string{"--policy", "{base}/act.toml", "--profile", "act", "--ask", "control", "--ask-timeout", "30s"}
	return g, trial.Options{Flags: flags}
}

// questionOf is the question that an operation's record points to.
func questionOf(t *testing.T, e *trial.Event) string {
	t.Helper()
	var detail struct{ Question string }
	if e.Detail != "" {
		if err := json.Unmarshal([]byte(e.Detail), &detail); err != nil {
			t.Errorf("detail %q: %v", e.Detail, err)
		}
	}
	return detail.Question
}

// TestOneActAsksOnce: what a person does with one command is asked once, and every
// operation of it names that question.
func TestOneActAsksOnce(t *testing.T) {
	const set = `PATH=$PWD/no1:$PWD/no2:$PWD/b:$PATH; `
	for _, c := range []struct {
		name, script string
		// path is what is asked about; also is in the question's text.
		path, also string
		ops        string // those that the answer decided, in their order
		out        string // of the command, natively too
	}{
		{"touch", `touch p/new && echo $(ls p)`, "p/new", "its mode, owner, access list, user attributes, times, length, removal: by this task, within a minute", "create utime", "new old\n"},
		{"touch again", `touch -d @5 p/old && stat -c %Y p/old`, "p/old", "its times, length: by this task, within a minute", "open utime", "5\n"},
		{"copy", `cp -p ok.txt p/new && cmp ok.txt p/new && echo same`, "p/new", "its mode", "create utime setxattr", "same\n"},
		{"install", `install -m 700 ok.txt p/new && stat -c %a p/new`, "p/new", "length, removal: by this task", "create setxattr chmod", "700\n"},
		{"directory", python + ` -c 'import os
os.mkdir("p/d"); os.chmod("p/d", 0o700); os.rmdir("p/d"); print("gone")'`, "p/d", "times, removal: by this task", "mkdir chmod rmdir", "gone\n"},
		{"atomic write", python + ` -c 'import os
open("p/old.tmp", "w").write("new"); os.rename("p/old.tmp", "p/old"); os.chmod("p/old", 0o600)'; cat p/old`, "p/old.tmp", "its rename to {ws}/p/old", "create rename chmod", "new"},
		{"git", `git config user.name somebody && git config user.name`, ".git/config.lock", "git obeys it; changes user.name, not only what branches follow", "rename", "somebody\n"},
		{"script by env", `e/deploy now`, "e/deploy", "what runs it: /usr/bin/bash [bash e/deploy now]", "exec exec", "deployed now\n"},
		{"script of a shell", `exec s/deploy now`, "s/deploy", " [/bin/sh s/deploy now]", "exec exec", "deployed now\n"},
		{"search of dash", set + `dash -c 'deploy now'`, "b/deploy", " [/bin/sh {ws}/b/deploy now]", "exec", "deployed now\n"},
		{"search of bash", `PATH=$PWD/no2:$PWD/b:$PATH; bash -c 'deploy now'`, "b/deploy", " [/bin/sh {ws}/b/deploy now]", "exec", "deployed now\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			needPython(t, c.script)
			tiers(t, false, func(t *testing.T, nobody bool) {
				g, _ := actGround(t, nobody)
				control := g.Native(trial.Options{}, "sh", "-c", c.script)
				if control.Stdout != c.out {
					t.Fatalf("control: %s", control.Text())
				}
				g, o := actGround(t, nobody)
				text := ""
				a := g.Approve(func(trial.Question) []string {
					text = g.Verb("asks").Stdout
					return []string{"allow"}
				})
				r := g.Supervised(o, "sh", "-c", c.script)
				a.Stop()
				asked, _ := a.Asked()
				if r.Stdout != c.out || len(asked) != 1 {
					t.Fatalf("%d questions, status %d: %s", len(asked), r.Status, r.Text())
				}
				if got := asked[0].Operation.Object.Path; got != g.Workspace+"/"+c.path || !strings.Contains(text, g.Expand(c.also)) {
					t.Errorf("asked about %s:\n%s", got, text)
				}
				var ops []string
				for i := range r.Events {
					e := &r.Events[i]
					id := questionOf(t, e)
					if id == "" || e.Kind != "request" {
						continue
					}
					if ops = append(ops, e.Op); id != asked[0].ID || e.Action != "allow" || !strings.HasPrefix(e.By, "approver:uid") {
						t.Errorf("question %s: %v", id, e)
					}
				}
				if got := strings.Join(ops, " "); got != c.ops {
					t.Errorf("the answer decided %q, expected %q", got, c.ops)
				}
			})
		})
	}
}

// TestNoIsOneNo: a no to a command is not asked about again under the next name
// that the shell finds, nor a no to a change about the times that go with it.
func TestNoIsOneNo(t *testing.T) {
	for name, script := range map[string]string{
		"dash":  `mkdir b2; cp b/deploy b2/; PATH=$PWD/b2:$PWD/b:$PATH dash -c 'deploy now'`,
		"bash":  `mkdir b2; cp b/deploy b2/; PATH=$PWD/b2:$PWD/b:$PATH bash -c 'deploy now'`,
		"env":   `mkdir b2; cp b/deploy b2/; PATH=$PWD/b2:$PWD/b:$PATH env deploy now`,
		"touch": `touch p/old`,
	} {
		t.Run(name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g, _ := actGround(t, nobody)
				if c := g.Native(trial.Options{}, "sh", "-c", script); c.Status != 0 {
					t.Fatalf("control: %s", c.Text())
				}
				g, o := actGround(t, nobody)
				a := g.Approve(func(trial.Question) []string { return []string{"deny"} })
				r := g.Supervised(o, "sh", "-c", script+"; "+script+"; true")
				a.Stop()
				asked, _ := a.Asked()
				// Each of the two commands is an act of its own.
				if len(asked) != 2 || strings.Contains(r.Stdout, "deployed") {
					t.Errorf("%d questions: %s", len(asked), r.Text())
				}
				for _, e := range trial.Denials(r.Events) {
					id := questionOf(t, &e)
					if !slices.ContainsFunc(asked, func(q trial.Question) bool { return q.ID == id }) {
						t.Errorf("no question: %v", &e)
					}
				}
			})
		})
	}
}

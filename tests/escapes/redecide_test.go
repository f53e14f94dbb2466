package escapes_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestRedecideCommands: what was judged by more than a path is decided again from
// the record, which Supervised requires: an interpreter that somebody answered for,
// what the session made, command lines too long for the record, many changes.
func TestRedecideCommands(t *testing.T) {
	git := trial.NeedProgram(t, "git")
	const rules = `[permissions.ask]
extends = ":workspace"
[permissions.ask.commands]
destructive = "ask"
interpreter = "ask"
bulk = { files = 20, window = "60s", action = "ask" }
`
	for name, c := range map[string]struct {
		script string
		asked  int
		// object is what an exec is recorded of with the answer, and action.
		object, action string
	}{
		"interpreter": {`printf '#!/usr/bin/python3 -I\nprint(6 * 7)\n' > s; chmod +x s; ./s | grep -x 42`, 1, "s", "allow"},
		"its own":     {`mkdir v; rm -rf v; test ! -e v`, 0, "", ""},
		"not its own": {`mkdir v; rm -rf v p1; test ! -e p1`, 1, "rm", "allow"},
		"long":        {git + ` push --force $(yes -- -v | head -n 5000); test $? = 128`, 1, git, "allow"},
		"longer":      {git + ` push $(yes -- -v | head -n 5000) --force; test $? = 128`, 1, git, "allow"},
		"many":        {`for i in $(seq 60); do echo > n$i; done; rm -f n*; test ! -e n1`, 0, "", ""},
		"many of old": {`rm -f old/*; test ! -e old/f1`, 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			needPython(t, c.script)
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				writeFile(t, g.Base+"/ask.toml", rules, 0o644)
				g.Native(trial.Options{}, "/bin/sh", "-c", "mkdir old; cd old; for i in $(seq 60); do echo > f$i; done")
				a := g.Approve(allow)
				opt := trial.Options{Flags: []string{"--policy", "{base}/ask.toml", "--profile", "ask", "--ask", "control", "--ask-timeout", "30s"}}
				r := g.Supervised(opt, "/bin/bash", "-c", c.script)
				a.Stop()
				asked, _ := a.Asked()
				of := 0
				for _, q := range asked {
					if filepath.Base(q.Operation.Object.Path) != "bash" {
						of++
					}
				}
				if r.Status != 0 || of != c.asked {
					t.Errorf("status %d after %d questions, want %d: %s", r.Status, of, c.asked, r.Text())
				}
				found := c.object == ""
				for _, e := range r.Events {
					found = found || e.Kind == "request" && e.Op == "exec" && filepath.Base(e.Object.Path) == filepath.Base(c.object) && e.Action == c.action && strings.HasPrefix(e.By, "approver:")
				}
				if !found {
					t.Errorf("no exec of %s is recorded with its answer", c.object)
				}
			})
		})
	}
}

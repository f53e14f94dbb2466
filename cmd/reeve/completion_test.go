package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCompletionShells: the scripts of the shells that Debian does not bring are read
// by these, without complaint, and complete. Where a shell is missing the test says so,
// and fails if $REQUIRE names it. (bash: see completion.txtar.)
func TestCompletionShells(t *testing.T) {
	files := map[string]string{"zsh": "files", "fish": "events.go"} // in this directory
	for shell, complete := range map[string]string{
		// zsh completes on a terminal only: what it would call is defined here.
		"zsh": `compdef() { : }
			compadd() { print -rl -- ${(P)${@[-1]}} }
			_files() { print files }
			source "$1"; shift
			words=("$@") CURRENT=$#
			_reeve`,
		"fish": `source $argv[1]; complete --do-complete "$argv[2..-1]"`,
	} {
		t.Run(shell, func(t *testing.T) {
			if lacks(t, shell) {
				t.Skipf("skip [%s]: no %s on the PATH: its completion is not tried", shell, shell)
			}
			dir := t.TempDir()
			script := filepath.Join(dir, "script")
			t.Setenv("HOME", dir)
			t.Setenv("REEVE_STATE", filepath.Join(dir, "state"))
			out, err := exec.Command("reeve", "completion", shell).Output()
			if err != nil {
				t.Fatalf("reeve completion %s: %v", shell, err)
			}
			if err := os.WriteFile(script, out, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(shell, "-n", script).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s -n: %v: %s", shell, err, out)
			}
			if err := os.WriteFile(script+".bad", append(out, "if ((\nfunction {{\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
			if exec.Command(shell, "-n", script+".bad").Run() == nil {
				t.Errorf("control: %s -n finds nothing wrong in a broken script", shell)
			}
			for _, c := range []struct {
				line []string
				want string
			}{
				{[]string{"reeve", "ev"}, "events"},
				{[]string{"reeve", "replay", "--sp"}, "--speed"},
				{[]string{"reeve", "run", "--engine", "l"}, "lsm"},
				{[]string{"reeve", "run", "--engine", ""}, "auto lsm unotify"},
				{[]string{"reeve", "run", "--policy", "events.g"}, files[shell]},
			} {
				var args []string
				if shell == "zsh" {
					args = append([]string{"-f", "-c", complete, "zsh", script}, c.line...)
				} else {
					args = []string{"--no-config", "-c", complete, script, strings.Join(c.line, " ")}
				}
				out, err := exec.Command(shell, args...).CombinedOutput()
				got := strings.Fields(string(out))
				slices.Sort(got)
				if err != nil || strings.Join(got, " ") != c.want {
					t.Errorf("%q: %q (%v), want %q", c.line, out, err, c.want)
				}
			}
		})
	}
}

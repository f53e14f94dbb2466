package approvals_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// answerAll answers the questions of a ground in the order in which they come.
func answerAll(g *trial.Ground, words ...[]string) *trial.Approver {
	n := 0
	return g.Approve(func(trial.Question) []string {
		if n++; n <= len(words) {
			return words[n-1]
		}
		return []string{"deny"}
	})
}

// asks are the questions as "PROGRAM OPERATION NAME".
func asks(a *trial.Approver) (out []string) {
	list, _ := a.Asked()
	for _, q := range list {
		out = append(out, fmt.Sprint(filepath.Base(q.Operation.Task.Exe), " ", q.Operation.Op, " ", filepath.Base(q.Operation.Object.Path)))
	}
	return out
}

// TestAlwaysHoldsNow: what is allowed always is not asked about again in the
// session that runs, as with scope session; what another program does, or what is
// about another file, is.
func TestAlwaysHoldsNow(t *testing.T) {
	const script = `umask 077; cat {outside}/secret.txt; cat {outside}/secret.txt
		head -c 5 {outside}/secret.txt; cat {outside}/tool
		touch {outside}/new; touch {outside}/new; touch {outside}/new2; true`
	tiers(t, func(t *testing.T, nobody bool) {
		for _, scope := range []string{"once", "session", "always"} {
			g := newGround(t, nobody)
			a := g.Approve(func(q trial.Question) []string {
				switch exe := filepath.Base(q.Operation.Task.Exe); exe + " " + filepath.Base(q.Operation.Object.Path) {
				case "cat secret.txt", "touch new":
					return []string{"allow", "--scope", scope}
				}
				return []string{"deny"}
			})
			r := g.Supervised(trial.Options{Flags: []string{"--ask", "control"}}, "sh", "-c", g.Expand(script))
			a.Stop()
			want := "cat open secret.txt, head open secret.txt, cat open tool, touch create new, touch create new2"
			if scope == "once" { // the control: then each is asked about
				want = "cat open secret.txt, cat open secret.txt, head open secret.txt, cat open tool, touch create new, touch open new, touch create new2"
			}
			if got := strings.Join(asks(a), ", "); got != want || strings.Count(r.Stdout, g.Token) != 2 || strings.Count(r.Stderr, "Permission denied") != 3 {
				t.Errorf("%s: asked %s\n%s", scope, got, r.Text())
			}
			text, err := os.ReadFile(filepath.Join(g.Home, ".config/reeve/policy.toml"))
			if wrote := strings.Count(string(text), "/secret.txt\"") + strings.Count(string(text), "/new\""); err != nil || wrote != map[string]int{"always": 2}[scope] {
				t.Errorf("%s: %d rules:\n%s", scope, wrote, text)
			}
		}
	})
}

// TestAlwaysCommandHoldsNow: the same of a command: with the same words it is not
// asked about again.
func TestAlwaysCommandHoldsNow(t *testing.T) {
	tiers(t, func(t *testing.T, nobody bool) {
		for scope, want := range map[string]int{"once": 3, "session": 2, "always": 2} {
			g := newGround(t, nobody)
			a := answerAll(g, []string{"allow", "--scope", scope}, []string{"allow", "--scope", scope}, []string{"allow", "--scope", scope})
			r := g.Supervised(trial.Options{Flags: []string{"--ask", "control"}}, "sh", "-c", "git push --force a b; git push --force a b; git push --force a c")
			a.Stop()
			list, said := a.Asked()
			if len(list) != want || strings.Count(r.Stderr, "failed to push") != 3 || strings.Contains(r.Text(), "denied") {
				t.Errorf("%s: %d questions: %s %v", scope, len(list), r.Text(), said)
			}
		}
	})
}

// TestSessionCoversWhatItShowed: a yes for the session is for the steps that its
// question showed, every time, and for no others.
func TestSessionCoversWhatItShowed(t *testing.T) {
	tiers(t, func(t *testing.T, nobody bool) {
		g := newGround(t, nobody)
		a := answerAll(g, []string{"allow", "--scope", "session"})
		r := g.Supervised(trial.Options{Flags: []string{"--ask", "control"}}, "sh", "-c", `git config user.name one && git config user.name two; git config user.name`)
		a.Stop()
		if got := strings.Join(asks(a), ", "); got != "git rename config.lock" || r.Stdout != "two\n" {
			t.Errorf("asked %s: %s", got, r.Text())
		}
		// A question about a file that was there showed nothing of its mode: when it is
		// made anew, the yes is for making it alone.
		g = newGround(t, nobody)
		writeFile(t, g, g.Outside+"/f")
		const python = `import os, time
def make(): os.close(os.open("%[1]s", os.O_WRONLY | os.O_CREAT))
make(); os.unlink("%[1]s"); make()
try: os.chmod("%[1]s", 0o600); print("DONE")
except OSError as e: print("no", e.errno)`
		a = answerAll(g, []string{"allow", "--scope", "session"}, []string{"allow"}, []string{"deny"})
		r = g.Supervised(trial.Options{Flags: []string{"--ask", "control"}}, "/usr/bin/python3", "-c", fmt.Sprintf(python, g.Outside+"/f"))
		a.Stop()
		if got := strings.Join(asks(a), ", "); regexp.MustCompile(`\.\d+`).ReplaceAllString(got, "") != "python3 open f, python3 delete f, python3 chmod f" || r.Stdout != "no 13\n" {
			t.Errorf("asked %s: %s", got, r.Text())
		}
	})
}

func writeFile(t *testing.T, g *trial.Ground, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g.Own(path)
	g.Rebase()
}

package approvals_test

import (
	"os"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestSettingsAsShown: a yes to a change of git's settings is for what the lock said
// when it was asked about, and a yes for the session for the settings that it named.
func TestSettingsAsShown(t *testing.T) {
	trial.NeedProgram(t, "git")
	type step struct{ adds, answer, scope string }
	const evil = "[core]\n\tpager = evil\n"
	for name, c := range map[string]struct {
		steps    []step // what the lock gets while each question waits, and its answer
		script   string
		reasons  []string
		settings string // of user.name and core.pager afterwards
	}{
		"as shown": {[]step{{"", "allow", "once"}}, "git config user.name n", []string{"changes user.name,"}, "n\n"},
		"changed meanwhile": {[]step{{evil, "allow", "once"}, {"", "deny", "once"}}, "git config user.name n",
			[]string{"changes user.name,", "changes core.pager, user.name,"}, ""},
		"changed, and allowed": {[]step{{evil, "allow", "once"}, {"", "allow", "once"}}, "git config user.name n",
			[]string{"changes user.name,", "changes core.pager, user.name,"}, "n\nevil\n"},
		"for the session": {[]step{{"", "allow", "session"}, {"", "deny", "once"}}, "git config user.name n; git config user.name m; git config core.pager evil",
			[]string{"changes user.name,", "changes core.pager,"}, "m\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, nobody bool) {
				g := newGround(t, nobody)
				var reasons []string
				lock := g.Workspace + "/.git/config.lock"
				a := g.Approve(func(q trial.Question) []string {
					reasons = append(reasons, q.Operation.Reason)
					i := min(len(reasons), len(c.steps)) - 1
					f, err := os.OpenFile(lock, os.O_WRONLY|os.O_APPEND, 0)
					if err != nil {
						t.Error(err)
						return []string{"deny"}
					}
					defer f.Close()
					if _, err := f.WriteString(c.steps[i].adds); err != nil {
						t.Error(err)
					}
					return []string{c.steps[i].answer, "--scope", c.steps[i].scope}
				})
				r := g.Supervised(trial.Options{Flags: []string{"--ask", "control"}}, "/bin/sh", "-c", c.script)
				a.Stop()
				if len(reasons) != len(c.reasons) {
					t.Fatalf("%d questions: %q %s", len(reasons), reasons, r.Text())
				}
				for i, want := range c.reasons {
					if !strings.Contains(reasons[i], want) {
						t.Errorf("question %d: %q, want %q", i, reasons[i], want)
					}
				}
				got := g.Native(trial.Options{}, "/bin/sh", "-c", "git config --local user.name; git config --local core.pager; true")
				if got.Stdout != c.settings {
					t.Errorf("the settings say %q, want %q", got.Stdout, c.settings)
				}
			})
		})
	}
}

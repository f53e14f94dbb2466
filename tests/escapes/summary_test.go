package escapes_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// summaryLine is what run prints at its end.
var summaryLine = regexp.MustCompile(`(?m)^reeve: (\d+) operations, (\d+) denied, (\d+) lost; (reeve replay (\w+))\n`)

// loud is the command line of a session without -q.
func loud(g *trial.Ground, o trial.Options, argv ...string) []string {
	line := g.Command(o, argv...)
	at := slices.Index(line, "-q")
	return slices.Delete(line, at, at+1)
}

// TestSummary: the last line counts what is on record, operations, denials and
// losses, of a session that is over before it has a bus and of one that is not, and
// names the command that shows it. -q keeps it back, and the status is the command's.
func TestSummary(t *testing.T) {
	for _, c := range []struct {
		name, script string
		status       int
		least        [2]int // operations, denials
	}{
		{"brief", "cat ok.txt", 0, [2]int{2, 0}},
		{"denials", "cat .env; cat .env; cat ok.txt; exit 7", 7, [2]int{4, 2}},
		{"long", "./victim loop open 3000 ok.txt; sleep 0.5; cat .env", 1, [2]int{3001, 1}},
		{"killed", "cat .env; kill -TERM $$", 128 + 15, [2]int{2, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				argv := []string{"/bin/sh", "-c", c.script + " 2> /dev/null"}
				r := g.Native(trial.Options{}, loud(g, trial.Options{}, argv...)...)
				m := summaryLine.FindStringSubmatch(r.Stderr)
				if r.Status != c.status || m == nil || !strings.HasSuffix(r.Stderr, m[0]) || strings.Count(r.Stderr, "\n") > 3 {
					t.Fatalf("status %d, want %d; stderr %q", r.Status, c.status, r.Stderr)
				}
				operations, denials := 0, 0
				for _, e := range g.Events("--session", m[5]) {
					if e.Kind == "request" {
						operations++
						if e.Action == "deny" {
							denials++
						}
					}
				}
				if got := fmt.Sprint(operations, denials, 0); got != strings.Join(m[1:4], " ") {
					t.Errorf("on record are %s (operations, denials, losses), the summary says %q", got, m[0])
				}
				if operations < c.least[0] || denials < c.least[1] {
					t.Errorf("control: %d operations, %d denials, want %v at least", operations, denials, c.least)
				}
				words := strings.Fields(m[4])[1:]
				shown := g.Verb(words...)
				if want := fmt.Sprintf("%s operations, %s denied, %s lost, in ", m[1], m[2], m[3]); shown.Status != 0 || !strings.Contains(shown.Stdout, want) {
					t.Errorf("%s: status %d, no line with %q: %s", m[4], shown.Status, want, shown.Text())
				}
				if r := g.Supervised(trial.Options{}, argv...); summaryLine.MatchString(r.Stderr) {
					t.Errorf("with -q: %s", r.Stderr)
				}
			})
		})
	}
}

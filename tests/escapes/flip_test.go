package escapes_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// attempts stands for how often each race is run: most times, or fewer when a
// second user repeats it.
const (
	attempts = "ATTEMPTS"
	most     = 100_000
	fewer    = 20_000
)

// times is how often a race is run for a user.
func times(nobody bool) int {
	if nobody {
		return fewer
	}
	return most
}

// raced is argv with n attempts.
func raced(argv []string, n string) []string {
	argv = slices.Clone(argv)
	for i, w := range argv {
		if w == attempts {
			argv[i] = n
		}
	}
	return argv
}

// won says whether a race reached the denied side.
func won(r *trial.Result) bool { return matches(`reached=[1-9]`, r.Stdout) }

// A race opens a name that changes under the call. Natively it reaches the
// denied side; under reeve it must go on opening and never reach it.
type race struct {
	id, name string
	argv     []string
	opt      trial.Options
	root     bool
	// barredEarly is set where the technique itself is refused, so that nothing
	// need be opened.
	barredEarly bool
	// names are the paths that the stream must show, allowed and denied.
	allowed, denied string
}

var score = regexp.MustCompile(`attempts=(\d+) opened=(\d+) reached=(\d+)`)

func scores(t *testing.T, r *trial.Result) (n, opened, reached int) {
	t.Helper()
	m := score.FindStringSubmatch(r.Stdout)
	if m == nil {
		return 0, 0, 0
	}
	n, _ = strconv.Atoi(m[1])
	opened, _ = strconv.Atoi(m[2])
	reached, _ = strconv.Atoi(m[3])
	return n, opened, reached
}

// TestRaces: 100,000 attempts each (see trial.Attempts), no secret read.
func TestRaces(t *testing.T) {
	policy := trial.Options{Policy: true}
	flip := func(words ...string) []string { return append(words, "{ws}/p1/x/f", "{ws}/p2/x/f") }
	swap := func(words ...string) []string { return append(words, "{ws}/p1", "{ws}/p2", "x/f") }
	races := []race{
		{id: "P01", name: "thread", opt: policy, argv: flip("flip-thread", attempts), allowed: "{ws}/p1/x/f", denied: "{ws}/p2/x/f"},
		{id: "P01", name: "thread default profile", argv: []string{"flip-thread", attempts, "{ok}", "{secret}"},
			allowed: "{ok}", denied: "{secret}"},
		{id: "P02", name: "shared page", opt: policy, argv: flip("flip-shared", attempts), allowed: "{ws}/p1/x/f", denied: "{ws}/p2/x/f"},
		{id: "P02", name: "shared memory", opt: policy, argv: flip("flip-clone-vm", attempts), allowed: "{ws}/p1/x/f", denied: "{ws}/p2/x/f"},
		{id: "P03", name: "process_vm_writev", opt: policy, argv: flip("flip-remote", "vm", attempts)},
		{id: "P03", name: "mem file", opt: policy, argv: flip("flip-remote", "mem", attempts)},
		{id: "P03", name: "userfaultfd", opt: policy, argv: flip("flip-userfault", trial.Attempts(2000)), root: true, barredEarly: true},
		{id: "P04", name: "symlink", opt: policy, argv: []string{"swap-link", attempts, "{ws}/l", "{ws}/p1/x/f", "{ws}/p2/x/f"},
			denied: "{ws}/p2/x/f"},
		{id: "P06", name: "directory descriptor", opt: policy, argv: swap("swap-dirfd", attempts), allowed: "{ws}/p1/x/f", denied: "{ws}/p2/x/f"},
		{id: "P07", name: "working directory", opt: policy, argv: swap("swap-cwd", attempts), allowed: "{ws}/p1/x/f", denied: "{ws}/p2/x/f"},
		{id: "P15", name: "exchanged directories", opt: policy, argv: swap("swap-exchange", attempts), allowed: "{ws}/p1/x/f"},
	}
	seen := map[string]bool{}
	for _, r := range races {
		t.Run(r.id+"/"+r.name, func(t *testing.T) {
			trial.Sample(t, seen, r.id)
			tiers(t, r.root, func(t *testing.T, nobody bool) { r.try(t, nobody) })
		})
	}
}

func (r race) try(t *testing.T, nobody bool) {
	argv := append([]string{"{victim}"}, r.argv...)
	r.opt.Timeout = 3 * time.Minute
	c := trial.NewGround(t, nobody)
	trial.Won(t, "control: the denied side is reached", trial.ControlAttempts(times(nobody)), func(n string) (bool, *trial.Result) {
		os.Remove(c.Expand("{ws}/l")) // what P04 made
		r := c.Native(r.opt, raced(argv, n)...)
		return won(r), r
	})
	g := trial.NewGround(t, nobody)
	got := g.Supervised(r.opt, raced(argv, trial.Attempts(times(nobody)))...)
	n, opened, reached := scores(t, got)
	t.Logf("%d attempts, %d opened, %d reached, %v", n, opened, reached, got.Took.Round(time.Millisecond))
	if reached != 0 {
		t.Errorf("%d of %d attempts reached the denied side", reached, n)
	}
	if opened == 0 && !r.barredEarly {
		t.Errorf("nothing was opened at all: status %d: %s", got.Status, got.Text())
	}
	for _, c := range g.Changes() {
		t.Errorf("protected object changed: %s", c)
	}
	r.seen(t, g, got.Events)
}

// seen requires that the stream shows both sides of the race, each with its verdict.
func (r race) seen(t *testing.T, g *trial.Ground, events []trial.Event) {
	var allowed, denied int
	for _, e := range events {
		if e.Op != "open" {
			continue
		}
		switch path := e.Object.Path; {
		case path == g.Expand(r.allowed) && e.Action == "allow":
			allowed++
		case path == g.Expand(r.denied) && e.Action == "deny":
			denied++
		case path == g.Expand("{ws}/p2/x/f") && e.Action != "deny", path == g.Expand("{secret}") && e.Action != "deny":
			t.Fatalf("the denied side was allowed: %v", &e)
		}
	}
	if r.allowed != "" && allowed == 0 {
		t.Errorf("the stream shows no allowed open of %s", g.Expand(r.allowed))
	}
	if r.denied != "" && denied == 0 {
		t.Errorf("the stream shows no denied open of %s", g.Expand(r.denied))
	}
	if r.denied == "" && len(trial.Denials(events)) == 0 {
		t.Errorf("the stream shows no denial")
	}
}

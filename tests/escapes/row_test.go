// Package escapes_test is the list of ways out that must stay shut, one test a
// row, each with a control: the same technique without reeve succeeds, so that
// the test can fail. Rows are named as in the list (A01, P09 …).
package escapes_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

func TestMain(m *testing.M) { trial.Main(m) }

// A row is one technique, what it does natively, and what it must do under
// reeve. Words hold the places of trial.Ground.Expand.
type row struct {
	id, name string
	// argv is a technique of the victim and its arguments, or a whole command
	// when its first word is a path or a place. One with attempts is a race.
	argv []string
	opt  trial.Options
	// native must match the control's output; empty is "ret=" not negative.
	native string
	// want must match the output under reeve; empty is a refusal with EACCES.
	want string
	// deny is the one denial of the session; nil says that there is none.
	deny *trial.Denial
	// many allows further denials beside deny.
	many bool
	// root is set where the control needs privilege.
	root bool
	// prepare changes the ground before the run, both of them.
	prepare func(t *testing.T, g *trial.Ground)
	// after looks at what came of a run; supervised tells which.
	after func(t *testing.T, g *trial.Ground, r *trial.Result, supervised bool)
}

const (
	succeeded = `ret=\d+ errno=0`
	refused   = `ret=-1 errno=13`
	// barred is what the kernel's own surfaces answer.
	barred = `ret=-1 errno=(1|13|38)\b`
)

func (r row) command() []string {
	if strings.HasPrefix(r.argv[0], "/") || strings.HasPrefix(r.argv[0], "{") {
		return r.argv
	}
	return append([]string{"{victim}"}, r.argv...)
}

// run runs every row as root and as an ordinary user, as far as the test may
// and as the engine serves them.
func run(t *testing.T, rows []row) {
	seen := map[string]bool{}
	for _, r := range rows {
		t.Run(r.id+"/"+r.name, func(t *testing.T) {
			trial.Sample(t, seen, r.id)
			tiers(t, r.root, func(t *testing.T, nobody bool) { r.try(t, nobody) })
		})
	}
}

// tiers runs f for the test's own user, and as nobody when that is root. Engine
// lsm is root's alone, and a sample is too.
func tiers(t *testing.T, root bool, f func(t *testing.T, nobody bool)) {
	if os.Geteuid() != 0 {
		if root {
			trial.NeedRoot(t)
		}
		t.Run("user", func(t *testing.T) { f(t, false) })
		return
	}
	t.Run("root", func(t *testing.T) { f(t, false) })
	if !root && trial.Engine() != "lsm" && !trial.Sampled() {
		t.Run("user", func(t *testing.T) { f(t, true) })
	}
}

func (r row) try(t *testing.T, nobody bool) {
	want := or(r.want, refused)
	c := trial.NewGround(t, nobody)
	r.ready(t, c)
	r.look(t, c, r.control(t, c), false)

	g := trial.NewGround(t, nobody)
	r.ready(t, g)
	got := g.Supervised(r.opt, raced(r.command(), trial.Attempts(most))...)
	if !regexp.MustCompile(want).MatchString(got.Text()) {
		t.Errorf("output does not match %q (status %d): %s", want, got.Status, got.Text())
	}
	g.KeptSecret(got)
	r.judge(t, g, got)
	r.look(t, g, got, true)
}

// control is the run without reeve, which must do what it does natively.
func (r row) control(t *testing.T, c *trial.Ground) (control *trial.Result) {
	t.Helper()
	native := or(r.native, succeeded)
	try := func(n string) (bool, *trial.Result) {
		control = c.Native(r.opt, raced(r.command(), n)...)
		return matches(native, control.Text()), control
	}
	if slices.Contains(r.argv, attempts) {
		trial.Won(t, "control: output matches "+native, trial.ControlAttempts(most), try)
	} else if ok, _ := try(""); !ok {
		t.Fatalf("control: output does not match %q, the technique does nothing here: %s", native, control.Text())
	}
	return control
}

func (r row) judge(t *testing.T, g *trial.Ground, got *trial.Result) {
	switch {
	case r.opt.NoEvents:
	case r.deny == nil:
		for _, e := range trial.Denials(got.Events) {
			t.Errorf("denied: %v", &e)
		}
	default:
		d := *r.deny
		d.Path, d.Target = g.Expand(d.Path), g.Expand(d.Target)
		if r.many {
			trial.SomeDenial(t, got.Events, d)
		} else {
			trial.OneDenial(t, got.Events, d)
		}
	}
}

func (r row) ready(t *testing.T, g *trial.Ground) {
	if r.prepare != nil {
		r.prepare(t, g)
	}
}

func (r row) look(t *testing.T, g *trial.Ground, got *trial.Result, supervised bool) {
	if r.after != nil {
		r.after(t, g, got, supervised)
	}
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// call is the victim's command for one system call.
func call(nr int, words ...any) []string {
	return append([]string{"call"}, line(nr, words...)...)
}

// readCall is call, and prints what the returned descriptor reads.
func readCall(nr int, words ...any) []string {
	return append([]string{"call", "cat"}, line(nr, words...)...)
}

func line(nr int, words ...any) []string {
	out := []string{fmt.Sprint(nr)}
	for _, w := range words {
		out = append(out, fmt.Sprint(w))
	}
	return out
}

// how is a struct open_how as the victim's word for its bytes.
func how(flags, mode, resolve uint64) string {
	b := binary.LittleEndian.AppendUint64(nil, flags)
	b = binary.LittleEndian.AppendUint64(b, mode)
	return "x:" + hex.EncodeToString(binary.LittleEndian.AppendUint64(b, resolve))
}

// openDenied is the denial of an open of path.
func openDenied(path string) *trial.Denial {
	return &trial.Denial{Ops: []string{"open"}, Path: path}
}

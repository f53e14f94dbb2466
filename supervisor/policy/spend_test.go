package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// TestSpending: the automaton by which the kernel's hooks know what is no loss says
// what the supervisor says.
func TestSpending(t *testing.T) {
	p := load(t, "")
	rules, yes := p.spending()
	auto, err := automaton.Compile(rules, automaton.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", auto.Stats())
	r := rand.New(rand.NewPCG(5, 6))
	var no, is int
	for range 200000 {
		path := spendablePath(r, p)
		got := yes(auto.Winners(auto.Accept(auto.Run(auto.Start(), p.files.temp.alias(path)))))
		if want := p.expendable(path); got != want {
			t.Fatalf("%q: the automaton says %v, the policy %v", path, got, want)
		}
		if got {
			is++
		} else {
			no++
		}
	}
	if is < 1000 || no < 1000 {
		t.Errorf("%d are expendable, %d are not: the test is too easy", is, no)
	}
}

// TestHooksSpend: so do the hooks, for each kind of policy.
func TestHooksSpend(t *testing.T) {
	needsRoot(t)
	p := load(t, "")
	plan, err := p.LowerHooks(Terms{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := lsm.NewJudge(plan.Hooks)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r := rand.New(rand.NewPCG(7, 8))
	is := 0
	for range 3000 {
		path := spendablePath(r, p)
		a, err := j.Ask(lsm.Question{Path: path, Need: event.AccessWrite})
		if err != nil {
			t.Fatal(err)
		}
		if want := p.expendable(path); a.Expendable != want {
			t.Fatalf("%q: the hooks say %v, the policy %v", path, a.Expendable, want)
		}
		if a.Expendable {
			is++
		}
	}
	if is < 500 || is > 2500 {
		t.Errorf("%d of 3000 are expendable: the test is too easy", is)
	}
}

// spendablePath is a path of names that builds use, or nearly.
func spendablePath(r *rand.Rand, p *Policy) string {
	var b strings.Builder
	heads := append([]string{"", "/home/u", "/tmp", "/dev", "/dev/shm", "/proc/1", "/var/tmp", p.host.Tmp, p.host.Cache}, p.host.Workspaces...)
	b.WriteString(heads[r.IntN(len(heads))])
	for i := r.IntN(4); i >= 0; i-- {
		b.WriteByte('/')
		names := p.tables.scratch.folders.names
		if r.IntN(2) == 0 {
			names = p.tables.scratch.artifacts.names
		}
		name := strings.ReplaceAll(names[r.IntN(len(names))], "*", []string{"", "x", ".", "~", "a.b"}[r.IntN(5)])
		switch r.IntN(6) {
		case 0:
			name = "src"
		case 1:
			name += "x"
		case 2:
			name = "y" + name
		case 3:
			name = name[:r.IntN(len(name))+0] + "z"
		}
		b.WriteString(name)
	}
	return b.String()
}

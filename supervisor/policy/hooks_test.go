package policy

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// TestHookTable is the size of the table for 500 rules.
func TestHookTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("[permissions.many]\nextends = \":workspace\"\n[permissions.many.filesystem]\n")
	for i := range 500 {
		fmt.Fprintf(&b, "\"/srv/project-%d/**/data-%d*.bin\" = \"%s\"\n", i%50, i, []string{"deny", "read", "write"}[i%3])
	}
	p := load(t, "many", source(Session, b.String()))
	cells := 0
	for _, plane := range hookRules(t, p).Planes {
		if plane.Auto != nil {
			tables := plane.Auto.Tables()
			cells += len(tables.Next) + len(tables.Accept)
		}
	}
	size := 4
	for size < 4*cells { // it is a power of two
		size *= 2
	}
	t.Logf("%d bytes", size)
	if size > 4<<20 {
		t.Errorf("the table takes %d bytes, more than 4 MiB", size)
	}
}

func BenchmarkHook(b *testing.B) {
	needsRoot(b)
	p, err := Load(nil, DefaultProfile, testHost())
	if err != nil {
		b.Fatal(err)
	}
	j, err := lsm.NewJudge(hookRules(b, p))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	const times = 1000
	for _, n := range []int{20, 60, 250, 4000} {
		path := "/home/u/ws/" + strings.Repeat("abcdefghi/", n/10)
		path = strings.TrimSuffix(path[:n], "/")
		for _, record := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/record=%v", n, record), func(b *testing.B) {
				var total, runs float64
				for b.Loop() {
					a, err := j.Ask(lsm.Question{Path: path, Need: event.AccessRead, Times: times, Record: record})
					if err != nil || a.Errno != 0 {
						b.Fatal(a, err)
					}
					total, runs = total+float64(a.Took), runs+times
					if n, err := j.Drain(); record && n != times || err != nil {
						b.Fatal(n, err)
					}
				}
				b.ReportMetric(total/runs, "ns/judgement")
			})
		}
	}
}

// BenchmarkHooks is what the hooks' code adds to an allowed open of a file six
// directories deep, under each profile. The best of all rounds is told, too, since a
// virtual machine is not alone on its processor.
func BenchmarkHooks(b *testing.B) {
	needsRoot(b)
	ws := b.TempDir()
	path := filepath.Join(ws, strings.Repeat("directory/", max(0, 5-strings.Count(ws, "/"))), "main.go")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	host := testHost()
	host.Workspaces = []string{ws}
	for _, profile := range []string{DefaultProfile, "read-only", "observe"} {
		b.Run(fmt.Sprintf("%s/depth=%d/bytes=%d", profile, strings.Count(path, "/"), len(path)), func(b *testing.B) {
			p, err := Load(nil, profile, host)
			if err != nil {
				b.Fatal(err)
			}
			j, err := lsm.NewJudge(hookRules(b, p))
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			const times = 5000
			total, best, rounds := 0.0, math.MaxFloat64, 0.0
			for b.Loop() {
				took, refused, err := j.Hold(int(f.Fd()), times)
				if err != nil || refused != 0 {
					b.Fatal(refused, err)
				}
				ns := float64(took) / times
				total, best, rounds = total+ns, min(best, ns), rounds+1
				if n, err := j.Drain(); n != times || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(total/rounds, "ns/open")
			b.ReportMetric(best, "ns/best")
		})
	}
}

// TestLowerHooks is what each profile leaves to the hooks.
func TestLowerHooks(t *testing.T) {
	const hook, perform, cont = gate.Hook, gate.Perform, gate.Continue
	for _, tt := range []struct {
		profile                   string
		read, write, tree, signal gate.Handling
		names                     bool
		closed                    lsm.Surface
	}{
		{"read-only", hook, perform, perform, cont, false, lsm.Mount | lsm.Connect | lsm.Tree | lsm.Socket | lsm.Ptrace | lsm.BPF},
		{"workspace-edit-no-net", hook, perform, perform, cont, false, lsm.Mount | lsm.Connect | lsm.Bind | lsm.Send | lsm.Namespace},
		{"privileged-manual", hook, perform, perform, cont, false, lsm.Mount | lsm.Connect},
		{"observe", hook, hook, cont, cont, true, 0},
	} {
		p := load(t, tt.profile)
		plan, err := p.LowerHooks(Terms{Asked: true})
		if err != nil {
			t.Fatal(err)
		}
		h := plan.Handling
		if h[gate.Read] != tt.read || h[gate.Write] != tt.write || h[gate.Tree] != tt.tree || h[gate.Signal] != tt.signal || h[gate.Exec] != cont {
			t.Errorf("%s: %v", tt.profile, h)
		}
		if plan.Hooks.Names != tt.names || plan.Hooks.Closed&tt.closed != tt.closed || tt.closed == 0 && plan.Hooks.Closed != 0 {
			t.Errorf("%s: names %v, closed %x", tt.profile, plan.Hooks.Names, plan.Hooks.Closed)
		}
		if plan.Floor.HandledFS != 0 || len(plan.Floor.Paths) > 0 {
			t.Errorf("%s: Landlock would refuse what the hooks allow: %+v", tt.profile, plan.Floor)
		}
		if plan.Hooks.Bulk.Files != 0 {
			t.Errorf("%s: the hooks count what is notified: %+v", tt.profile, plan.Hooks.Bulk)
		}
		alone, err := p.LowerHooks(Terms{})
		if err != nil {
			t.Fatal(err)
		}
		limit := alone.Hooks.Bulk
		if alone.Handling[gate.Read] != hook || alone.Handling[gate.Write] != hook || alone.Handling[gate.Tree] != tt.tree ||
			tt.profile != "observe" && (limit.Files != 50 || limit.Held.Action != event.ActionDeny || limit.Held.By != "policy:"+tt.profile) {
			t.Errorf("%s, with nobody to ask: %v, %+v", tt.profile, alone.Handling, limit.Held)
		}
		strict, err := p.LowerHooks(Terms{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if strict.Handling[gate.Read] == hook || strict.Handling[gate.Write] == hook {
			t.Errorf("%s, strict: %v", tt.profile, strict.Handling)
		}
	}
}

// TestRingOpensNames: where a session may have a ring, the hooks of names and
// attributes have work.
func TestRingOpensNames(t *testing.T) {
	p := load(t, "r", source(Session, "[permissions.r]\nextends = \":workspace\"\n[permissions.r.kernel]\nallow = [\"io_uring\"]\n"))
	rules := hookRules(t, p)
	if !rules.Names || rules.Closed&lsm.Xattr == 0 || rules.Closed&lsm.Tree == 0 {
		t.Errorf("names %v, closed %x", rules.Names, rules.Closed)
	}
}

// TestTrapped is the table of what is notified, profile by profile and engine by
// engine.
func TestTrapped(t *testing.T) {
	var b strings.Builder
	for _, name := range builtInNames {
		p := load(t, name)
		performed, err := p.Lower()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", name)
		trapped(&b, "unotify", &performed)
		for _, terms := range []Terms{{Asked: true}, {}} {
			hooked, err := p.LowerHooks(terms)
			if err != nil {
				t.Fatal(err)
			}
			trapped(&b, map[bool]string{true: "lsm", false: "lsm, with nobody to ask"}[terms.Asked], &hooked)
		}
	}
	golden(t, "trapped.golden", b.String())
}

func trapped(b *strings.Builder, engine string, plan *tracer.Plan) {
	h := plan.Handling
	h[gate.Signal] = gate.Continue // as at every start
	var always, some []string
	for _, r := range gate.Rules(h, plan.AllowKernel, true, true) {
		switch {
		case r.Errno != 0:
		case len(r.Any) > 0:
			some = append(some, r.Name)
		default:
			always = append(always, r.Name)
		}
	}
	slices.Sort(always)
	slices.Sort(some)
	fmt.Fprintf(b, "  %s\n    by their arguments: %s\n    always: %s\n", engine, strings.Join(some, " "), strings.Join(always, " "))
}

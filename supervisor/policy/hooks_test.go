package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// needsRoot skips a test that loads programs, unless root is required.
func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if strings.Contains(os.Getenv("REQUIRE"), "root") {
		t.Fatal("REQUIRE=root, but this test needs root")
	}
	t.Skip("needs root: loads BPF programs")
}

const hidingText = `
[permissions.h]
extends = ":workspace"
[permissions.h.filesystem]
"/srv" = "read"
"/srv/h*" = "hide"
"/srv/a" = "ask"
"/srv/w" = "ask-write"
[permissions.h.exec]
"/usr/bin/x" = "deny"
"/usr/lib/**/*.so" = "ask"
`

// alwaysText fills every plane that a policy can have.
const alwaysText = `
[permissions.always]
extends = ":workspace"
[permissions.always.filesystem]
"/srv" = "write"
"/srv/h*" = "read"
[permissions.always.exec]
"/usr/bin/x" = "deny"
[permissions.always.always]
"/srv/hx" = "deny"
"/srv/**/a" = "ask"
"/srv/w" = "read"
`

// TestHooksAgree asks the three who must say the same: Decide, Explain and the
// kernel's own run of the automata.
func TestHooksAgree(t *testing.T) {
	needsRoot(t)
	policies := []*Policy{
		load(t, ""), load(t, "privileged-manual"), load(t, "read-only"), load(t, "observe"),
		load(t, "h", source(Session, hidingText)), load(t, "", source(Project, designText)), load(t, "always", source(Session, alwaysText)),
	}
	if n := len(hookRules(t, policies[6]).Planes); n != len(policies[6].planes)+1 {
		t.Errorf("the policy with an always table has %d planes: the test is too easy", n)
	}
	for _, p := range policies {
		rules := hookRules(t, p)
		j, err := lsm.NewJudge(rules)
		if err != nil {
			t.Fatal(err)
		}
		denied := 0
		r := rand.New(rand.NewPCG(3, 4))
		for range 1000 {
			req := randomOpen(r)
			d, e := p.Decide(req), p.Explain(req)
			if e.Decision != d {
				t.Fatalf("%s: %+v: explained %+v, decided %+v", p.Name(), req, e.Decision, d)
			}
			q := lsm.Question{Path: req.Object.Path, Need: req.Access, Made: req.Object.Kind == event.ObjectMissing}
			if q.Made {
				q.Need = event.AccessWrite
			}
			got, err := j.Ask(q)
			if err != nil {
				t.Fatal(err)
			}
			if want := opensWith(d); got.Errno != want {
				t.Fatalf("%s: %s of %q (made %v): the hooks say %d (%s), the policy %d %+v", p.Name(), req.Access, req.Object.Path, q.Made, got.Errno, got.Why, want, d)
			}
			if got.Errno != 0 {
				denied++
			}
		}
		if denied < 10 {
			t.Errorf("%s: %d denials: the test is too easy", p.Name(), denied)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHooksOwn: in a directory that the session made the hooks let no more be written
// than the policy does in a repository that it made, and of what says where a
// repository is as much.
func TestHooksOwn(t *testing.T) {
	needsRoot(t)
	for _, p := range []*Policy{load(t, ""), load(t, "privileged-manual"), load(t, "", source(Project, designText)), load(t, "always", source(Session, alwaysText))} {
		j, err := lsm.NewJudge(hookRules(t, p))
		if err != nil {
			t.Fatal(err)
		}
		lifted := 0
		r := rand.New(rand.NewPCG(9, 10))
		dirs := []string{"", "/sub", "/.git", "/.git/worktrees/t", "/x.git/worktrees/t", "/.git/hooks", "/.git/modules/m", "/.github", "/.git/worktrees/t/modules/m"}
		names := []string{".git", "gitdir", "commondir", "config", "config.lock", "HEAD", "pre-commit", "x.sample", "ci.yml", ".env", ".envrc", "f", ".claude", "Jenkinsfile"}
		for range 2000 {
			path := "/home/u/ws" + dirs[r.IntN(len(dirs))] + "/" + names[r.IntN(len(names))]
			req := &event.Request{Op: event.OpOpen, Access: event.AccessWrite, Task: event.Task{PID: 77, TID: 77}, Object: event.Object{Kind: event.ObjectFile, Path: path}}
			if r.IntN(2) == 0 {
				req.Op, req.Object.Kind, req.Access = event.OpCreate, event.ObjectMissing, event.AccessWrite|event.AccessCreate
			}
			ask := func(own bool) bool {
				a, err := j.Ask(lsm.Question{Path: path, Need: event.AccessWrite, Made: req.Op == event.OpCreate, Own: own})
				if err != nil {
					t.Fatal(err)
				}
				return a.Errno == 0
			}
			strange, own := ask(false), ask(true)
			req.Born = true
			d := p.Decide(req)
			if own && d.Action != event.ActionAllow || strange && !own {
				t.Fatalf("%s: %s of %s: the hooks let it be (%v where the directory is a stranger's), the policy says %+v", p.Name(), req.Op, path, strange, d)
			}
			link := slices.Contains([]string{"/home/u/ws/.git", "/home/u/ws/sub/.git", "/home/u/ws/.git/worktrees/t/gitdir", "/home/u/ws/x.git/worktrees/t/commondir"}, path)
			if link && own != (d.Action == event.ActionAllow) {
				t.Fatalf("%s: %s of %s: the hooks say %v, the policy %+v", p.Name(), req.Op, path, own, d)
			}
			if own && !strange {
				lifted++
			}
		}
		if lifted < 25 {
			t.Errorf("%s: %d of 2000 pass in a directory of the session's own: the test is too easy", p.Name(), lifted)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func hookRules(t testing.TB, p *Policy) *lsm.Rules {
	t.Helper()
	plan, err := p.LowerHooks(Terms{Asked: true})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Hooks
}

func opensWith(d event.Decision) int32 {
	if d.Action == event.ActionAllow {
		return 0
	}
	if d.Errno == 0 {
		return int32(syscall.EACCES)
	}
	return d.Errno
}

// randomOpen opens, makes or runs what may or may not be somewhere.
func randomOpen(r *rand.Rand) *event.Request {
	path := randomPath(r)
	switch r.IntN(8) {
	case 0:
		path = []string{"/dev/pts/3", "/dev/pts/ptmx", "/dev/tty", "/dev/tty1", "/dev/ttyS0/x", "/dev/console", "/dev/vcsa", "/dev/pts", "/dev/hvc0", "/"}[r.IntN(10)]
	case 1:
		path = []string{"/srv", "/srv/", "/usr/bin", "/usr/lib", "/tmp/reeve-01S", "/tmp/reeve-02T"}[r.IntN(6)]
		path = strings.TrimSuffix(path, "/") + "/" + []string{"h", "hx", "a", "w", "x", "l.so"}[r.IntN(6)]
	}
	// Numbers of tasks are not the session's own here: nobody is.
	path = strings.ReplaceAll(path, "/proc/77", "/proc/4000000")
	accesses := []event.Access{event.AccessRead, event.AccessWrite, event.AccessRead | event.AccessWrite, event.AccessExec}
	req := &event.Request{Op: event.OpOpen, Access: accesses[r.IntN(len(accesses))], Task: event.Task{PID: 77, TID: 77},
		Object: event.Object{Kind: event.ObjectFile, Path: path}}
	if r.IntN(4) == 0 && req.Access != event.AccessExec {
		req.Op, req.Object.Kind = event.OpCreate, event.ObjectMissing
		req.Access |= event.AccessWrite | event.AccessCreate
	}
	if req.Access == event.AccessExec {
		req.Op = event.OpExec
	}
	return req
}

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

package policy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
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

// pairs is how many pairs of a path and an access TestHooksAgree tries under each of
// its seven policies.
const pairs = 750

// TestHooksAgree asks the three who must say the same: what Explain's layers say, as
// found pattern by pattern, the decision by the automata in Go, and the kernel's own
// run of them. Of opens they say the same; of changes of names and metadata, for which
// the hooks are a floor, the hooks allow nothing that the policy refuses for what a
// path is called.
func TestHooksAgree(t *testing.T) {
	needsRoot(t)
	policies := []*Policy{
		load(t, ""), load(t, "privileged-manual"), load(t, "read-only"), load(t, "observe"),
		load(t, "h", source(Session, hidingText)), load(t, "", source(Project, designText)), load(t, "always", source(Session, alwaysText)),
	}
	if n := len(hookRules(t, policies[6]).Planes); n != len(policies[6].planes)+1 {
		t.Errorf("the policy with an always table has %d planes: the test is too easy", n)
	}
	tried := map[string]int{}
	for _, p := range policies {
		j, err := lsm.NewJudge(hookRules(t, p))
		if err != nil {
			t.Fatal(err)
		}
		denied, changes := 0, 0
		r := rand.New(rand.NewPCG(3, 4))
		for range pairs {
			req := randomOpen(r)
			if r.IntN(3) == 0 {
				req = randomChange(r)
			}
			tried[req.Op.String()+" "+req.Access.String()]++
			d := p.Decide(req)
			explained(t, p, req, d)
			got, err := j.Ask(hookQuestion(req))
			if err != nil {
				t.Fatal(err)
			}
			says := fmt.Sprintf("%s: %s %s of %s %q: the hooks say %d (%s), the policy %+v", p.Name(), req.Op, req.Access, req.Object.Kind, req.Object.Path, got.Errno, got.Why, d)
			switch req.Op {
			case event.OpOpen, event.OpCreate, event.OpExec:
				if got.Errno != opensWith(d) {
					t.Fatal(says)
				}
			default:
				if changes++; got.Errno == 0 && d.Action != event.ActionAllow && !byNames(req, d) {
					t.Fatal(says)
				}
			}
			if got.Errno != 0 {
				denied++
			}
		}
		if denied < 10 || changes < pairs/4 {
			t.Errorf("%s: %d denials, %d changes: the test is too easy", p.Name(), denied, changes)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for access, n := range tried {
		if n < 50 {
			t.Errorf("only %d of %s", n, access)
		}
	}
	t.Logf("%d pairs: %v", pairs*len(policies), tried)
}

// explained requires that what is said of a decision amounts to it, both as it is
// printed and as found by trying every pattern. Terminals are no layer's.
func explained(t *testing.T, p *Policy, req *event.Request, d event.Decision) {
	t.Helper()
	if d.Rule == terminalRule {
		return
	}
	e := p.Explain(req)
	said, found := event.ActionNone, event.ActionNone
	for _, l := range e.Layers {
		said = max(said, l.Action)
	}
	for _, a := range naive(p, req) {
		found = max(found, a)
	}
	allowed := d.Action == event.ActionAllow
	if e.Decision != d || (said > event.ActionAllow) == allowed || (found > event.ActionAllow) == allowed {
		t.Fatalf("%s: %s %s of %q: decided %+v, explained %+v by layers that say %s, and %s pattern by pattern", p.Name(), req.Op, req.Access, req.Object.Path, d, e.Decision, said, found)
	}
}

// hookQuestion is what the hooks are asked about an operation.
func hookQuestion(req *event.Request) lsm.Question {
	q := lsm.Question{Path: req.Object.Path, Need: req.Access, Made: req.Object.Kind == event.ObjectMissing}
	if q.Made || req.Access&(event.AccessRead|event.AccessWrite|event.AccessExec) == 0 {
		q.Need = event.AccessWrite // see bpf/lsm_names.h
	}
	return q
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

// randomChange changes a name, or what is known of a file.
func randomChange(r *rand.Rand) *event.Request {
	req := randomOpen(r)
	req.Object.Kind = event.ObjectFile
	change := []struct {
		op     event.Op
		access event.Access
		kind   event.ObjectKind
	}{
		{event.OpDelete, event.AccessDelete, event.ObjectFile}, {event.OpRmdir, event.AccessDelete, event.ObjectDir},
		{event.OpMkdir, event.AccessCreate, event.ObjectMissing}, {event.OpMknod, event.AccessCreate, event.ObjectMissing},
		{event.OpTruncate, event.AccessWrite, event.ObjectFile}, {event.OpChmod, event.AccessMeta, event.ObjectFile},
		{event.OpChown, event.AccessMeta, event.ObjectFile},
	}[r.IntN(7)]
	req.Op, req.Access, req.Object.Kind, req.Mode = change.op, change.access, change.kind, 0o644
	return req
}

package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
)

// needsLSM skips a test where LSM programs do not load.
func needsLSM(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 && Available() == nil {
		if _, err := neighbour(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if strings.Contains(os.Getenv("REQUIRE"), "lsm") {
		t.Fatalf("REQUIRE=lsm, but: %v", Available())
	}
	t.Skipf("needs BPF LSM: %v", Available())
}

// neighbour is at every hook as long as this binary runs: the last to leave a hook
// waits for 0.1 s, and then it is not a test's engine. It holds nobody.
var neighbour = sync.OnceValues(func() (*Engine, error) {
	return New(Config{Rules: Rules{
		Planes: []Plane{{Need: event.AccessRead, Outcomes: []Outcome{{Read: event.ActionAllow}}}}, Hides: true, Names: true, Closed: Xattr,
	}})
})

// pattern is a glob and what is said of what it matches.
type pattern struct {
	glob string
	out  Outcome
}

var (
	allowAll = Outcome{Read: event.ActionAllow, Write: event.ActionAllow, Exec: event.ActionAllow, Make: event.ActionAllow}
	readOnly = Outcome{Read: event.ActionAllow, Write: event.ActionDeny, Exec: event.ActionAllow, Make: event.ActionDeny}
	denyAll  = Outcome{Read: event.ActionDeny, Write: event.ActionDeny, Exec: event.ActionDeny, Make: event.ActionDeny}
	hideAll  = Outcome{Read: event.ActionDeny, Write: event.ActionDeny, Exec: event.ActionDeny, Make: event.ActionDeny, HideRead: true, HideWrite: true, HideExec: true}
	askAll   = Outcome{Read: event.ActionAsk, Write: event.ActionAsk, Exec: event.ActionAsk, Make: event.ActionAsk}
	makeOnly = Outcome{Read: event.ActionDeny, Write: event.ActionDeny, Exec: event.ActionDeny, Make: event.ActionAllow}
)

// rulesOf is one plane: everything is allowed but what a pattern says.
func rulesOf(t testing.TB, patterns ...pattern) Rules {
	t.Helper()
	rules := []automaton.Rule{{Glob: "/", Below: true}}
	for _, p := range patterns {
		rules = append(rules, automaton.Rule{Glob: p.glob, Below: true})
	}
	auto, err := automaton.Compile(rules, automaton.Config{})
	if err != nil {
		t.Fatal(err)
	}
	plane := Plane{Need: event.AccessRead | event.AccessWrite | event.AccessExec, Auto: auto, Outcomes: make([]Outcome, auto.NumAccepts())}
	for a := range plane.Outcomes {
		plane.Outcomes[a] = allowAll
		if w := auto.Winners(uint32(a)); len(w) > 0 && w[0] > 0 {
			plane.Outcomes[a] = patterns[w[0]-1].out
		}
	}
	r := Rules{Planes: []Plane{plane}, MemoryExec: true}
	for _, p := range patterns {
		r.Hides = r.Hides || p.out.HideRead
	}
	return r
}

// log keeps what the hooks tell.
type log struct {
	mu       sync.Mutex
	accesses []Access
	lost     []Lost
}

func (l *log) Access(a Access) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accesses = append(l.accesses, a)
}

func (l *log) Lost(x Lost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = append(l.lost, x)
}

func (l *log) refusals() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, a := range l.accesses {
		if a.Refused {
			out = append(out, fmt.Sprintf("%s %s %s: %s", a.Op, a.Need, a.Path, a.Why))
		}
	}
	return out
}

// held is a command that the hooks hold.
type held struct {
	t      testing.TB
	engine *Engine
	log    log
	cancel context.CancelFunc
	done   chan error
}

func hold(t testing.TB, rules Rules) *held {
	t.Helper()
	needsLSM(t)
	began := time.Now()
	e, err := New(Config{Session: 7, Rules: rules})
	if err != nil {
		var refused *ebpf.VerifierError
		if errors.As(err, &refused) {
			t.Log(strings.Join(refused.Log[max(0, len(refused.Log)-40):], "\n"))
		}
		t.Fatal(err)
	}
	t.Logf("loaded in %v", time.Since(began))
	h := &held{t: t, engine: e, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() { h.done <- e.Run(ctx, &h.log) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-h.done, e.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// run runs a shell script under the hooks and returns what it writes.
func (h *held) run(script string, args ...string) string {
	h.t.Helper()
	out, err := h.start(script, args...)()
	if err != nil {
		h.t.Logf("%v", err)
	}
	return out
}

// start starts it; what it returns waits for it.
func (h *held) start(script string, args ...string) func() (string, error) {
	h.t.Helper()
	return h.startHeld(script, func(int) {}, args...)
}

// startHeld calls ready with the shell's pid before the script runs.
func (h *held) startHeld(script string, ready func(pid int), args ...string) func() (string, error) {
	h.t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", "read go; " + script, "sh"}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	if err := h.engine.Adopt(cmd.Process.Pid); err != nil {
		h.t.Fatal(err)
	}
	ready(cmd.Process.Pid)
	_, _ = io.WriteString(stdin, "\n")
	return func() (string, error) {
		err := cmd.Wait()
		if h.done != nil { // somebody reads what is recorded
			err = errors.Join(err, h.engine.Settle())
		}
		return out.String(), err
	}
}

// ground is a directory of its own for each test.
func ground(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpens(t *testing.T) {
	dir := ground(t, "ok", "deny/x", "ro", "hide", "ask", "secret")
	h := hold(t, rulesOf(t, pattern{dir + "/deny", denyAll}, pattern{dir + "/ro", readOnly}, pattern{dir + "/hide", hideAll},
		pattern{dir + "/ask", askAll}, pattern{dir + "/*.env", makeOnly}))
	got := h.run(`cd "$1"; D="$1"
		try() { if eval "$2" 2>/tmp/err; then echo "$1 ok"; else echo "$1" $(sed 's/.*: //' /tmp/err); fi; }
		try read 'cat ok >/dev/null'
		try denied 'cat deny/x'
		try denied-new 'echo x >deny/y'
		try append 'echo x >>ok'
		try trunc 'echo x >ok'
		try new 'echo x >new'
		try ro-read 'cat ro >/dev/null'
		try ro-write 'echo x >>ro'
		try hidden 'cat hide'
		try hidden-stat 'stat hide'
		try asked 'cat ask'
		try fresh 'echo x >a.env'
		try fresh-read 'cat a.env'
		try link 'ln -s deny/x l; cat l'
		try again 'cat <ok >/dev/null'
		try proc 'cat /proc/self/root$D/deny/x'
		(cd / && exec chroot "$1" /none) 2>/dev/null
		try run './ok; :'`, dir)
	want := `read ok
denied Permission denied
denied-new Permission denied
append ok
trunc ok
new ok
ro-read ok
ro-write Permission denied
hidden No such file or directory
hidden-stat No such file or directory
asked Permission denied
fresh ok
fresh-read Permission denied
link Permission denied
again ok
proc Permission denied
run ok
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	for _, line := range []string{"open read " + dir + "/deny/x: denied by the policy", "open read " + dir + "/ask: asks; nobody granted it"} {
		if !slices.Contains(h.log.refusals(), line) {
			t.Errorf("no record of %s", line)
		}
	}
	t.Log(strings.Join(h.log.refusals(), "\n"))
	if _, err := os.ReadFile(dir + "/deny/x"); err != nil {
		t.Errorf("outside the session: %v", err)
	}
}

package escapes_test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// A watch is a verb of reeve that prints lines, and when each came.
type watch struct {
	cmd   *exec.Cmd
	began time.Time
	ended chan int // its status, once

	mu    sync.Mutex // guards lines
	lines []timedLine
}

type timedLine struct {
	text string
	at   time.Duration // since the start
}

func startWatch(t *testing.T, g *trial.Ground, args ...string) *watch {
	t.Helper()
	w := &watch{cmd: exec.Command(g.Reeve, append([]string{"--state", g.State}, args...)...), ended: make(chan int, 1), began: time.Now()}
	w.cmd.Dir, w.cmd.Env = g.Workspace, g.Environ()
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: g.Cred}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() }) // it may have ended
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			w.mu.Lock()
			w.lines = append(w.lines, timedLine{s.Text(), time.Since(w.began)})
			w.mu.Unlock()
		}
		w.ended <- trial.ExitStatus(w.cmd.Wait())
	}()
	return w
}

// with are the lines so far that hold text.
func (w *watch) with(text string) (out []timedLine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lines {
		if strings.Contains(l.text, text) {
			out = append(out, l)
		}
	}
	return out
}

// TestFollow: `reeve events --follow` shows the records of a running session while it
// runs, each once, and ends with it: with its end, or with reeve when that is killed.
func TestFollow(t *testing.T) {
	const script = `for n in 1 2 3; do until test -e go$n; do sleep 0.05; done; : > step$n; done; until test -e go4; do sleep 0.05; done`
	for _, killed := range []bool{false, true} {
		t.Run(map[bool]string{false: "ends", true: "killed"}[killed], func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				cmd := start(t, g, g.Command(trial.Options{}, "/bin/sh", "-c", script))
				if !waitFor(t, 20*time.Second, func() bool { return len(trial.SessionIDs(g.Verb("sessions", "--json").Stdout)) == 1 }) {
					t.Fatal("control: the session does not begin")
				}
				w := startWatch(t, g, "events", "--follow", "--json")
				for _, n := range []string{"1", "2", "3"} {
					if len(w.with("/step"+n+`"`)) != 0 {
						t.Fatalf("control: step %s is shown before it is taken", n)
					}
					writeFile(t, g.Expand("{ws}/go"+n), "", 0o644)
					if !waitFor(t, 15*time.Second, func() bool { return len(w.with("/step"+n+`"`)) > 0 }) {
						t.Fatalf("step %s is not shown while the session runs", n)
					}
					select {
					case status := <-w.ended:
						t.Fatalf("it ended, status %d, before the session", status)
					default:
					}
				}
				if killed {
					if err := cmd.Process.Kill(); err != nil {
						t.Fatal(err)
					}
				} else {
					writeFile(t, g.Expand("{ws}/go4"), "", 0o644)
				}
				_ = cmd.Wait() // as killed, or not
				if status := within(t, w.ended, 10*time.Second); status != 0 {
					t.Errorf("status %d", status)
				}
				var shown []trial.Event
				for _, l := range w.with("") {
					var e trial.Event
					if err := json.Unmarshal([]byte(l.text), &e); err != nil {
						t.Fatalf("decode %q: %v", l.text, err)
					}
					shown = append(shown, e)
				}
				if killed {
					if n := len(shown); n == 0 || shown[n-1].Op == "end" || shown[n-1].Seq != uint64(n) {
						t.Errorf("%d records, the last is %v", n, shown[max(0, n-1)])
					}
					return
				}
				whole(t, shown, 10)
				if n := len(g.Events("--session", "last")); n != len(shown) {
					t.Errorf("%d records were shown, there are %d", len(shown), n)
				}
			})
		})
	}
}

// TestReplayPace: a replay takes as long as the session did, or the part of it that
// was asked for; its records come when they came. On a terminal that is the default,
// with pauses of two seconds at most; elsewhere it is done at once. Bounds are from
// below by the record, from above by the time that a replay at once takes.
func TestReplayPace(t *testing.T) {
	const pause, slack = 3 * time.Second, 900 * time.Millisecond
	g := trial.NewGround(t, false)
	g.Supervised(trial.Options{}, "/bin/sh", "-c", ": > before; sleep 3; : > after")
	replay := func(args ...string) (total, between time.Duration) {
		t.Helper()
		w := startWatch(t, g, append([]string{"replay", "last"}, args...)...)
		if status := within(t, w.ended, 30*time.Second); status != 0 {
			t.Fatalf("%v: status %d", args, status)
		}
		total = time.Since(w.began)
		before, after := w.with("/before"), w.with("/after")
		if len(before) == 0 || len(after) == 0 {
			t.Fatalf("control: %v shows not what was done: %v", args, w.with(""))
		}
		return total, after[len(after)-1].at - before[0].at
	}
	quick, _ := replay()
	t.Logf("at once: %v", quick)
	for _, c := range []struct {
		args  []string
		takes time.Duration
	}{
		{[]string{"--speed", "0"}, 0},
		{[]string{"--speed", "1"}, pause},
		{[]string{"--speed", "2.5"}, pause * 2 / 5},
		{[]string{"--speed", "1000"}, pause / 1000},
		{[]string{"--speed", "0.75"}, pause * 4 / 3},
	} {
		total, between := replay(c.args...)
		t.Logf("%v: %v, %v between", c.args, total, between)
		if between < c.takes-50*time.Millisecond {
			t.Errorf("%v: the pause of %v took %v, want %v at least", c.args, pause, between, c.takes)
		}
		if limit := c.takes + c.takes/4 + trial.Patience(slack) + quick; total > limit {
			t.Errorf("%v: it took %v, want %v at most", c.args, total, limit)
		}
	}
	for _, c := range []struct {
		args           []string
		least, biggest time.Duration
	}{{nil, 2 * time.Second, pause}, {[]string{"--speed", "1"}, pause, 2 * pause}, {[]string{"--speed", "0"}, 0, 2 * time.Second}} {
		began := time.Now()
		term := open(t, g, append([]string{g.Reeve, "--state", g.State, "replay", "last"}, c.args...)...)
		if status := term.wait(); status != 0 || !strings.Contains(term.text(), "/after") {
			t.Fatalf("on a terminal, %v: status %d: %s", c.args, status, term.text())
		}
		took := time.Since(began)
		t.Logf("on a terminal, %v: %v", c.args, took)
		if took < c.least || took > c.biggest+trial.Patience(slack)+quick {
			t.Errorf("on a terminal, %v: it took %v, want %v to %v", c.args, took, c.least, c.biggest)
		}
	}
}

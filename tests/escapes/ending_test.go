package escapes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// started begins a command, natively or supervised, and waits for its first words.
func started(t *testing.T, g *trial.Ground, native bool, argv ...string) *exec.Cmd {
	t.Helper()
	line := g.ExpandAll(argv)
	if !native {
		line = g.Command(trial.Options{}, argv...)
	}
	cmd := start(t, g, line)
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	if !waitFor(t, 20*time.Second, func() bool { return strings.Contains(read(g, "ws/notes"), "ready") }) {
		t.Fatalf("the command does not begin: %q", read(g, "ws/notes"))
	}
	return cmd
}

// ended waits for the end of a command, and is its status.
func ended(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return trial.ExitStatus(err)
	case <-time.After(trial.Patience(10 * time.Second)):
		t.Fatal("no end after 10 s")
		return -1
	}
}

// TestEndingSignals: a signal to reeve alone reaches the command. One that ends it
// ends the session with 128+n and leaves nothing of the tree; one that it handles or
// ignores is its own business; all as without reeve, where the tree outlives it.
func TestEndingSignals(t *testing.T) {
	const (
		dies    = `(setsid sh -c 'while :; do sleep 0.05; done' &); echo ready > notes; while :; do sleep 0.05; done`
		handles = `trap 'echo got >> notes; exit 9' SIGNAL; echo ready > notes; while :; do sleep 0.05; done`
		ignores = `trap '' SIGNAL; echo ready > notes; while [ ! -e stop ]; do sleep 0.05; done; exit 3`
	)
	for name, sig := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1,
	} {
		t.Run(name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				for _, native := range []bool{true, false} {
					g := trial.NewGround(t, nobody)
					cmd := started(t, g, native, "/bin/sh", "-c", dies)
					send(t, cmd, sig)
					if got := ended(t, cmd); got != 128+int(sig) {
						t.Errorf("native %v: status %d, want %d", native, got, 128+int(sig))
					}
					alive := len(g.Processes())
					if native && alive == 0 {
						t.Fatal("control: nothing outlives the command")
					}
					if !native && alive != 0 {
						t.Errorf("%d processes live on", alive)
					}

					g = trial.NewGround(t, nobody)
					cmd = started(t, g, native, "/bin/sh", "-c", strings.ReplaceAll(handles, "SIGNAL", name))
					send(t, cmd, sig)
					if got := ended(t, cmd); got != 9 || !strings.Contains(read(g, "ws/notes"), "got") {
						t.Errorf("native %v: status %d after a handled signal, want 9: %q", native, got, read(g, "ws/notes"))
					}

					g = trial.NewGround(t, nobody)
					cmd = started(t, g, native, "/bin/sh", "-c", strings.ReplaceAll(ignores, "SIGNAL", name))
					send(t, cmd, sig)
					time.Sleep(200 * time.Millisecond)
					writeFile(t, g.Workspace+"/stop", "", 0o644)
					if got := ended(t, cmd); got != 3 {
						t.Errorf("native %v: status %d after an ignored signal, want 3", native, got)
					}
				}
			})
		})
	}
}

func send(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// TestEndingChain: what forks and exits faster than anybody looks through the
// processes is ended with its command as well.
func TestEndingChain(t *testing.T) {
	for _, opens := range []string{"open", "none"} {
		tiers(t, false, func(t *testing.T, nobody bool) {
			for _, native := range []bool{true, false, false} {
				g := trial.NewGround(t, nobody)
				writeFile(t, g.Workspace+"/chain", "", 0o644)
				g.Own(g.Workspace)
				line := g.ExpandAll([]string{"{victim}", "chain", "20", "{ws}/chain", opens})
				if !native {
					line = g.Command(trial.Options{}, line...)
				}
				cmd := start(t, g, line)
				t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
				if got := ended(t, cmd); got != 0 {
					t.Errorf("native %v: status %d", native, got)
				}
				// Nobody sees the chain itself: it is asked to say that it is there.
				over := func() bool { _, err := os.Stat(g.Workspace + "/chain.end"); return err == nil }
				if over() {
					t.Fatalf("native %v: the chain has ended by itself", native)
				}
				if err := os.Remove(g.Workspace + "/chain"); err != nil {
					t.Fatal(err)
				}
				lives := waitFor(t, map[bool]time.Duration{true: 5 * time.Second, false: 300 * time.Millisecond}[native], over)
				if lives != native {
					t.Errorf("native %v: the chain outlives its command: %v", native, lives)
				}
			}
		})
	}
}

// TestEndingEarly: a signal that comes while the command is being started reaches it
// or ends it; it is never lost, and nothing of the tree is left.
func TestEndingEarly(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		reached := 0
		later := func(after time.Duration) time.Duration {
			if after < 100*time.Millisecond {
				return after + 3*time.Millisecond
			}
			return 2 * after // a slow machine
		}
		for after := 5 * time.Millisecond; after < 100*time.Millisecond || reached == 0 && after < time.Minute; after = later(after) {
			g := trial.NewGround(t, nobody)
			cmd := start(t, g, g.Command(trial.Options{}, "/bin/sh", "-c", "trap 'exit 9' HUP; while :; do sleep 0.02; done"))
			t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
			time.Sleep(after)
			send(t, cmd, syscall.SIGHUP)
			switch got := ended(t, cmd); got {
			case 9:
				reached++
			case 128 + int(syscall.SIGHUP): // before reeve, or the shell, could take it
			default:
				t.Errorf("%v after the start: status %d", after, got)
			}
			if !waitFor(t, time.Second, func() bool { return len(g.Processes()) == 0 }) {
				t.Errorf("%v after the start: these live on: %v", after, g.Processes())
			}
		}
		if reached == 0 {
			t.Error("control: no signal reached the command")
		}
	})
}

// TestIgnoredSignals: what reeve was started with ignoring, by nohup(1) for example,
// the command ignores.
func TestIgnoredSignals(t *testing.T) {
	argv := []string{"/bin/sh", "-c", "kill -HUP $$; kill -INT $$; echo alive"}
	tiers(t, false, func(t *testing.T, nobody bool) {
		if r := trial.NewGround(t, nobody).Native(trial.Options{}, argv...); r.Status != 128+int(syscall.SIGHUP) {
			t.Fatalf("control: status %d: %s", r.Status, r.Text())
		}
		o := trial.Options{Wrap: []string{"/bin/sh", "-c", `trap '' HUP INT; exec "$@"`, "sh"}}
		native := trial.NewGround(t, nobody).Native(o, argv...)
		r := trial.NewGround(t, nobody).Supervised(o, argv...)
		if native.Stdout != "alive\n" || r.Stdout != native.Stdout || r.Status != native.Status {
			t.Errorf("status %d: %s; natively %d: %s", r.Status, r.Text(), native.Status, native.Text())
		}
	})
}

// TestEndingOnTerminal: so it is on a terminal, shared or relayed.
func TestEndingOnTerminal(t *testing.T) {
	for _, mode := range modes {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(mode+"/"+strconv.Itoa(int(sig)), func(t *testing.T) {
				tiers(t, false, func(t *testing.T, nobody bool) {
					g := trial.NewGround(t, nobody)
					argv := []string{"/bin/sh", "-c", "echo be''gan; while :; do sleep 0.05; done"}
					if mode != "native" {
						argv = g.Command(trial.Options{Flags: []string{"--ask", mode}}, argv...)
					}
					s := open(t, g, argv...)
					s.expect("began")
					send(t, s.cmd, sig)
					if got := s.wait(); got != 128+int(sig) {
						t.Errorf("status %d, want %d: %q", got, 128+int(sig), s.text())
					}
				})
			})
		}
	}
}

// TestSupervisorStopped: a reeve that is stopped lets nothing pass that it guards, goes on
// when it is continued, and when it is killed as it stands the tree dies (K17, K20).
func TestSupervisorStopped(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		cmd := start(t, g, g.Command(trial.Options{}, "{victim}", "beat", "{ws}/notes", "{secret}"))
		t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		beats := func() int { return strings.Count(read(g, "ws/notes"), "\n") }
		if !waitFor(t, 20*time.Second, func() bool { return beats() > 30 }) {
			t.Fatalf("control: nothing beats: %q", read(g, "ws/notes"))
		}
		send(t, cmd, syscall.SIGSTOP)
		time.Sleep(100 * time.Millisecond) // what was answered already
		before := beats()
		time.Sleep(500 * time.Millisecond)
		hooked := trial.Engine() == "lsm" // which judge, whether reeve runs or not
		if after := beats(); (after > before) != hooked {
			t.Errorf("%d beats while reeve was stopped", after-before)
		}
		send(t, cmd, syscall.SIGCONT)
		if !waitFor(t, 5*time.Second, func() bool { return beats() > before+30 }) {
			t.Errorf("the tree does not go on: %d beats", beats()-before)
		}
		send(t, cmd, syscall.SIGSTOP)
		send(t, cmd, syscall.SIGKILL)
		if !waitFor(t, time.Second, func() bool { return len(g.Processes()) == 0 }) {
			t.Errorf("a second after the kill these live: %v", g.Processes())
		}
		if got := ended(t, cmd); got == 0 {
			t.Error("status is 0")
		}
		if notes := read(g, "ws/notes"); strings.Contains(notes, "LEAKED") || strings.Contains(notes, "empty") {
			t.Errorf("the secret was opened: %s", notes)
		}
	})
}

// TestEndAtOnce: when the command has ended on its terminal, so has reeve: nobody
// holds the terminal for which reeve would wait. The best of some tries, as the
// machine may be busy.
func TestEndAtOnce(t *testing.T) {
	const wait = time.Second // half of what reeve waits for one who holds it
	best := time.Minute
	for range 5 {
		g := trial.NewGround(t, false)
		s := open(t, g, g.Command(trial.Options{Flags: []string{"--ask", "tty"}}, "/bin/sh", "-c", "echo be''gan; read line")...)
		s.expect("began")
		began := time.Now()
		s.write("\n")
		if got := s.wait(); got != 0 {
			t.Fatalf("status %d: %q", got, s.text())
		}
		if best = min(best, time.Since(began)); best < trial.Patience(wait) {
			return
		}
	}
	t.Errorf("the end of a command takes %v", best)
}

// TestSignalBeforeCommand: what comes while reeve still prepares is the command's,
// also what the Go runtime drops by itself.
func TestSignalBeforeCommand(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM} {
		t.Run(name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				cmd := start(t, g, g.Command(trial.Options{}, "/bin/sh", "-c", "echo ready > notes; sleep 2"))
				t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
				init := func() bool {
					pid := strconv.Itoa(cmd.Process.Pid)
					argv, err := os.ReadFile("/proc/" + pid + "/cmdline")
					if err != nil || !strings.Contains(string(argv), "\x00run\x00") {
						return false // what puts reeve under another user
					}
					children, err := filepath.Glob("/proc/" + pid + "/task/*/children")
					return err == nil && slices.ContainsFunc(children, func(path string) bool {
						text, err := os.ReadFile(path)
						return err == nil && len(text) > 0
					})
				}
				for end := time.Now().Add(trial.Patience(10 * time.Second)); !init(); { // without a pause: the command comes soon
					if time.Now().After(end) {
						t.Fatal("reeve starts no init")
					}
				}
				send(t, cmd, sig)
				if got := ended(t, cmd); got != 128+int(sig) {
					t.Errorf("status %d, want %d; the command wrote %q", got, 128+int(sig), read(g, "ws/notes"))
				}
			})
		})
	}
}

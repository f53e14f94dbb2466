package escapes_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/reeve-audit/reeve/tests/trial"
)

// modes are without reeve, with reeve on the same terminal, and with a terminal
// that reeve relays.
var modes = []string{"native", "deny", "tty"}

// A terminal runs a command on a pty and collects what it shows.
type terminal struct {
	t    *testing.T
	tty  *os.File
	cmd  *exec.Cmd
	mu   sync.Mutex
	seen bytes.Buffer
}

func open(t *testing.T, g *trial.Ground, argv ...string) *terminal {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = g.Workspace, g.Environ("PS1=> ")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: g.Cred}
	tty, slave, err := pty.Open()
	if err != nil {
		trial.Skip(t, "pty", err.Error())
	}
	if g.Cred != nil {
		if err := slave.Chown(int(g.Cred.Uid), int(g.Cred.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	term := &terminal{t: t, tty: tty, cmd: cmd}
	go term.collect()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		tty.Close()
	})
	return term
}

func (s *terminal) collect() {
	buf := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buf)
		s.mu.Lock()
		s.seen.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *terminal) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

func (s *terminal) write(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.tty, text); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits until text shows after what was expected before.
func (s *terminal) expect(text string) {
	s.t.Helper()
	ok := waitFor(s.t, 15*time.Second, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := bytes.Index(s.seen.Bytes(), []byte(text)); i >= 0 {
			s.seen.Next(i + len(text))
			return true
		}
		return false
	})
	if !ok {
		s.t.Fatalf("the terminal never showed %q; it shows %q", text, s.text())
	}
}

func (s *terminal) wait() int {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		return trial.ExitStatus(err)
	case <-time.After(15 * time.Second):
		s.t.Fatalf("no end; the terminal shows %q", s.text())
		return -1
	}
}

// TestTerminalInput: nothing is pushed into the terminal (Y01, Y03). What the kernel
// says by itself is another error than ours, if it is one, but where a user is no
// administrator of the console: there the record alone tells that we refused.
func TestTerminalInput(t *testing.T) {
	for _, r := range []struct {
		id, cmd string
		native  func(root bool) string
	}{
		{"Y01", "sti", pushes}, {"Y01", "sti-high", pushes},
		{"Y03", "linux", func(bool) string { return "ret=-1 errno=25" }}, // ENOTTY: a pty is no console
		{"Y03", "cons", func(root bool) string {
			if root {
				return "ret=0"
			}
			return "ret=-1 errno=1"
		}},
	} {
		t.Run(r.id+"/"+r.cmd, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				c := trial.NewGround(t, nobody)
				control, native := open(t, c, c.Workspace+"/victim", "ioctl", r.cmd), r.native(c.UID() == 0)
				control.expect(r.cmd + ": " + native)
				if r.id == "Y01" && native == "ret=0" {
					control.expect("queued 1")
				}
				control.wait()
				for _, mode := range modes[1:] {
					g := trial.NewGround(t, nobody)
					s := open(t, g, g.Command(trial.Options{Flags: []string{"--ask", mode}}, "{victim}", "ioctl", r.cmd)...)
					s.expect(r.cmd + ": ret=-1 errno=1\r")
					s.expect("queued 0")
					s.wait()
					trial.OneDenial(t, g.Events("--session", "last"), trial.Denial{Ops: []string{"terminal"}, Syscalls: []string{"ioctl"}, Errno: "EPERM"})
				}
			})
		})
	}
}

// pushes is what TIOCSTI answers on one's own terminal: it types, but where
// dev.tty.legacy_tiocsti forbids it to all but root (Linux 6.2).
func pushes(root bool) string {
	legacy, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti")
	if err == nil && strings.TrimSpace(string(legacy)) == "0" && !root {
		return "ret=-1 errno=5"
	}
	return "ret=0"
}

// TestJobControl: an interactive shell keeps its jobs (Y04).
func TestJobControl(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				argv := []string{"/bin/bash", "--norc", "--noprofile", "-i"}
				if mode != "native" {
					argv = g.Command(trial.Options{Env: []string{"PS1=> "}, Flags: []string{"--ask", mode}}, argv...)
				}
				s := open(t, g, argv...)
				s.write("echo sta''rted\n")
				s.expect("started")
				s.write("sleep 100\n")
				time.Sleep(300 * time.Millisecond)
				s.write("\x1a")
				s.expect("Stopped")
				s.write("jobs\n")
				s.expect("sleep 100")
				s.write("bg; echo back''ground\n")
				s.expect("background")
				s.write("fg\n")
				s.expect("sleep 100")
				time.Sleep(300 * time.Millisecond)
				s.write("\x03")
				s.write("echo status=$?\n")
				s.expect("status=130")
				s.write("tr a-z A-Z < /dev/tty\n")
				time.Sleep(200 * time.Millisecond)
				s.write("terminal\n\x04")
				s.expect("TERMINAL") // what is echoed is not
				s.write("exit 7\n")
				if got := s.wait(); got != 7 {
					t.Errorf("status %d, want 7: %q", got, s.text())
				}
			})
		})
	}
}

// TestStopSelf: ^Z stops reeve with its command, the shell above has the
// terminal back, and fg goes on (Y04).
func TestStopSelf(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		body := "echo be''gan; read line; echo got-$line; exit 5\n"
		if err := os.WriteFile(g.Workspace+"/ask", []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, mode := range modes {
			var prefix []string
			if mode != "native" {
				prefix = g.Command(trial.Options{Flags: []string{"--ask", mode}})
			}
			s := open(t, g, "/bin/bash", "--norc", "--noprofile", "-i")
			s.write(strings.Join(append(prefix, "/bin/sh", "ask"), " ") + "\n")
			s.expect("began")
			s.write("\x1a")
			s.expect("Stopped")
			s.write("echo she''ll\n")
			s.expect("shell")
			s.write("fg\n")
			s.expect("ask")
			s.write("word\n")
			s.expect("got-word")
			s.write("echo status=$?\n")
			s.expect("status=5")
			s.write("exit 0\n")
			s.wait()
		}
	})
}

// TestStopOrphan: where no shell could continue it, ^Z stops nothing, as it does
// without reeve (Y04).
func TestStopOrphan(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			g := trial.NewGround(t, false)
			argv := []string{"/bin/sh", "-c", "echo be''gan; read line; echo got-$line"}
			if mode != "native" {
				argv = g.Command(trial.Options{Flags: []string{"--ask", mode}}, argv...)
			}
			s := open(t, g, argv...)
			s.expect("began")
			s.write("\x1a")
			time.Sleep(500 * time.Millisecond)
			s.write("word\n")
			s.expect("got-word")
			s.wait()
		})
	}
}

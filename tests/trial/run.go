package trial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say how a command is run.
type Options struct {
	// Profile is a built-in profile; empty is the default one.
	Profile string
	// Policy runs under the ground's policy.toml, which denies p2/x.
	Policy bool
	// Flags are further flags of `reeve run`.
	Flags []string
	// Env is added to a plain environment; under reeve each name also becomes
	// an --env flag.
	Env []string
	// Stdin is the command's standard input; nil is empty.
	Stdin io.Reader
	// Wrap stands in front of the whole command, reeve included.
	Wrap []string
	// Dir is the working directory; empty is the workspace.
	Dir string
	// Timeout is how long the run may take, by Patience; zero is 60 s. Running
	// into it is a failure: nothing that reeve decides may hang.
	Timeout time.Duration
	// NoEvents leaves the stream unread.
	NoEvents bool
	// KeepRunning allows processes of the ground to be alive afterwards.
	KeepRunning bool
}

// Result is what came of a run.
type Result struct {
	// Status is the exit status, 128+n for a signal.
	Status         int
	Stdout, Stderr string
	Events         []Event
	Took           time.Duration
}

// Text is both outputs.
func (r *Result) Text() string { return r.Stdout + r.Stderr }

// Native runs a command without reeve.
func (g *Ground) Native(o Options, argv ...string) *Result {
	g.t.Helper()
	return g.start(o, append(g.ExpandAll(o.Wrap), g.ExpandAll(argv)...))
}

// Supervised runs a command under reeve and reads its events. It fails the test when
// the run hangs, leaves a process behind, lets a secret through, or records what
// its own policy would not decide again (of a sample, in the first run of each test).
func (g *Ground) Supervised(o Options, argv ...string) *Result {
	g.t.Helper()
	r := g.start(o, append(g.ExpandAll(o.Wrap), g.Command(o, argv...)...))
	if !o.KeepRunning {
		if left := g.Processes(); len(left) > 0 {
			g.t.Errorf("processes left behind: %v", left)
		}
	}
	if !o.NoEvents {
		r.Events = g.Events("--session", "last")
		if !Sampled() || first(g.t.Name()) {
			g.Redecided("last")
		}
	}
	return r
}

var seen sync.Map // names of tests

// first says of a test's name whether it is the first of its test function.
func first(name string) bool {
	name, _, _ = strings.Cut(name, "/")
	_, was := seen.LoadOrStore(name, true)
	return !was
}

// Command is the command line that supervises argv.
func (g *Ground) Command(o Options, argv ...string) []string {
	line := []string{g.Reeve, "run", "-q", "--state", g.State, "--workspace", g.Workspace}
	if engine := Engine(); engine != "" {
		line = append(line, "--engine", engine)
	}
	switch {
	case o.Policy:
		line = append(line, "--policy", filepath.Join(g.Base, "policy.toml"), "--profile", "trial")
	case o.Profile != "":
		line = append(line, "--profile", o.Profile)
	}
	for _, pair := range o.Env {
		name, _, _ := strings.Cut(pair, "=")
		line = append(line, "--env", name)
	}
	line = append(line, g.ExpandAll(o.Flags)...)
	return append(append(line, "--"), g.ExpandAll(argv)...)
}

// Environ is the plain environment of every run.
func (g *Ground) Environ(extra ...string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.Home, "LANG=C.UTF-8", "TERM=xterm", "USER=trial",
	}
	return append(env, extra...)
}

func (g *Ground) start(o Options, argv []string) *Result {
	g.t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 60 * time.Second
	}
	o.Timeout = Patience(o.Timeout)
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = o.Dir, g.Environ(o.Env...), o.Stdin
	if cmd.Dir == "" {
		cmd.Dir = g.Workspace
	}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: g.Cred}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A daemon that keeps our pipe open must not hold the test.
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	err := cmd.Run()
	r := &Result{
		Status: ExitStatus(err), Stdout: stdout.String(), Stderr: stderr.String(), Took: time.Since(began),
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		g.t.Fatalf("run %v: %v", argv, err)
	}
	if ctx.Err() != nil {
		g.t.Fatalf("run %v: no end after %v\nstdout: %s\nstderr: %s", argv, o.Timeout, tail(r.Stdout), tail(r.Stderr))
	}
	return r
}

func tail(s string) string {
	if len(s) > 2000 {
		return "…" + s[len(s)-2000:]
	}
	return s
}

// ExitStatus is the shell's view of how a command ended.
func ExitStatus(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}

// Processes are the pids whose program or working directory is on the ground.
func (g *Ground) Processes() []int {
	var out []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		g.t.Fatalf("list processes: %v", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, link := range []string{"exe", "cwd"} {
			to, err := os.Readlink(filepath.Join("/proc", e.Name(), link))
			if err == nil && strings.HasPrefix(to, g.Base+"/") {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

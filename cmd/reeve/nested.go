package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/landlock"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// A reeve that is started inside a session supervises nothing: it has the reeve
// outside put it under a policy, starts the command, and tells when it has ended.

// insideSession says whether a reeve supervises this process.
func insideSession() bool {
	fd, err := proc.Prctl(gate.NestOption, 0, nil)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// nestAsk sends a message and reads the reply.
func nestAsk(command uintptr, message, reply any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	fd, err := proc.Prctl(gate.NestOption, command, text)
	if errors.Is(err, unix.EINVAL) {
		return withHint(errors.New("the reeve outside cannot be reached"),
			"if this is no session, unset "+sessionVariable+"; else run the same version of reeve inside and outside")
	}
	if err != nil {
		return fmt.Errorf("ask the reeve outside: %w", err)
	}
	f := os.NewFile(uintptr(fd), "reply")
	defer f.Close()
	answer, err := io.ReadAll(f)
	if err == nil {
		err = json.Unmarshal(answer, reply)
	}
	if err != nil {
		return fmt.Errorf("read the reply of the reeve outside: %w", err)
	}
	return nil
}

// nested is a session inside another, seen from inside.
type nested struct {
	opts  *runOptions
	cwd   string
	reply nestReply
	pid   int
}

// runNested runs a command in a session inside the session outer.
func runNested(o *runOptions, outer string) (int, error) {
	n := &nested{opts: o}
	if len(o.outer) > 0 {
		return 0, failWith(statusReeve, withHint(fmt.Errorf("%s: this is inside session %s, which decides that", strings.Join(o.outer, ", "), or(outer, "of another reeve")),
			"inside a session only --profile, --policy, --workspace, --env, --linger, --allow-degraded and -q can be given"))
	}
	if err := n.begin(); err != nil {
		return 0, startError(fmt.Errorf("begin a session inside session %s: %w", or(outer, "of another reeve"), err))
	}
	status, startErr := n.command()
	var totals nestTotals
	err := nestAsk(gate.NestEnd, nestEnd{Status: status}, &totals)
	if err == nil && totals.Error != "" {
		err = errors.New(totals.Error)
	}
	if err == nil && !o.quiet {
		undone := ""
		if !totals.Stored {
			undone = "stored"
		}
		printSummary(totals.Requests, totals.Denied, totals.Lost, undone, n.reply.Session)
	}
	if startErr != nil {
		return 0, failWith(status, errors.Join(startErr, err))
	}
	if err != nil {
		say(os.Stderr, fmt.Errorf("the session's record: %w", err))
	}
	return status, nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// begin has this process put into a session.
func (n *nested) begin() (err error) {
	if n.cwd, err = session.WorkingDir(); err != nil {
		return err
	}
	env, pass := n.environment()
	m := nestBegin{
		Version: nestVersion, Profile: n.opts.profile, Cwd: session.Text(n.cwd), Argv: texts(n.opts.argv),
		Env: texts(env), Pass: pass, Degraded: n.opts.degraded,
	}
	if err := n.workspaces(&m); err != nil {
		return err
	}
	for _, file := range n.opts.policies {
		src, err := session.ReadSource(file, policy.Session)
		if err != nil {
			return err
		}
		m.Policies = append(m.Policies, nestPolicy{src.Name, src.Text})
	}
	if err := nestAsk(gate.NestBegin, &m, &n.reply); err != nil {
		return err
	}
	if n.reply.Error != "" {
		err := errors.New(n.reply.Error)
		if n.reply.Hint != "" {
			return withHint(err, n.reply.Hint)
		}
		return err
	}
	if !n.opts.quiet {
		for _, note := range n.reply.Notes {
			fmt.Fprintf(os.Stderr, "reeve: %s\n", sanitize(note))
		}
	}
	return nil
}

// environment is this process's, with what --env sets, and the names that pass.
func (n *nested) environment() (env, pass []string) {
	env = os.Environ()
	for _, e := range n.opts.env {
		name, value, set := strings.Cut(e, "=")
		if set {
			env = setVariable(env, name, value)
		}
		pass = append(pass, name)
	}
	return env, pass
}

// command runs the command and ends what it leaves behind.
func (n *nested) command() (status int, err error) {
	env := plainTexts(n.reply.Env)
	program, err := session.LookCommand(n.opts.argv[0], n.cwd, env)
	if err != nil {
		var failed *session.CommandError
		if errors.As(err, &failed) {
			return failed.Status, err
		}
		return statusReeve, err
	}
	// What the command leaves running comes to us.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return statusReeve, fmt.Errorf("become the parent of what the command leaves: %w", err)
	}
	type result struct {
		status int
		err    error
	}
	done := make(chan result)
	elsewhere(func() {
		s, err := n.start(program, env)
		done <- result{s, err}
	})
	r := <-done
	n.sweep()
	return r.status, r.err
}

// elsewhere runs f in a goroutine that is on another thread than the main one: by
// the main thread the kernel says whether the session may send us signals.
func elsewhere(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		begun := make(chan struct{})
		go func() { // this thread is taken, so that is another
			runtime.LockOSThread()
			close(begun)
			f()
		}()
		<-begun
		runtime.UnlockOSThread()
	}()
}

// start runs the command on a thread of its own, which alone is put under the
// floor, and waits for it there: the command dies with that thread.
func (n *nested) start(program string, env []string) (int, error) {
	runtime.LockOSThread() // never unlocked: the thread is confined
	if err := confine(n.reply.Floor); err != nil {
		return statusReeve, err
	}
	signals := catchSignals()
	defer signals.stop()
	p, err := os.StartProcess(program, n.opts.argv, &os.ProcAttr{
		Env: env, Dir: n.cwd, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &unix.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return n.notStarted(err)
	}
	n.pid = p.Pid
	term := openConsole(nil)
	signals.pass(n, term)
	defer term.restore()
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(n.pid, &ws, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return statusReeve, fmt.Errorf("wait for the command: %w", err)
		case ws.Stopped():
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
			time.AfterFunc(settle, func() { _ = n.Signal(unix.SIGCONT) })
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil
		default:
			return ws.ExitStatus(), nil
		}
	}
}

func (n *nested) notStarted(err error) (int, error) {
	var errno unix.Errno
	if errors.As(err, &errno) && errno == unix.ENOENT {
		return statusNotFound, fmt.Errorf("run %s: %w", quote(n.opts.argv[0]), errno)
	}
	return statusDenied, withHint(fmt.Errorf("run %s: %w", quote(n.opts.argv[0]), err), "`reeve events --session "+n.reply.Session+" --action deny` says what was denied")
}

// confine puts the calling thread under the session's floor, as far as the
// kernel has one.
func confine(floor landlock.Spec) error {
	abi, err := landlock.ABI()
	if err != nil {
		return nil // the session outside has none either, and said so
	}
	fd, _, err := floor.Open(abi)
	if errors.Is(err, landlock.ErrNothing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the session's floor: %w", err)
	}
	defer unix.Close(fd)
	return landlock.Restrict(fd)
}

// Signal passes a signal on to the command.
func (n *nested) Signal(sig unix.Signal) error { return unix.Kill(n.pid, sig) }

// sweep ends, or waits for, what the command left running.
func (n *nested) sweep() {
	for {
		if !n.opts.linger {
			left, err := proc.Descendants(os.Getpid())
			if err != nil {
				return
			}
			for _, pid := range left {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			return
		}
	}
}

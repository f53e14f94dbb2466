package terminal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/tracer/event"
)

// A flow is a desk, its front and a command in a process of their own, the test
// binary again, on a pseudo-terminal that the test plays the person at.

const flowVariable = "TERMINAL_FLOW"

func TestMain(m *testing.M) {
	if argv := os.Getenv(flowVariable); argv != "" {
		if err := serveFlow(argv); err != nil {
			fmt.Fprintln(os.Stderr, "flow:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// order is one line to the process: a question, with how long it waits, or the
// name of a question to be withdrawn.
type order struct {
	Path     string
	Timeout  time.Duration
	Withdraw string
}

// outcome is one line from the process: what came of a question.
type outcome struct {
	Path   string
	Answer approval.Answer
}

type silent struct{}

func (silent) Record(event.Event) {}

type fileRules struct{}

func (fileRules) Propose(q *approval.Question) (approval.Proposal, error) {
	return approval.Proposal{File: "/home/someone/policy.toml", Text: fmt.Sprintf("%q = \"read\"\n", q.Request.Object.Path)}, nil
}

func (fileRules) Write(approval.Proposal) error { return nil }

// serveFlow runs a shell command on the terminal's slave, and asks what it is told
// to on descriptor 3.
func serveFlow(command string) error {
	desk, err := approval.New(approval.Config{Session: "01FLOW", Recorder: silent{}, Timeout: time.Hour, Rules: fileRules{}})
	if err != nil {
		return err
	}
	front, err := Open(Config{By: "tester", Lines: func(q *approval.Question) []string {
		return []string{"open read " + q.Request.Object.Path, "  why       a test", "  by        1 sh"}
	}})
	if err != nil {
		return err
	}
	defer front.Close()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // as reeve does
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Env = append(os.Environ(), flowVariable+"=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = front.Slave(), front.Slave(), front.Slave()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ran := make(chan error, 1)
	go func() { ran <- front.Run(context.Background(), desk) }()
	go takeOrders(os.NewFile(3, "orders"), desk)
	_ = cmd.Wait()
	front.Finish()
	return <-ran
}

func takeOrders(f *os.File, desk *approval.Desk) {
	enc := json.NewEncoder(f)
	var mu sync.Mutex // guards enc and withdraw
	withdraw := map[string]context.CancelCauseFunc{}
	for in := bufio.NewScanner(f); in.Scan(); {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			panic(err)
		}
		mu.Lock()
		if o.Withdraw != "" {
			withdraw[o.Withdraw](fmt.Errorf("the task is gone"))
			mu.Unlock()
			continue
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		withdraw[o.Path] = cancel
		mu.Unlock()
		if o.Timeout > 0 {
			time.AfterFunc(o.Timeout, func() { cancel(fmt.Errorf("deadline")) })
		}
		asked := make(chan struct{})
		go func() {
			close(asked)
			q := approval.Question{}
			q.Request.Op, q.Request.Object = event.OpOpen, event.Object{Kind: event.ObjectFile, Path: o.Path}
			a := desk.Ask(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			_ = enc.Encode(outcome{o.Path, a})
		}()
		<-asked
		time.Sleep(20 * time.Millisecond) // questions keep their order
	}
}

// person is the test's side of a flow.
type person struct {
	t        *testing.T
	tty      *os.File // master of the outer terminal
	slave    *os.File
	modes    unix.Termios // before anything began
	cmd      *exec.Cmd
	orders   *os.File
	outcomes chan outcome

	mu   sync.Mutex // guards what follows
	all  bytes.Buffer
	read int // of all, what was expected
	hold chan struct{}
}

func startFlow(t *testing.T, command string, env ...string) *person {
	t.Helper()
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 12, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "orders"), os.NewFile(uintptr(fds[1]), "orders")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "TERM=xterm", "LC_ALL=C.UTF-8", "NO_COLOR=1", "STY=", flowVariable+"="+command), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = slave, slave, slave, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	modes, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	p := &person{t: t, tty: tty, slave: slave, modes: *modes, cmd: cmd, orders: ours, outcomes: make(chan outcome, 100)}
	go p.collect()
	go p.listen()
	t.Cleanup(func() {
		cmd.Process.Kill()
		tty.Close()
		slave.Close()
		ours.Close()
	})
	return p
}

func (p *person) collect() {
	buf := make([]byte, 4096)
	for {
		p.mu.Lock()
		hold := p.hold
		p.mu.Unlock()
		if hold != nil {
			<-hold
		}
		n, err := p.tty.Read(buf)
		p.mu.Lock()
		p.all.Write(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *person) listen() {
	for dec := json.NewDecoder(p.orders); ; {
		var o outcome
		if dec.Decode(&o) != nil {
			close(p.outcomes)
			return
		}
		p.outcomes <- o
	}
}

func (p *person) ask(path string) { p.order(order{Path: path}) }

func (p *person) order(o order) {
	p.t.Helper()
	if err := json.NewEncoder(p.orders).Encode(o); err != nil {
		p.t.Fatal(err)
	}
}

// expect waits until text shows behind what was expected before.
func (p *person) expect(text string) {
	p.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		i := bytes.Index(p.all.Bytes()[p.read:], []byte(text))
		if i >= 0 {
			p.read += i + len(text)
		}
		p.mu.Unlock()
		if i >= 0 {
			return
		}
	}
	was, is := p.screen()[:p.read], p.screen()[p.read:]
	p.t.Fatalf("the terminal never showed %q after\n%q\nbut\n%q", text, was[max(0, len(was)-500):], is[max(0, len(is)-1500):])
}

func (p *person) screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// press waits until a key is taken for an answer, and presses it.
func (p *person) press(keys string) {
	p.t.Helper()
	time.Sleep(quiet + 100*time.Millisecond)
	p.write(keys)
}

func (p *person) write(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.tty, keys); err != nil {
		p.t.Fatal(err)
	}
}

// answer is what came of the next question that is settled.
func (p *person) answer() outcome {
	p.t.Helper()
	select {
	case o := <-p.outcomes:
		return o
	case <-time.After(10 * time.Second):
		p.t.Fatalf("no answer; the terminal shows %q", p.screen())
		return outcome{}
	}
}

func (p *person) want(path string, allow bool, scope approval.Scope) {
	p.t.Helper()
	o := p.answer()
	if o.Path != path || o.Answer.Allow != allow || o.Answer.Scope != scope || o.Answer.By != "tester" {
		p.t.Errorf("%+v, want %s: allowed %v, %v", o, path, allow, scope)
	}
}

// end waits for the process, and checks that the terminal is as it was.
func (p *person) end() {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			p.t.Errorf("the flow ended with %v: %q", err, p.screen())
		}
	case <-time.After(10 * time.Second):
		p.t.Fatalf("the flow does not end; the terminal shows %q", p.screen())
	}
}

var clockShown = regexp.MustCompile(`\d+:\d\d left`)

// recorded is all that the terminal was sent, a sequence of frames a line each:
// without the clock, and frames that differ in nothing else once.
func (p *person) recorded() string {
	text := clockShown.ReplaceAllString(p.screen(), "M:SS left")
	var out []string
	frames := strings.Split(text, "\x1b[1;1H")
	for i, frame := range frames {
		if i > 0 && i+1 < len(frames) && strings.HasPrefix(frames[i+1], frame) {
			continue
		}
		if i > 0 {
			frame = "\x1b[1;1H" + frame
		}
		for _, line := range strings.SplitAfter(strings.ReplaceAll(frame, "\x1b[", "\n\x1b["), "\n") {
			line = strings.TrimSuffix(line, "\n")
			if line != "" {
				out = append(out, fmt.Sprintf("%q", strings.TrimRight(line, " ")))
			}
		}
		out = append(out, "")
	}
	return strings.Join(out, "\n")
}

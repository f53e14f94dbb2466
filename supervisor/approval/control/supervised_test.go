package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

func init() { roles["task"], roles["daemon"], roles["outsider"] = taskMain, daemonMain, outsiderMain }

// ground is a workspace with a copy of this test binary, and a state beside it.
type ground struct{ workspace, state, program string }

func newGround(t *testing.T, owner int) ground {
	t.Helper()
	parent := "/srv" // policies treat temporary directories specially
	if os.Geteuid() != 0 {
		var err error
		if parent, err = os.UserCacheDir(); err != nil {
			t.Fatal(err)
		}
	}
	base, err := os.MkdirTemp(parent, "reeve-control-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	g := ground{filepath.Join(base, "ws"), filepath.Join(base, "state"), filepath.Join(base, "ws", "program")}
	for _, dir := range []string{g.workspace, filepath.Join(g.state, "sessions", session)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, owner, owner))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *ground) session() string { return filepath.Join(g.state, "sessions", session) }

// opened allows everything, reeve's own files too: what no policy can.
type opened struct{ *policy.Policy }

func (opened) Decide(*event.Request) event.Decision {
	return event.Decision{Action: event.ActionAllow, By: "policy:open"}
}

// audit is the recorder of a supervised session.
type audit struct{ journal }

func (a *audit) Failing() bool { return false }

func (a *audit) RecordAcked(_ context.Context, e event.Event) error {
	a.Record(e)
	return nil
}

// report is what the supervisor says about its session.
type report struct {
	Task   string // what the task printed
	Denied []string
	Answer approval.Answer // what the question got
}

// supervisorMain runs the task under a policy, with a question pending and the
// socket served, and reports as JSON once the question has its answer.
func supervisorMain() {
	g := ground{workspace: os.Args[1], state: os.Args[2], program: os.Args[1] + "/program"}
	r, err := superviseTask(&g, os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(r)
}

func superviseTask(g *ground, mode string) (*report, error) {
	profile := map[string]string{"default": policy.DefaultProfile}[mode]
	if profile == "" {
		profile = "observe"
	}
	p, err := policy.Load(nil, profile, policy.Host{
		Home: "/nonexistent", User: "u", UID: os.Geteuid(), Workspaces: []string{g.workspace}, Tmp: "/tmp/reeve-" + session, StateDir: g.state,
	})
	if err != nil {
		return nil, err
	}
	plan, err := p.Lower()
	if err != nil {
		return nil, err
	}
	log := &audit{}
	desk, err := approval.New(approval.Config{Session: session, Recorder: log, Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	server, err := Listen(Config{Dir: g.session(), Desk: desk})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- server.Run(ctx) }()
	answer := make(chan approval.Answer, 1)
	go func() { answer <- desk.Ask(ctx, open("/x")) }()
	for len(desk.Pending()) == 0 {
		time.Sleep(time.Millisecond)
	}

	cfg := tracer.Config{Plan: plan, Decider: p, Recorder: log, AllowDegraded: true}
	if strings.HasPrefix(mode, "open") {
		cfg.Decider = opened{p}
	}
	if mode == "open and performed" {
		cfg.Plan.Handling[gate.Connect] = gate.Perform
	}
	out, err := os.OpenFile(g.workspace+"/out", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	// The task's output is our own from here to its end.
	saved, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup3(int(out.Fd()), 1, 0); err != nil {
		return nil, err
	}
	runErr := runTask(g, cfg)
	if err := errors.Join(runErr, unix.Dup3(saved, 1, 0)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return nil, err
	}
	r := &report{Task: string(text)}
	fmt.Println("pending") // the test may answer now
	r.Answer = <-answer
	cancel()
	err = <-served
	for _, e := range log.events {
		if e.Action == event.ActionDeny && e.Op == event.OpConnect {
			r.Denied = append(r.Denied, e.Object.Path)
		}
	}
	return r, err
}

func runTask(g *ground, cfg tracer.Config) error {
	l, err := tracer.Prepare(false)
	if err != nil {
		return err
	}
	cfg.Order = spawn.Order{
		Path: g.program, Argv: []string{"task", g.state, strconv.Itoa(os.Getpid())}, Env: []string{"HOME=/nonexistent", "PATH=/usr/bin:/bin"}, Dir: g.workspace,
	}
	s, err := l.Start(context.Background(), cfg)
	if err != nil {
		return err
	}
	_, err = s.Wait(func(unix.Signal) {})
	return errors.Join(err, s.Close())
}

// taskMain tries all ways to the socket that it knows, as an agent would.
func taskMain() {
	g, supervisor := ground{state: os.Args[1]}, os.Args[2]
	say := func(way string, err error) {
		if err == nil {
			err = errors.New("SUCCESS")
		}
		fmt.Printf("%s: %v\n", way, err)
	}
	say("inherited", inherited())
	attempt(&g, say)
	say("descriptor of the supervisor", throughDescriptor(supervisor))
	say("pidfd_getfd", stealSocket(supervisor))
	// A daemon of which nothing says that it was ours once.
	cmd := exec.Command("/proc/self/exe", g.state)
	cmd.Args[0], cmd.Stdout, cmd.SysProcAttr = "daemon", os.Stdout, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		say("daemon", err)
	}
	_ = cmd.Wait()
	time.Sleep(time.Second) // what it leaves behind tries now
}

// attempt connects, lists and answers.
func attempt(g *ground, say func(string, error)) {
	conn, err := net.Dial("unix", filepath.Join(g.session(), SocketName))
	if err == nil {
		conn.Close()
		err = errors.New("connected")
	}
	say("connect", err)
	c := &Client{Dir: g.session()}
	_, err = c.List(context.Background())
	say("list", err)
	say("allow", c.Answer(context.Background(), "QVTC-1", approval.Answer{Allow: true}, nil))
}

// throughDescriptor lists by way of the directory that the supervisor holds open.
func throughDescriptor(supervisor string) error {
	fds, err := os.ReadDir("/proc/" + supervisor + "/fd")
	if err != nil {
		return err
	}
	for _, fd := range fds {
		path := "/proc/" + supervisor + "/fd/" + fd.Name() + "/" + SocketName
		if _, err := os.Stat(path); err != nil {
			continue
		}
		conn, err := net.Dial("unix", path)
		if err == nil {
			err = ask(conn, &Request{Do: List})
		}
		if err != nil {
			return err
		}
		m, err := receive(bufio.NewReader(conn))
		if err != nil {
			return err
		}
		return m.err()
	}
	return errors.New("no such descriptor")
}

// stealSocket takes descriptors of the supervisor that are sockets.
func stealSocket(supervisor string) error {
	pid, err := strconv.Atoi(supervisor)
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	for fd := 3; fd < 64; fd++ {
		var got int
		if got, err = unix.PidfdGetfd(pidfd, fd, 0); err == nil {
			if _, err := unix.Getpeername(got); err == nil {
				return nil
			}
		}
	}
	return err
}

// inherited looks for a socket among what the task was started with.
func inherited() error {
	for fd := range 1024 {
		if sa, err := unix.Getsockname(fd); err == nil {
			if u, ok := sa.(*unix.SockaddrUnix); ok && strings.Contains(u.Name, SocketName) {
				return nil
			}
		}
	}
	return errors.New("none")
}

// daemonMain leaves a child behind whose parents are all gone.
func daemonMain() {
	if len(os.Args) > 2 {
		for os.Getppid() == parentOf(os.Args[2]) {
			time.Sleep(time.Millisecond)
		}
		attempt(&ground{state: os.Args[1]}, func(way string, err error) { fmt.Printf("daemon %s: %v\n", way, err) })
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1], strconv.Itoa(os.Getpid()))
	cmd.Args[0], cmd.Stdout, cmd.SysProcAttr = "daemon", os.Stdout, &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Start()
}

func parentOf(text string) int {
	pid, _ := strconv.Atoi(text)
	return pid
}

// outsiderMain is an approver that is no child of the supervisor.
func outsiderMain() {
	c := &Client{Dir: os.Args[1]}
	if err := c.Answer(context.Background(), "QVTC-1", approval.Answer{Allow: true, Reason: "from outside"}, nil); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// supervise runs a task in a session and answers its question from outside. The
// question must have waited for that, whatever the task did.
func supervise(t *testing.T, g *ground, mode string, uid int) *report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.program, g.workspace, g.state, mode)
	cmd.Args[0] = "supervisor"
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	first := make([]byte, len("pending\n"))
	if _, err := io.ReadFull(out, first); err != nil {
		t.Fatalf("the supervisor says %q: %v, %s", first, err, &stderr)
	}
	outside := exec.Command("/proc/self/exe", g.session())
	outside.Args[0] = "outsider"
	if text, err := outside.CombinedOutput(); err != nil {
		t.Errorf("control: an approver outside cannot answer: %s", text)
	}
	var r report
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		t.Fatalf("report: %v, %s", err, &stderr)
	}
	if !r.Answer.Allow || r.Answer.Reason != "from outside" {
		t.Errorf("the question was answered with %+v", r.Answer)
	}
	return &r
}

// TestSupervisedTreeCannotAnswer: a task of reeve's own user gets through to the
// socket by no way, under no policy, and one that nevertheless connects, or has
// the gate connect for it, is refused.
func TestSupervisedTreeCannotAnswer(t *testing.T) {
	const nobody = 65534
	own := os.Geteuid()
	user := own
	if own == 0 {
		user = nobody
	}
	for _, c := range []struct {
		mode string
		uid  int
		// connects: the task can connect, and is refused then.
		connects bool
	}{
		{"default", own, false}, {"default", user, false}, {"observe", user, false}, {"open", user, true}, {"open and performed", user, true},
	} {
		t.Run(fmt.Sprintf("%s as %d", c.mode, c.uid), func(t *testing.T) {
			g := newGround(t, c.uid)
			r := supervise(t, &g, c.mode, c.uid)
			if strings.Contains(r.Task, "SUCCESS") {
				t.Error("the task got through")
			}
			for _, line := range []string{"list: ", "allow: ", "inherited: none", "pidfd_getfd: ", "daemon list: ", "daemon allow: "} {
				if !strings.Contains(r.Task, line) {
					t.Errorf("the task did not try %q", line)
				}
			}
			if n := strings.Count(r.Task, "supervised itself"); c.connects && n != 4 {
				t.Errorf("refused %d times, want 4: list and allow, of the task and of its daemon", n)
			}
			path := filepath.Join(g.session(), SocketName)
			if !c.connects && (!slices.Contains(r.Denied, path) || !strings.Contains(r.Task, "connect: dial unix "+path+": connect: permission denied")) {
				t.Errorf("denied %q, want %s", r.Denied, path)
			}
			if t.Failed() {
				t.Logf("the task says:\n%s", r.Task)
			}
		})
	}
}

// TestRootOfObserve: a root task that keeps all capabilities gets at the
// supervisor's descriptors, and still its answers are refused.
func TestRootOfObserve(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skip [root]: needs root")
	}
	g := newGround(t, 0)
	r := supervise(t, &g, "open", 0)
	if !strings.Contains(r.Task, "pidfd_getfd: SUCCESS") {
		t.Error("control: the task cannot take a descriptor of the supervisor")
	}
	if n := strings.Count(r.Task, "supervised itself"); n != 5 {
		t.Errorf("refused %d times, want 5:\n%s", n, r.Task)
	}
}

// TestForeignSession: what runs in another session, of whatever reeve, cannot
// answer either: its init is known by its name.
func TestForeignSession(t *testing.T) {
	st := serve(t, approval.Config{})
	st.asks(open("/x"))
	id := st.wait(t, 1)[0].ID
	script := `exec -a reeve-init sh -c '"$0" -test.run=^TestAnswerFrom$; true' "$0"`
	for _, c := range []struct{ script, want string }{
		{script, "supervised itself"},
		{`sh -c '"$0" -test.run=^TestAnswerFrom$; true' "$0"`, "accepted"},
	} {
		cmd := exec.Command("bash", "-c", c.script, "/proc/self/exe")
		if exe, err := os.Executable(); err == nil {
			cmd.Args[3] = exe
		}
		cmd.Env = append(os.Environ(), "REEVE_TEST_DIR="+st.Dir, "REEVE_TEST_ID="+id)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, want %q:\n%s", c.script, err, c.want, out)
		}
	}
}

// TestAnswerFrom is an approver of TestForeignSession.
func TestAnswerFrom(t *testing.T) {
	dir := os.Getenv("REEVE_TEST_DIR")
	if dir == "" {
		return
	}
	err := (&Client{Dir: dir}).Answer(t.Context(), os.Getenv("REEVE_TEST_ID"), approval.Answer{Allow: true}, nil)
	if err == nil {
		err = errors.New("accepted")
	}
	fmt.Println(err)
}

// TestOwnProcess: what the gate does for a task shows reeve itself.
func TestOwnProcess(t *testing.T) {
	st := serveTree(t, approval.Config{}, 0)
	var refused *RefusedError
	if _, err := st.List(t.Context()); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "supervised itself") {
		t.Errorf("list: %v", err)
	}
}

func TestPeer(t *testing.T) {
	me, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(me)
	dead := exec.Command("true")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	gone, err := unix.PidfdOpen(dead.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(gone)
	_ = dead.Wait()
	uid := uint32(os.Geteuid())
	for _, c := range []struct {
		name string
		peer peer
		tree int
		want string
	}{
		{"own user", peer{os.Getpid(), uid, me}, 1 << 30, ""},
		{"root", peer{os.Getpid(), 0, me}, 1 << 30, ""},
		{"another user", peer{os.Getpid(), uid + 1, me}, 1 << 30, "may not answer"},
		{"descendant", peer{os.Getpid(), uid, me}, os.Getppid(), "supervised itself"},
		{"another namespace", peer{0, uid, me}, 1 << 30, "namespace"},
		{"dead", peer{dead.Process.Pid, uid, gone}, 1 << 30, "process"},
		// Its number belongs to another by now, which could answer.
		{"number taken", peer{os.Getpid(), uid, gone}, 1 << 30, "gone"},
	} {
		err := c.peer.check(c.tree)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/tracer/event"
)

// roles are what the test binary is when it is started again.
var roles = map[string]func(){"approver": approverMain, "supervisor": supervisorMain}

func TestMain(m *testing.M) {
	if role := roles[os.Args[0]]; role != nil {
		role()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// journal keeps the events of a desk.
type journal struct {
	mu     sync.Mutex
	events []event.Event
}

func (j *journal) Record(e event.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

// rules proposes the same for every question.
type rules struct {
	mu      sync.Mutex
	text    string
	written []approval.Proposal
}

func (r *rules) Propose(q *approval.Question) (approval.Proposal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return approval.Proposal{File: "/home/u/policy.toml", Text: r.text, For: q}, nil
}

func (r *rules) Write(p approval.Proposal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = append(r.written, p)
	return nil
}

const session = "01J9ZS7W8N4RYH3K6E2B5XQVTC"

type stand struct {
	desk *approval.Desk
	*Client
	rules *rules
	stop  func()
}

// serve is a desk with its socket, at which this process may answer: the tree
// that may not is that of a process that only sleeps.
func serve(t *testing.T, cfg approval.Config) *stand {
	t.Helper()
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	return serveTree(t, cfg, sleeper.Process.Pid)
}

func serveTree(t *testing.T, cfg approval.Config, tree int) *stand {
	t.Helper()
	st := &stand{rules: &rules{text: "\"/x\" = \"read\"\n"}}
	cfg.Session, cfg.Recorder, cfg.Rules = session, &journal{}, st.rules
	var err error
	if st.desk, err = approval.New(cfg); err != nil {
		t.Fatal(err)
	}
	// Longer than an address may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 150), session)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Config{Dir: dir, Desk: st.desk, Tree: tree})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	st.Client = &Client{Dir: dir}
	st.stop = sync.OnceFunc(func() {
		st.desk.Close()
		cancel()
		select {
		case err := <-ran:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Error("the server does not end")
		}
		if _, err := os.Lstat(filepath.Join(dir, SocketName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
	t.Cleanup(st.stop)
	return st
}

// open is a question about opening a path.
func open(path string) approval.Question {
	return approval.Question{
		Request: event.Request{
			Op: event.OpOpen, Access: event.AccessRead, Flags: 0x8000, Mode: 0o640, Syscall: "openat", Arch: "x86_64",
			Task:   event.Task{ID: "7-1", PID: 7, TID: 8, PPID: 6, Exe: "/bin/\xffcat", Argv: []string{"cat", "\xfe"}, Cwd: "/w\xfdd"},
			Object: event.Object{Kind: event.ObjectFile, Path: path, Raw: "../\xff", Dev: 259, Ino: 99, Mode: 0o100644},
		},
		Rule: "/x\xff", Reason: "asked for", Risk: "read",
		Ancestry: []event.Task{{ID: "6-1", PID: 6, Argv: []string{"sh", "-c", "\x1b[31m\xff"}}, {ID: "7-1", PID: 7, Exe: "/bin/cat"}},
	}
}

// asks asks in the background; the channel has the answer.
func (st *stand) asks(q approval.Question) <-chan approval.Answer {
	ch := make(chan approval.Answer, 1)
	go func() { ch <- st.desk.Ask(context.Background(), q) }()
	return ch
}

// wait waits until n questions are pending, and returns them.
func (st *stand) wait(t *testing.T, n int) []approval.Question {
	t.Helper()
	changed := make(chan struct{}, 1)
	defer st.desk.Watch(changed)()
	for {
		if list := st.desk.Pending(); len(list) == n {
			return list
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatalf("%d questions are pending, want %d", len(st.desk.Pending()), n)
		}
	}
}

func TestAnswer(t *testing.T) {
	st := serve(t, approval.Config{})
	answer := st.asks(open("/a\xff\n\"b"))
	want := st.wait(t, 1)
	got, err := st.List(t.Context())
	if err != nil || len(got) != 1 {
		t.Fatalf("list: %v, %v", got, err)
	}
	for _, q := range []*approval.Question{&want[0], &got[0]} {
		q.Asked, q.Deadline = q.Asked.UTC().Round(0), q.Deadline.UTC().Round(0)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v\nwant %+v", got, want)
	}
	id := got[0].ID
	if err := st.Answer(t.Context(), id, approval.Answer{Allow: true, Scope: approval.Session, Reason: "it is \"fine\""}, nil); err != nil {
		t.Fatal(err)
	}
	by := fmt.Sprintf("uid %d by reeve asks", os.Geteuid())
	if a := <-answer; !a.Allow || a.Scope != approval.Session || a.Reason != "it is \"fine\"" || a.By != by {
		t.Errorf("answer: %+v", a)
	}
	err = st.Answer(t.Context(), id, approval.Answer{}, nil)
	var gone *approval.ClosedError
	if !errors.As(err, &gone) || gone.Outcome == nil || !gone.Outcome.Allow || gone.Outcome.By != by {
		t.Errorf("late answer: %v", err)
	}
	if err := st.Answer(t.Context(), "XQVT-99", approval.Answer{}, nil); !errors.Is(err, approval.ErrClosed) {
		t.Errorf("answer to nothing: %v", err)
	}
}

// TestExecArguments: what is asked to run is what is shown.
func TestExecArguments(t *testing.T) {
	st := serve(t, approval.Config{})
	q := open("/bin/rm")
	q.Request.Op, q.Request.Argv = event.OpExec, []string{"rm", "-r", "\xff"}
	st.asks(q)
	st.wait(t, 1)
	got, err := st.List(t.Context())
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Request.Argv, q.Request.Argv) {
		t.Errorf("listed %+v, %v", got, err)
	}
}

func TestAlwaysWritesWhatWasShown(t *testing.T) {
	st := serve(t, approval.Config{})
	answer := st.asks(open("/x"))
	id := st.wait(t, 1)[0].ID
	always := approval.Answer{Allow: true, Scope: approval.Always}
	var refused *RefusedError
	if err := st.Answer(t.Context(), id, always, nil); !errors.As(err, &refused) {
		t.Errorf("without a rule: %v", err)
	}
	rule, err := st.Propose(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	st.rules.mu.Lock()
	st.rules.text = "\"/\" = \"write\"\n"
	st.rules.mu.Unlock()
	if err := st.Answer(t.Context(), id, always, &rule); !errors.As(err, &refused) || len(st.rules.written) != 0 {
		t.Errorf("another rule than was shown: %v, written %v", err, st.rules.written)
	}
	if rule, err = st.Propose(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := st.Answer(t.Context(), id, always, &rule); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; !a.Allow || len(st.rules.written) != 1 || st.rules.written[0].Text != rule.Text {
		t.Errorf("answer %+v, written %v", a, st.rules.written)
	}
}

func TestThousand(t *testing.T) {
	const n = 1000
	st := serve(t, approval.Config{})
	answers := make([]<-chan approval.Answer, n)
	for i := range answers {
		answers[i] = st.asks(open(fmt.Sprintf("/f%d", i)))
	}
	st.wait(t, n)
	began := time.Now()
	list, err := st.List(t.Context())
	if err != nil || len(list) != n {
		t.Fatalf("listed %d: %v", len(list), err)
	}
	listed := time.Since(began)
	for i := range list {
		if err := st.Answer(t.Context(), list[i].ID, approval.Answer{Allow: true}, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d questions listed in %v, answered in %v", n, listed, time.Since(began)-listed)
	for _, ch := range answers {
		if a := <-ch; !a.Allow {
			t.Fatalf("answer: %+v", a)
		}
	}
}

func TestFullQueueDenies(t *testing.T) {
	st := serve(t, approval.Config{Max: 3})
	for i := range 3 {
		st.asks(open(fmt.Sprintf("/f%d", i)))
	}
	st.wait(t, 3)
	if a := <-st.asks(open("/one more")); a.Allow || !strings.Contains(a.Reason, "3 questions") {
		t.Errorf("answer: %+v", a)
	}
}

// TestRace: of two that answer the same, one counts, and the other is told.
func TestRace(t *testing.T) {
	st := serve(t, approval.Config{})
	for i := range 50 {
		answer := st.asks(open(fmt.Sprintf("/f%d", i)))
		id := st.wait(t, 1)[0].ID
		errs := make(chan error, 2)
		for _, allow := range []bool{true, false} {
			go func() { errs <- st.Answer(context.Background(), id, approval.Answer{Allow: allow}, nil) }()
		}
		first, second := <-errs, <-errs
		if first != nil {
			first, second = second, first
		}
		var gone *approval.ClosedError
		if first != nil || !errors.As(second, &gone) || gone.Outcome == nil || gone.Outcome.Allow != (<-answer).Allow {
			t.Fatalf("answers: %v and %v", first, second)
		}
	}
}

func TestFollow(t *testing.T) {
	st := serve(t, approval.Config{})
	st.asks(open("/before"))
	st.wait(t, 1)
	lines := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- st.Follow(t.Context(), func(m *Message) error {
			switch {
			case m.Question != nil:
				lines <- m.Question.Request.Object.Path
			case m.Closed != nil:
				lines <- fmt.Sprintf("closed %v by %s", m.Closed.Allow, m.Closed.By)
			default:
				lines <- m.Status
			}
			return nil
		})
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != want {
				t.Fatalf("line %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no line, want %q", want)
		}
	}
	expect("/before")
	expect(StatusOK)
	st.asks(open("/after"))
	expect("/after")
	if err := st.desk.Answer(st.desk.Pending()[0].ID, approval.Answer{Allow: true, By: "a test"}); err != nil {
		t.Fatal(err)
	}
	expect("closed true by a test")
	st.stop()
	expect("closed false by approval")
	if err := <-ended; err != nil {
		t.Errorf("follow: %v", err)
	}
	if _, err := st.List(t.Context()); !errors.Is(err, ErrOver) {
		t.Errorf("list of a session that is over: %v", err)
	}
}

// raw is a connection without manners.
func (st *stand) raw(t *testing.T) net.Conn {
	t.Helper()
	conn, err := st.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestHostilePeers: whatever peers do, the session goes on and others are served.
func TestHostilePeers(t *testing.T) {
	st := serve(t, approval.Config{})
	for i := range 200 {
		st.asks(open(fmt.Sprintf("/%s%d", strings.Repeat("long", 800), i)))
	}
	st.wait(t, 200)
	for _, line := range []string{"", "\n", "{", "null\n", "[]\n", "{}\n", `{"v":1,"do":"allow","id":"XQVT-1"`, strings.Repeat("x", 2*MaxRequest)} {
		conn := st.raw(t)
		_, _ = conn.Write([]byte(line)) // it may be turned away before all is written
		_ = conn.(*net.UnixConn).CloseWrite()
	}
	for range 20 {
		conn := st.raw(t)
		if _, err := conn.Write([]byte(`{"v":1,"do":"list"}` + "\n")); err != nil { // and never read
			t.Fatal(err)
		}
	}
	if list, err := st.List(t.Context()); err != nil || len(list) != 200 {
		t.Fatalf("listed %d: %v", len(list), err)
	}
	if n := len(st.desk.Pending()); n != 200 {
		t.Errorf("%d are pending: something was answered", n)
	}
	// More than there is room for.
	for range 2 * maxConnections {
		st.raw(t)
	}
	var refused *RefusedError
	if _, err := st.List(t.Context()); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "connected already") {
		t.Errorf("list: %v", err)
	}
	st.stop() // and none of them holds up the end
}

// TestApproverKilled: an approver's death is no answer, and frees its place.
func TestApproverKilled(t *testing.T) {
	st := serve(t, approval.Config{})
	answer := st.asks(open("/x"))
	id := st.wait(t, 1)[0].ID
	for range maxConnections + 10 {
		cmd := exec.Command("/proc/self/exe", st.Dir)
		cmd.Args[0] = "approver"
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "/x\n" {
			t.Fatalf("the approver says %q, %v", line, err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if err := st.Answer(t.Context(), id, approval.Answer{Allow: true}, nil); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; !a.Allow {
		t.Errorf("answer: %+v", a)
	}
}

// approverMain watches until it is killed.
func approverMain() {
	err := (&Client{Dir: os.Args[1]}).Follow(context.Background(), func(m *Message) error {
		if m.Question != nil {
			fmt.Println(m.Question.Request.Object.Path)
		}
		return nil
	})
	fmt.Println(err)
}

func TestSocketIsPrivate(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	st := serve(t, approval.Config{})
	info, err := os.Lstat(filepath.Join(st.Dir, SocketName))
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	for _, mode := range []os.FileMode{0o750, 0o701} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if s, err := Listen(Config{Dir: dir, Desk: st.desk}); err == nil {
			s.listener.Close()
			t.Errorf("it listens in a directory of mode %v", mode)
		}
	}
}

// TestStaleSocket: what a dead reeve left says so, and is replaced.
func TestStaleSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), session)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &Client{Dir: dir}
	if _, err := c.List(t.Context()); !errors.Is(err, ErrOver) {
		t.Errorf("no socket: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := c.List(t.Context()); !errors.Is(err, ErrOver) {
		t.Errorf("a dead socket: %v", err)
	}
	desk, err := approval.New(approval.Config{Session: session, Recorder: &journal{}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Config{Dir: dir, Desk: desk, Tree: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// Package approvals_test tries questions and answers from end to end: a real
// desk, a real server between, and approvers of every kind.
package approvals_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/approval/control"
	"github.com/reeve-audit/reeve/tracer/event"
)

type journal struct {
	mu     sync.Mutex
	events []event.Event
}

func (j *journal) Record(e event.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

// startServer is a plain server without JetStream.
func startServer(t *testing.T, port int) *server.Server {
	t.Helper()
	return startWith(t, &server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true})
}

func startWith(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	t.Cleanup(srv.Shutdown)
	return srv
}

// publisher serves a desk on a server until the test ends.
func publisher(t *testing.T, url, session string, timeout time.Duration) *approval.Desk {
	t.Helper()
	desk, err := approval.New(approval.Config{Session: session, Recorder: &journal{}, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	a, err := bus.NewApprovals(bus.ApprovalsConfig{Dial: bus.DialConfig{URL: url}, Session: session, Desk: control.NewRemote(desk)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		desk.Close()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return desk
}

// approver is somebody at the other end.
type approver struct {
	nc    *nats.Conn
	lines chan control.Message
}

func connect(t *testing.T, url string) *approver {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	a := &approver{nc, make(chan control.Message, 4096)}
	if _, err := nc.Subscribe("reeve.asks.>", func(m *nats.Msg) {
		var line control.Message
		if err := json.Unmarshal(m.Data, &line); err != nil {
			t.Errorf("on %s: %s: %v", m.Subject, m.Data, err)
		}
		a.lines <- line
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return a
}

// next is the next line, of a question if question is set.
func (a *approver) next(t *testing.T, question bool) control.Message {
	t.Helper()
	for {
		select {
		case m := <-a.lines:
			if (m.Question != nil) == question {
				return m
			}
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is published")
		}
	}
}

// send sends a request and gives the reply's status and error.
func (a *approver) send(t *testing.T, session, request string) string {
	t.Helper()
	m, err := a.nc.Request("reeve.answers."+session, []byte(request), 10*time.Second)
	if err != nil {
		return err.Error()
	}
	var reply control.Message
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		t.Fatalf("reply %s: %v", m.Data, err)
	}
	return strings.TrimSuffix(reply.Status+": "+reply.Error, ": ")
}

func question(path string) approval.Question {
	return approval.Question{
		Request: event.Request{
			Op: event.OpOpen, Access: event.AccessRead, Task: event.Task{ID: "7-1", PID: 7, Exe: "/bin/cat"},
			Object: event.Object{Kind: event.ObjectFile, Path: path},
		},
		Rule: "/x", Reason: "asked for",
	}
}

func ask(desk *approval.Desk, path string) <-chan approval.Answer {
	ch := make(chan approval.Answer, 1)
	go func() { ch <- desk.Ask(context.Background(), question(path)) }()
	return ch
}

const first, second = "01J9ZS7W8N4RYH3K6E2B5XQVTC", "01J9ZS7W8N4RYH3K6E2B5XAAAA"

func TestBusAnswer(t *testing.T) {
	srv := startServer(t, -1)
	desk := publisher(t, srv.ClientURL(), first, time.Minute)
	a := connect(t, srv.ClientURL())
	answer := ask(desk, "/a\xff\x1b")
	q := a.next(t, true).Question
	if q.Session != first || q.Request.Object.Path != "/a\xff\x1b" || q.ID != "QVTC-1" {
		t.Errorf("published %+v", q)
	}
	if got := a.send(t, first, `{"v":1,"do":"allow","id":"QVTC-1","scope":"session","reason":"fine","who":"alice"}`); got != "accepted" {
		t.Errorf("reply %q", got)
	}
	if got := <-answer; !got.Allow || got.Scope != approval.Session || got.Reason != "fine" || got.By != `somebody on the bus, who says to be "alice"` {
		t.Errorf("answer %+v", got)
	}
	if m := a.next(t, false); m.Closed == nil || m.Closed.ID != "QVTC-1" || !m.Closed.Allow {
		t.Errorf("published %+v", m)
	}
	if got := a.send(t, first, `{"v":1,"do":"deny","id":"QVTC-1"}`); !strings.HasPrefix(got, "closed: question QVTC-1 is answered already: allowed session by somebody") {
		t.Errorf("late reply %q", got)
	}
}

// TestBusRefuses: what is no answer to this session's question is none.
func TestBusRefuses(t *testing.T) {
	srv := startServer(t, -1)
	desk, other := publisher(t, srv.ClientURL(), first, time.Minute), publisher(t, srv.ClientURL(), second, time.Minute)
	a := connect(t, srv.ClientURL())
	ask(desk, "/a")
	ask(other, "/b")
	a.next(t, true)
	a.next(t, true)
	rule := `"rule":{"file":"/f","text":"t"}`
	for _, c := range []struct{ session, request, want string }{
		{first, ``, "refused: "},
		{first, `yes`, "refused: "},
		{first, `{"v":1,"do":"allow"}`, "refused: "},
		{first, `{"v":1,"do":"allow","id":"QVTC-1","and":"more"}`, "refused: "},
		{first, `{"v":9,"do":"allow","id":"QVTC-1"}`, "refused: "},
		{first, `{"v":1,"do":"allow","id":"QVTC-1","reason":"` + strings.Repeat("x", 100000) + `"}`, "refused: "},
		{first, `{"v":1,"do":"allow","id":"QVTC-1","scope":"always",` + rule + `}`, "refused: scope always is for approvers on the machine"},
		{first, `{"v":1,"do":"propose","id":"QVTC-1"}`, "refused: rules are written"},
		{first, `{"v":1,"do":"watch"}`, "refused: "},
		{first, `{"v":1,"do":"allow","id":"AAAA-1"}`, "closed: question AAAA-1: no such"},
		{second, `{"v":1,"do":"allow","id":"QVTC-1"}`, "closed: question QVTC-1: no such"},
		{"01J9ZS7W8N4RYH3K6E2B5XBBBB", `{"v":1,"do":"allow","id":"QVTC-1"}`, "nats: no responders"},
	} {
		if got := a.send(t, c.session, c.request); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %.100s: reply %q, want %q", c.session, c.request, got, c.want)
		}
	}
	// Without a place for the reply, and with one that is no inbox.
	spy, err := a.nc.SubscribeSync("reeve.events.>")
	if err != nil {
		t.Fatal(err)
	}
	allow := []byte(`{"v":1,"do":"allow","id":"QVTC-1"}`)
	if err := errors.Join(a.nc.Publish("reeve.answers."+first, allow), a.nc.PublishRequest("reeve.answers."+first, "reeve.events."+first, allow)); err != nil {
		t.Fatal(err)
	}
	if got := a.send(t, first, `{"v":1,"do":"list"}`); got != "ok" { // and so all before it is done
		t.Errorf("list: %q", got)
	}
	if m, err := spy.NextMsg(100 * time.Millisecond); err == nil {
		t.Errorf("published for somebody else: %s", m.Data)
	}
	if len(desk.Pending()) != 1 || len(other.Pending()) != 1 {
		t.Errorf("pending: %d and %d", len(desk.Pending()), len(other.Pending()))
	}
}

// TestBusLateApprover: who comes later asks for what is pending.
func TestBusLateApprover(t *testing.T) {
	srv := startServer(t, -1)
	desk := publisher(t, srv.ClientURL(), first, time.Minute)
	for i := range 3 {
		ask(desk, fmt.Sprintf("/%d", i))
	}
	early := connect(t, srv.ClientURL())
	for len(desk.Pending()) < 3 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // they are published, perhaps before anybody listened
	late := connect(t, srv.ClientURL())
	if got := early.send(t, first, `{"v":1,"do":"list"}`); got != "ok" {
		t.Fatalf("list: %q", got)
	}
	seen := map[string]bool{}
	for len(seen) < 3 {
		seen[late.next(t, true).Question.ID] = true
	}
}

// TestBusNobodyAnswers: a question that only dead approvers heard is denied.
func TestBusNobodyAnswers(t *testing.T) {
	srv := startServer(t, -1)
	desk := publisher(t, srv.ClientURL(), first, time.Second)
	a := connect(t, srv.ClientURL())
	answer := ask(desk, "/a")
	a.next(t, true)
	a.nc.Close()
	if got := <-answer; got.Allow || got.By != "deadline" {
		t.Errorf("answer %+v", got)
	}
}

// TestBusServerAway: without the server questions wait for their deadline; when
// it comes, and comes back, what is pending is published and can be answered.
func TestBusServerAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	short := publisher(t, url, second, 300*time.Millisecond)
	if got := <-ask(short, "/short"); got.Allow || got.By != "deadline" {
		t.Errorf("answer %+v", got)
	}
	desk := publisher(t, url, first, time.Minute)
	answer := ask(desk, "/a")
	time.Sleep(100 * time.Millisecond)
	srv := startServer(t, port)
	a := connect(t, url)
	// Published when the server came, or when we ask.
	for a.send(t, first, `{"v":1,"do":"list"}`) != "ok" {
		time.Sleep(50 * time.Millisecond)
	}
	if q := a.next(t, true).Question; q.Request.Object.Path != "/a" {
		t.Errorf("published %+v", q)
	}
	srv.Shutdown()
	srv.WaitForShutdown()
	other := ask(desk, "/b") // asked while the server is away
	time.Sleep(100 * time.Millisecond)
	startServer(t, port)
	for a.send(t, first, `{"v":1,"do":"allow","id":"QVTC-2","reason":"back"}`) != "accepted" {
		time.Sleep(50 * time.Millisecond)
	}
	if got := <-other; !got.Allow || got.Reason != "back" {
		t.Errorf("answer %+v", got)
	}
	if got := a.send(t, first, `{"v":1,"do":"allow","id":"QVTC-1"}`); got != "accepted" {
		t.Errorf("reply %q", got)
	}
	if got := <-answer; !got.Allow {
		t.Errorf("answer %+v", got)
	}
}

// TestBusRepublishes: a new connection tells all that is pending, unasked.
func TestBusRepublishes(t *testing.T) {
	srv := startServer(t, -1)
	port := srv.Addr().(*net.TCPAddr).Port
	desk := publisher(t, srv.ClientURL(), first, time.Minute)
	a := connect(t, srv.ClientURL())
	ask(desk, "/a")
	a.next(t, true)
	srv.Shutdown()
	srv.WaitForShutdown()
	startServer(t, port)
	if q := a.next(t, true).Question; q.ID != "QVTC-1" {
		t.Errorf("published %+v", q)
	}
}

func TestBusThousand(t *testing.T) {
	const n = 1000
	srv := startServer(t, -1)
	desk := publisher(t, srv.ClientURL(), first, time.Minute)
	a := connect(t, srv.ClientURL())
	answers := make([]<-chan approval.Answer, n)
	for i := range answers {
		answers[i] = ask(desk, fmt.Sprintf("/%d", i))
	}
	began := time.Now()
	for range n {
		id := a.next(t, true).Question.ID
		if got := a.send(t, first, `{"v":1,"do":"allow","id":"`+id+`"}`); got != "accepted" {
			t.Fatalf("%s: %q", id, got)
		}
	}
	for _, ch := range answers {
		if got := <-ch; !got.Allow {
			t.Fatalf("answer %+v", got)
		}
	}
	t.Logf("%d questions heard and answered in %v", n, time.Since(began))
}

// TestBusSession: a real session's question is answered at the server, while its
// records go there; it is not asked there unless that was said.
func TestBusSession(t *testing.T) {
	srv := startWith(t, &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	a := connect(t, srv.ClientURL())
	g := newGround(t, false)
	silent := start(t, g, []string{"--nats", srv.ClientURL(), "--ask", "control"}, "cat", "{outside}/secret.txt")
	if got := g.Verb("asks", "allow", pending(t, g, 1)[0].ID); got.Status != 0 {
		t.Fatal(got.Stderr)
	}
	if status, out := silent.wait(t); status != 0 || len(a.lines) != 0 {
		t.Errorf("status %d, output %q, %d lines published", status, out, len(a.lines))
	}
	r := start(t, g, []string{"--nats", srv.ClientURL(), "--ask", "bus"}, "cat", "{outside}/secret.txt")
	q := a.next(t, true).Question
	if got := a.send(t, q.Session, `{"v":1,"do":"allow","id":"`+q.ID+`","who":"alice"}`); got != "accepted" {
		t.Errorf("reply %q", got)
	}
	if status, out := r.wait(t); status != 0 || !strings.Contains(out, g.Token) {
		t.Errorf("status %d, output %q", status, out)
	}
	by := ""
	for _, e := range g.Events("--session", "last") {
		if e.Op == "answer" {
			by = e.By
		}
	}
	if by != `approver:somebody on the bus, who says to be "alice"` {
		t.Errorf("recorded as by %q", by)
	}
}

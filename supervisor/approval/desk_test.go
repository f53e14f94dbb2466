package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

type recorder struct {
	mu     sync.Mutex
	events []event.Event
}

func (r *recorder) Record(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) ops() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		out = append(out, e.Op.String()+" "+e.Action.String())
	}
	return strings.Join(out, ", ")
}

func newDesk(t *testing.T, cfg Config) (*Desk, *recorder) {
	t.Helper()
	rec := &recorder{}
	cfg.Session, cfg.Recorder, cfg.Profile = "01JTESTSESSIONABCD", rec, "p"
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d, rec
}

func open(path string) Question {
	return Question{Rule: "r", Reason: "asked for", Request: event.Request{
		Op: event.OpOpen, Access: event.AccessRead, Task: event.Task{ID: "1-1", Exe: "/usr/bin/cat"},
		Object: event.Object{Kind: event.ObjectFile, Path: path, Ino: 7},
	}}
}

// ask asks in a goroutine.
func ask(d *Desk, ctx context.Context, q Question) <-chan Answer {
	ch := make(chan Answer, 1)
	go func() { ch <- d.Ask(ctx, q) }()
	synctest.Wait()
	return ch
}

func yes(scope Scope) Answer { return Answer{Allow: true, Scope: scope, By: "test"} }

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := newDesk(t, Config{})
		got := ask(d, t.Context(), open("/a"))
		list := d.Pending()
		if len(list) != 1 || list[0].ID != "ABCD-1" || list[0].Waiting != 1 || time.Until(list[0].Deadline) != time.Minute {
			t.Fatalf("pending: %+v", list)
		}
		if err := d.Answer("ABCD-9", yes(Once)); !errors.Is(err, ErrClosed) {
			t.Errorf("answer what is not there: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := d.Answer("ABCD-1", Answer{Allow: true, By: "root", Reason: "needed"}); err != nil {
			t.Fatal(err)
		}
		if a := <-got; !a.Allow || a.By != "root" {
			t.Errorf("answer %+v", a)
		}
		if err := d.Answer("ABCD-1", yes(Once)); !errors.Is(err, ErrClosed) {
			t.Errorf("second answer: %v", err)
		}
		e := rec.events[1]
		var detail Record
		if err := json.Unmarshal([]byte(e.Detail), &detail); err != nil {
			t.Fatal(err)
		}
		if e.By != "approver:root" || e.Reason != "needed" || detail.Scope != "once" || detail.AfterNS != int64(2*time.Second) || detail.ID != "ABCD-1" {
			t.Errorf("event %+v", e)
		}
		if rec.ops() != "ask ask, answer allow" {
			t.Errorf("events: %s", rec.ops())
		}
		// Once is once.
		if again := ask(d, t.Context(), open("/a")); len(d.Pending()) != 1 {
			t.Errorf("not asked again: %+v", <-again)
		}
		d.Close()
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := newDesk(t, Config{Timeout: 5 * time.Second})
		got := ask(d, t.Context(), open("/a"))
		time.Sleep(5 * time.Second)
		if a := <-got; a.Allow || a.By != byDeadline {
			t.Errorf("answer %+v", a)
		}
		if rec.ops() != "ask ask, answer deny" || len(d.Pending()) != 0 {
			t.Errorf("events: %s", rec.ops())
		}
	})
}

func TestCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := newDesk(t, Config{})
		ctx, gone := context.WithCancelCause(t.Context())
		first, second := ask(d, ctx, open("/a")), ask(d, t.Context(), open("/a"))
		other := open("/a")
		other.Request.Object.Ino = 8 // another file by now
		third := ask(d, t.Context(), other)
		if list := d.Pending(); len(list) != 2 || list[0].Waiting != 2 {
			t.Fatalf("pending: %+v", list)
		}
		gone(errors.New("gone"))
		if a := <-first; a.Allow {
			t.Errorf("withdrawn, and got %+v", a)
		}
		if list := d.Pending(); len(list) != 2 || list[0].Waiting != 1 {
			t.Fatalf("pending: %+v", list)
		}
		if err := d.Answer("ABCD-1", yes(Once)); err != nil {
			t.Fatal(err)
		}
		if a := <-second; !a.Allow {
			t.Errorf("second got %+v", a)
		}
		d.Close()
		if a := <-third; a.Allow {
			t.Errorf("third got %+v at the end", a)
		}
		if rec.ops() != "ask ask, ask ask, answer allow, answer deny" {
			t.Errorf("events: %s", rec.ops())
		}
	})
}

func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := newDesk(t, Config{})
		ctx, gone := context.WithCancelCause(t.Context())
		got := ask(d, ctx, open("/a"))
		gone(errors.New("the task is gone"))
		if a := <-got; a.Allow || !strings.Contains(a.Reason, "the task is gone") {
			t.Errorf("answer %+v", a)
		}
		if len(d.Pending()) != 0 || rec.ops() != "ask ask, answer deny" {
			t.Errorf("events: %s", rec.ops())
		}
	})
}

func TestSessionScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk(t, Config{})
		q := open("/a")
		got := ask(d, t.Context(), q)
		if err := d.Answer("ABCD-1", yes(Session)); err != nil {
			t.Fatal(err)
		}
		<-got
		replaced := q
		replaced.Request.Object.Ino = 99
		if a := d.Ask(t.Context(), replaced); !a.Allow {
			t.Errorf("asked again: %+v", a)
		}
		if a, ok := d.Known(&replaced); !ok || !a.Allow {
			t.Errorf("not known: %+v", a)
		}
		for name, change := range map[string]func(*Question){
			"another file":    func(q *Question) { q.Request.Object.Path = "/b" },
			"another access":  func(q *Question) { q.Request.Access = event.AccessWrite },
			"another program": func(q *Question) { q.Request.Task.Exe = "/usr/bin/less" },
			"another rule":    func(q *Question) { q.Rule = "s" },
		} {
			o := q
			change(&o)
			if _, ok := d.Known(&o); ok {
				t.Errorf("%s is taken for the same", name)
			}
		}
		q.Request.Access = event.AccessWrite
		got = ask(d, t.Context(), q)
		if err := d.Answer("ABCD-2", yes(Session)); err != nil {
			t.Fatal(err)
		}
		<-got
		both := q
		both.Request.Access |= event.AccessRead
		if _, ok := d.Known(&both); ok {
			t.Error("reading and writing is taken for writing")
		}
		fresh := q
		fresh.Request.Op, fresh.Request.Access, fresh.Request.Object.Kind = event.OpCreate, event.AccessWrite|event.AccessCreate, event.ObjectMissing
		if _, ok := d.Known(&fresh); !ok {
			t.Error("writing the file anew is taken for something else")
		}
		command := Question{Request: event.Request{Op: event.OpExec, Argv: []string{"git", "push"}, Task: event.Task{Cwd: "/ws"}}}
		got = ask(d, t.Context(), command)
		if err := d.Answer("ABCD-3", yes(Session)); err != nil {
			t.Fatal(err)
		}
		<-got
		command.Request.Argv = []string{"git", "push", "--force"}
		if _, ok := d.Known(&command); ok {
			t.Error("other arguments are taken for the same")
		}
		command.Request.Argv, command.Request.Task.Cwd = []string{"git", "push"}, "/other"
		if _, ok := d.Known(&command); ok {
			t.Error("another directory is taken for the same")
		}
	})
}

func TestFullDesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk(t, Config{Max: 1000})
		var waiting []<-chan Answer
		for i := range 1000 {
			waiting = append(waiting, ask(d, t.Context(), open(fmt.Sprint("/f", i))))
		}
		if a := d.Ask(t.Context(), open("/more")); a.Allow || a.By != byDesk {
			t.Errorf("one too many got %+v", a)
		}
		list := d.Pending()
		for i, q := range list {
			if q.Request.Object.Path != fmt.Sprint("/f", i) {
				t.Fatalf("question %d is about %s", i, q.Request.Object.Path)
			}
			if err := d.Answer(q.ID, yes(Once)); err != nil {
				t.Fatal(err)
			}
		}
		for _, ch := range waiting {
			if a := <-ch; !a.Allow {
				t.Fatalf("got %+v", a)
			}
		}
	})
}

type rules struct{ fail error }

func (r rules) Propose(q *Question) (Proposal, error) {
	return Proposal{File: "f", Text: q.Request.Object.Path}, r.fail
}
func (r rules) Write(Proposal) error { return nil }

func TestAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk(t, Config{Rules: rules{fail: errors.New("the envelope asks")}})
		ask(d, t.Context(), open("/a"))
		if err := d.Answer("ABCD-1", yes(Always)); err == nil || len(d.Pending()) != 1 {
			t.Errorf("a rule that cannot be: %v", err)
		}
		if err := d.Answer("ABCD-1", Answer{Scope: Always, By: "x"}); err == nil {
			t.Error("a no was taken for always")
		}
		d.Close()
		d, _ = newDesk(t, Config{Rules: rules{}})
		got := ask(d, t.Context(), open("/a"))
		if err := d.Answer("ABCD-1", yes(Always)); err != nil {
			t.Fatal(err)
		}
		if a := <-got; !a.Allow {
			t.Errorf("got %+v", a)
		}
		q := open("/a")
		if _, ok := d.Known(&q); !ok {
			t.Error("always does not hold for this session")
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk(t, Config{})
		ch := make(chan struct{}, 1)
		stop := d.Watch(ch)
		ask(d, t.Context(), open("/a"))
		select {
		case <-ch:
		default:
			t.Error("not told")
		}
		stop()
		d.Close()
		if len(ch) != 0 {
			t.Error("told after stop")
		}
		if a := d.Ask(t.Context(), open("/b")); a.Allow || a.Reason != "the session ends" {
			t.Errorf("a closed desk says %+v", a)
		}
	})
}

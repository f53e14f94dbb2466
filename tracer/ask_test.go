package tracer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// asker answers questions by a function, which may block.
type asker struct {
	answer func(context.Context, gate.Question) bool

	mu    sync.Mutex // guards asked
	asked []gate.Question
}

func (a *asker) Known(gate.Question) (gate.Answer, bool) { return gate.Answer{}, false }

func (a *asker) Ask(ctx context.Context, q gate.Question) gate.Answer {
	a.mu.Lock()
	a.asked = append(a.asked, q)
	a.mu.Unlock()
	d := event.Decision{Action: event.ActionDeny, By: "approver:test"}
	if a.answer(ctx, q) {
		d.Action = event.ActionAllow
	}
	return gate.Answer{Decision: d}
}

// asks is a decider that asks about what is below dir, and denies what is called
// secret.
func asks(dir string) decider {
	return decider{decide: func(r *event.Request) event.Action {
		switch {
		case filepath.Base(r.Object.Path) == "secret":
			return event.ActionDeny
		case strings.HasPrefix(r.Object.Path, dir+"/"):
			return event.ActionAsk
		}
		return event.ActionAllow
	}}
}

// askGround is a directory of files whose content is their name.
func askGround(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAskAllowsWhatWasAsked(t *testing.T) {
	dir := askGround(t, "one", "two")
	a := &asker{answer: func(_ context.Context, q gate.Question) bool { return strings.HasSuffix(q.Request.Object.Path, "/one") }}
	out := filepath.Join(t.TempDir(), "out")
	r, rec := superviseAsking(t, asks(dir), a, "sh", "-c", fmt.Sprintf("cat %[1]s/one > %[2]s; cat %[1]s/two >> %[2]s; rm %[1]s/one; mkdir %[1]s/new; true", dir, out))
	if r.Status != 0 {
		t.Fatalf("ended with %v", r.Status)
	}
	if got, _ := os.ReadFile(out); string(got) != "one\n" {
		t.Errorf("read %q, expected only what was allowed", got)
	}
	if _, err := os.Stat(dir + "/new"); err == nil {
		t.Error("a directory was made that was asked about and denied")
	}
	if _, err := os.Stat(dir + "/one"); err == nil {
		t.Error("a file stands that was allowed to be removed")
	}
	var got []string
	for _, e := range rec.events {
		if e.By == "approver:test" {
			got = append(got, fmt.Sprint(e.Op, " ", filepath.Base(e.Object.Path), " ", e.Action))
		}
	}
	if want := "open one allow,open two deny,delete one allow,mkdir new deny"; strings.Join(got, ",") != want {
		t.Errorf("events: %v, expected %v", got, want)
	}
	if q := a.asked[0]; len(q.Ancestry) != 2 || q.Ancestry[1].Argv[0] != "cat" || q.Ancestry[0].Argv[0] != "sh" {
		t.Errorf("ancestry: %+v", q.Ancestry)
	}
}

// TestAskDoesNotHoldOthers: while one task waits for an answer the rest runs.
func TestAskDoesNotHoldOthers(t *testing.T) {
	dir := askGround(t, "slow")
	done := filepath.Join(t.TempDir(), "done")
	a := &asker{answer: func(ctx context.Context, _ gate.Question) bool {
		for ctx.Err() == nil {
			if _, err := os.Stat(done); err == nil {
				return true
			}
			time.Sleep(5 * time.Millisecond)
		}
		return false
	}}
	r, _ := superviseAsking(t, asks(dir), a, "sh", "-c", fmt.Sprintf("cat %s/slow & ls /usr/bin | cat >/dev/null; sh -c true; echo x > %s; wait $!", dir, done))
	if r.Status != 0 {
		t.Errorf("ended with %v: the open that was asked about did not come through", r.Status)
	}
}

// TestAskEndsWithItsTask: a task that is killed, or interrupted, withdraws its
// question, and the session ends in order.
func TestAskEndsWithItsTask(t *testing.T) {
	// Not INT, which bash has its background jobs ignore.
	for _, sig := range []string{"KILL", "HUP", "TERM"} {
		dir := askGround(t, "never")
		withdrawn := make(chan struct{}, 8)
		a := &asker{answer: func(ctx context.Context, _ gate.Question) bool {
			<-ctx.Done()
			withdrawn <- struct{}{}
			return true // too late: it must have no effect
		}}
		began := time.Now()
		script := fmt.Sprintf("cat %s/never & p=$!; sleep 0.3; kill -%s $p; wait $p; exit 7", dir, sig)
		r, rec := superviseAsking(t, asks(dir), a, "bash", "-c", script)
		if r.Status.ExitStatus() != 7 {
			t.Errorf("%s: ended with %v", sig, r.Status)
		}
		select {
		case <-withdrawn:
		default:
			t.Errorf("%s: the question was not withdrawn", sig)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: took %v", sig, took)
		}
		for _, e := range rec.events {
			if e.By == "approver:test" {
				t.Errorf("%s: an answer was used that nobody waited for: %+v", sig, e)
			}
		}
	}
}

// TestAskRestartsForHandlers: a task with a handler gets to run it, and asks
// again.
func TestAskRestartsForHandlers(t *testing.T) {
	dir := askGround(t, "file")
	a := &asker{}
	a.answer = func(ctx context.Context, _ gate.Question) bool {
		a.mu.Lock()
		first := len(a.asked) == 1
		a.mu.Unlock()
		if first {
			<-ctx.Done()
		}
		return true
	}
	script := fmt.Sprintf("trap 'echo trapped' TERM; (sleep 0.3; kill -TERM $$) & exec 3< %s/file; read x <&3; [ $x = file ] && exit 5", dir)
	r, _ := superviseAsking(t, asks(dir), a, "bash", "-c", script)
	if r.Status.ExitStatus() != 5 {
		t.Errorf("ended with %v", r.Status)
	}
	if len(a.asked) < 2 {
		t.Errorf("asked %d times, expected again after the handler", len(a.asked))
	}
}

// TestAskStoppedTask: a task that is stopped while it is asked about resumes.
func TestAskStoppedTask(t *testing.T) {
	dir := askGround(t, "file")
	a := &asker{}
	a.answer = func(ctx context.Context, _ gate.Question) bool {
		a.mu.Lock()
		first := len(a.asked) == 1
		a.mu.Unlock()
		if first {
			<-ctx.Done()
		}
		return true
	}
	script := fmt.Sprintf(`cat %s/file & p=$!; sleep 0.3; kill -STOP $p; sleep 0.4; grep -q "State:.T" /proc/$p/status || exit 9; kill -CONT $p; wait $p`, dir)
	r, _ := superviseAsking(t, asks(dir), a, "bash", "-c", script)
	if r.Status != 0 {
		t.Errorf("ended with %v", r.Status)
	}
	if len(a.asked) != 2 {
		t.Errorf("asked %d times, expected twice", len(a.asked))
	}
}

// TestAskChangedMeanwhile: the answer is for the object that was asked about. What
// the name leads to afterwards is asked anew, and what is denied stays denied.
func TestAskChangedMeanwhile(t *testing.T) {
	for _, to := range []string{"two", "secret"} {
		dir := askGround(t, "one", "two", "secret")
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir+"/one", link); err != nil {
			t.Fatal(err)
		}
		a := &asker{answer: func(_ context.Context, q gate.Question) bool {
			if filepath.Base(q.Request.Object.Path) != "one" {
				return false
			}
			os.Remove(link)
			if err := os.Symlink(filepath.Join(dir, to), link); err != nil {
				t.Error(err)
			}
			return true
		}}
		r, _ := superviseAsking(t, asks(dir), a, "cat", link)
		if r.Status.ExitStatus() != 1 {
			t.Errorf("%s: ended with %v: it got what was not asked about", to, r.Status)
		}
		if want := map[string]int{"two": 2, "secret": 1}[to]; len(a.asked) != want {
			t.Errorf("%s: asked %d times, expected %d", to, len(a.asked), want)
		}
	}
}

// TestAskThousand: many questions wait at once, and cost no thread; of an emulated
// machine's patience two hundred are enough.
func TestAskThousand(t *testing.T) {
	n := 1000
	if os.Getenv("REEVE_VM") != "" {
		n = 200
	}
	dir := askGround(t, "file")
	var wg sync.WaitGroup
	wg.Add(n)
	a := &asker{answer: func(context.Context, gate.Question) bool {
		wg.Done()
		wg.Wait()
		return true
	}}
	script := fmt.Sprintf("for i in $(seq %d); do (exec 3< %s/file; read x <&3; [ $x = file ] && exec 4>&- && exit 0; exit 3) & done; for p in $(jobs -p); do wait $p || exit 4; done", n, dir)
	r, _ := superviseAsking(t, asks(dir), a, "bash", "-c", script)
	if r.Status != 0 || len(a.asked) != n {
		t.Errorf("ended with %v after %d questions", r.Status, len(a.asked))
	}
}

// TestAskSessionEnds: questions do not keep a session from ending.
func TestAskSessionEnds(t *testing.T) {
	dir := askGround(t, "file")
	a := &asker{answer: func(ctx context.Context, _ gate.Question) bool { <-ctx.Done(); return true }}
	began := time.Now()
	r, _ := superviseAsking(t, asks(dir), a, "bash", "-c", fmt.Sprintf("for i in 1 2 3; do cat %s/file & done; sleep 0.2; exit 6", dir))
	if r.Status.ExitStatus() != 6 || time.Since(began) > 10*time.Second {
		t.Errorf("ended with %v after %v", r.Status, time.Since(began))
	}
}

func superviseAsking(t *testing.T, d decider, a gate.Asker, argv ...string) (Result, *recorder) {
	t.Helper()
	return superviseWith(t, performAll(), Config{Decider: d, Asker: a}, argv...)
}

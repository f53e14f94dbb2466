package policy

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// clock is a time that a test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time       { return c.t }
func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }
func newClock() *clock                { return &clock{time.Date(2026, 11, 29, 13, 0, 0, 0, time.UTC)} }

func ledger(t *testing.T, c *clock) *Ledger {
	t.Helper()
	return NewLedger(load(t, ""), c.now)
}

// change is an operation of a task that runs exe.
func change(exe, verb, path string) *event.Request {
	req := ask(verb + " " + path)
	req.Task.Exe = exe
	switch verb {
	case "write":
		req.Flags = syscall.O_WRONLY | syscall.O_TRUNC
	case "mkdir":
		req.Object.Kind = event.ObjectMissing
	}
	return req
}

func rename(from, to string, kind, target event.ObjectKind) *event.Request {
	return &event.Request{Op: event.OpRename, Task: event.Task{PID: 77, TID: 77, Exe: "/usr/bin/mv"},
		Object: event.Object{Kind: kind, Path: from}, Target: event.Object{Kind: target, Path: to}}
}

// run does n changes and gives how many were not allowed, and the last decision.
func burst(l *Ledger, n int, req func(i int) *event.Request) (held int, last event.Decision) {
	for i := range n {
		if d := l.Decide(req(i)); d.Action != event.ActionAllow {
			held, last = held+1, d
		}
	}
	return held, last
}

func files(exe, verb, format string) func(int) *event.Request {
	return func(i int) *event.Request { return change(exe, verb, fmt.Sprintf(format, i)) }
}

func TestBulk(t *testing.T) {
	c := newClock()
	l := ledger(t, c)
	held, d := burst(l, 51, files("/usr/bin/python3", "delete", "/home/u/ws/src/f%d"))
	if held != 1 || d.Action != event.ActionAsk || d.Risk != RiskBulk || d.Rule == "" || d.Reason == "" {
		t.Errorf("the 51st: %d held, %+v", held, d)
	}
	// Slowly it is no bulk.
	c.pass(time.Minute)
	for i := range 200 {
		c.pass(250 * time.Millisecond)
		if d := l.Decide(change("/usr/bin/rm", "delete", fmt.Sprintf("/home/u/ws/slow/%d", i))); d.Action != event.ActionAllow {
			t.Fatalf("slow deletion %d: %+v", i, d)
		}
	}
	c.pass(time.Minute)
	if held, _ := burst(l, 60, files("/usr/bin/sed", "write", "/home/u/ws/src/w%d")); held != 10 {
		t.Errorf("overwriting 60: %d held", held)
	}
	l.Bulk().Granted(false)
	if held, _ := burst(l, 500, files("/usr/bin/sed", "write", "/home/u/ws/src/x%d")); held != 0 {
		t.Errorf("after a yes: %d held", held)
	}
	c.pass(9 * time.Second)
	if held, _ := burst(l, 100, files("/usr/bin/sed", "write", "/home/u/ws/src/y%d")); held != 0 {
		t.Errorf("going on after a yes: %d held", held)
	}
	c.pass(11 * time.Second)
	if held, _ := burst(l, 60, files("/usr/bin/sed", "write", "/home/u/ws/src/z%d")); held != 10 {
		t.Errorf("after a pause: %d held", held)
	}
	l.Bulk().Refused()
	if _, d := burst(l, 5, files("/usr/bin/sed", "write", "/home/u/ws/src/q%d")); d.Action != event.ActionDeny {
		t.Errorf("after a no: %+v", d)
	}
	c.pass(time.Minute)
	l.Bulk().Granted(true)
	c.pass(time.Hour)
	if held, _ := burst(l, 500, files("/usr/bin/rm", "delete", "/home/u/ws/any/%d")); held != 0 {
		t.Errorf("for the session: %d held", held)
	}
}

// TestBulkOrdinary: what a session does all the time is no bulk.
func TestBulkOrdinary(t *testing.T) {
	for name, req := range map[string]func(int) *event.Request{
		"npm ci":       files("/usr/bin/node", "delete", "/home/u/ws/node_modules/a/f%d.js"),
		"make clean":   files("/usr/bin/rm", "delete", "/home/u/ws/src/f%d.o"),
		"venv":         files("/usr/bin/rm", "delete", "/home/u/ws/.venv/lib/f%d.py"),
		"git checkout": files("/usr/bin/git", "delete", "/home/u/ws/src/f%d.c"),
		"git gc":       files("/usr/bin/git", "delete", "/home/u/ws/.git/objects/ab/%d"),
		"tests":        files("/usr/bin/python3", "delete", "/tmp/pytest/%d"),
		"build":        files("/usr/bin/gcc", "write", "/home/u/ws/build/f%d"),
		"one file":     func(int) *event.Request { return change("/usr/bin/sh", "write", "/home/u/ws/log") },
		"reading":      files("/usr/bin/grep", "read", "/home/u/ws/src/f%d"),
		"making":       files("/usr/bin/tar", "make", "/home/u/ws/src/new%d"),
		"journal": func(i int) *event.Request {
			return change("/usr/bin/sqlite3", []string{"make", "delete"}[i%2], "/home/u/ws/db-journal")
		},
		"its own files": func(i int) *event.Request {
			return change("/usr/bin/sh", []string{"make", "delete"}[i%2], fmt.Sprintf("/home/u/ws/n%d", i/2))
		},
		"saving one": func(i int) *event.Request {
			if i%2 == 0 {
				return change("/usr/bin/vim", "make", fmt.Sprintf("/home/u/ws/t%d", i))
			}
			return rename(fmt.Sprintf("/home/u/ws/t%d", i-1), "/home/u/ws/doc", event.ObjectFile, event.ObjectFile)
		},
		"mv over one": func(i int) *event.Request { // which tries first whether nothing is there
			step := rename("/home/u/ws/n", "/home/u/ws/doc", event.ObjectFile, event.ObjectFile)
			switch i % 3 {
			case 0:
				return change("/usr/bin/sh", "make", "/home/u/ws/n")
			case 1:
				step.Flags = renameNoReplace
			}
			return step
		},
	} {
		if held, d := burst(ledger(t, newClock()), 400, req); held != 0 {
			t.Errorf("%s: %d held: %+v", name, held, d)
		}
	}
	// A program of the session's own is not git because of its name.
	if held, _ := burst(ledger(t, newClock()), 60, files("/home/u/ws/git", "delete", "/home/u/ws/src/f%d")); held != 10 {
		t.Errorf("a git of the session's own: %d held", held)
	}
}

// TestLedger: what the session made is its own, and what was moved into it is not.
func TestLedger(t *testing.T) {
	remove := func(l *Ledger, line string) event.Action { return l.Decide(execute(line)).Action }
	l := ledger(t, newClock())
	if a := remove(l, "rm -rf v"); a != event.ActionAsk {
		t.Errorf("before it is made: %v", a)
	}
	l.Decide(change("/usr/bin/python3", "mkdir", "/home/u/ws/v"))
	for _, line := range []string{"rm -rf v", "rm -rf v/lib/x", "rm -r ./v/../v"} {
		if a := remove(l, line); a != event.ActionAllow {
			t.Errorf("%s of its own: %v", line, a)
		}
	}
	l.Decide(rename("/home/u/ws/v", "/home/u/ws/w", event.ObjectDir, event.ObjectMissing))
	if a, b := remove(l, "rm -rf v"), remove(l, "rm -rf w"); a != event.ActionAsk || b != event.ActionAllow {
		t.Errorf("after a rename: %v, %v", a, b)
	}
	l.Decide(rename("/home/u/ws/src", "/home/u/ws/w/src", event.ObjectDir, event.ObjectMissing))
	if a := remove(l, "rm -rf w"); a != event.ActionAsk {
		t.Errorf("after something was moved in: %v", a)
	}
	// A link that the session made does not lead to its own.
	l.Decide(&event.Request{Op: event.OpSymlink, Object: event.Object{Kind: event.ObjectSymlink, Path: "src"}, Target: event.Object{Kind: event.ObjectMissing, Path: "/home/u/ws/build/l"}})
	if a, b := remove(l, "rm -rf build/l/x"), remove(l, "rm -rf build/l"); a != event.ActionAsk || b != event.ActionAllow {
		t.Errorf("through a link: %v, the link %v", a, b)
	}
	// A directory that is moved to where everything may be deleted counts as many.
	d := l.Decide(rename("/home/u/ws/docs", "/home/u/ws/build/docs", event.ObjectDir, event.ObjectMissing))
	if d.Action != event.ActionAsk || d.Risk != RiskBulk {
		t.Errorf("a directory moved into a build folder: %+v", d)
	}
	if d := l.Decide(execute("ls")); d != l.policy.Decide(execute("ls")) {
		t.Errorf("ls: %+v", d)
	}
}

// TestLedgerLooks: where no directory stands none is deleted, by the path as it was
// told and not by what its words say; a pattern of git's is none of the kernel's.
func TestLedgerLooks(t *testing.T) {
	l := ledger(t, newClock())
	var told []string
	l.Look(func(path string) bool {
		told = append(told, path)
		return path == "/home/u/ws/src" || path == "/home/u/ws/l/../gone"
	})
	for line, want := range map[string]event.Action{
		"rm -rf gone": event.ActionAllow, "rm -f -r conftest* confdefs.h a.out gone/": event.ActionAllow, "find gone -delete": event.ActionAllow,
		"rsync -a --delete a/ gone": event.ActionAllow, "rsync -a --delete a/ src": event.ActionAsk, "find src -delete": event.ActionAsk,
		"rm -rf src": event.ActionAsk, "rm -rf gone src": event.ActionAsk, "rm -rf l/../gone": event.ActionAsk,
		"rm -rf /etc/gone": event.ActionAsk, "git rm -rf gone": event.ActionAsk,
	} {
		if d := l.Decide(execute(line)); d.Action != want {
			t.Errorf("%s: %v (%s), want %v", line, d.Action, d.Rule, want)
		}
	}
	if told = nil; l.Decide(execute("rm -rf build gone")).Action != event.ActionAllow || !slices.Equal(told, []string{"/home/u/ws/gone"}) {
		t.Errorf("looked at %v", told)
	}
}

// TestLedgerConcurrent: of many at once exactly as many pass as may.
func TestLedgerConcurrent(t *testing.T) {
	l := ledger(t, newClock())
	var held atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			h, _ := burst(l, 100, files("/usr/bin/rm", "delete", fmt.Sprintf("/home/u/ws/d%d/f%%d", n)))
			held.Add(int64(h))
		})
	}
	wg.Wait()
	if held.Load() != 750 {
		t.Errorf("%d of 800 held, want 750", held.Load())
	}
}

func BenchmarkLedger(b *testing.B) {
	l := NewLedger(load(b, ""), time.Now)
	for name, req := range map[string]*event.Request{
		"read": change("/usr/bin/cat", "read", "/home/u/ws/src/main.c"), "delete": change("/usr/bin/rm", "delete", "/home/u/ws/src/main.c"),
		"exec": execute("gcc -c main.c -o main.o"), "git": execute("git -C x push origin main"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Decide(req)
			}
		})
		b.Run(name+"/policy", func(b *testing.B) {
			for b.Loop() {
				l.policy.Decide(req)
			}
		})
	}
}

// counter is hooks that count, and know some files.
type counter struct {
	lost, limit int
	made        map[string]bool
	fails       error
}

func (c *counter) Lose(files int) (bool, error) {
	c.lost += files
	return c.lost > c.limit, c.fails
}

func (c *counter) Made(path string) bool { return c.made[path] }

// TestJoined: with hooks that judge what a session writes there is one count, and
// what it made by what they saw is its own.
func TestJoined(t *testing.T) {
	c := &counter{limit: 3, made: map[string]bool{}}
	l := ledger(t, newClock())
	l.Join(c)
	for i := range 10 {
		c.made[fmt.Sprintf("/home/u/ws/n%d", i)] = true
	}
	if held, d := burst(l, 10, files("/usr/bin/rm", "delete", "/home/u/ws/n%d")); held != 0 || c.lost != 0 {
		t.Errorf("%d of the session's own files are held, %d counted: %+v", held, c.lost, d)
	}
	for range 5 {
		c.made["/home/u/ws/tmp1"] = true
		if d := l.Decide(rename("/home/u/ws/tmp1", "/home/u/ws/doc", event.ObjectFile, event.ObjectFile)); d.Action != event.ActionAllow {
			t.Errorf("a file replaced anew: %+v", d)
		}
	}
	if c.lost != 1 {
		t.Errorf("%d counted, want the one that was replaced", c.lost)
	}
	if !l.expendable("/home/u/ws/n3") || !l.expendable("/home/u/ws/doc") || l.expendable("/home/u/ws/old1") {
		t.Error("what a command may delete without a question")
	}
	if held, d := burst(l, 5, files("/usr/bin/rm", "delete", "/home/u/ws/old%d")); held != 3 || d.Rule != "commands.bulk: more than 50 files in 10s" {
		t.Errorf("%d held: %+v", held, d)
	}
	c.fails = errors.New("the hooks are gone")
	if d := l.Decide(change("/usr/bin/rm", "delete", "/home/u/ws/last")); d.Action != event.ActionDeny || d.Reason != "the hooks are gone" {
		t.Errorf("what cannot be counted: %+v", d)
	}
	if d := l.Decide(change("/usr/bin/rm", "delete", "/home/u/ws/n.o")); d.Action != event.ActionAllow {
		t.Errorf("what does not count: %+v", d)
	}
	// A link of the session's own leads who knows where.
	link := &event.Request{Op: event.OpSymlink, Task: event.Task{PID: 77, TID: 77}, Object: event.Object{Kind: event.ObjectSymlink, Raw: "/home/u/ws"}, Target: event.Object{Kind: event.ObjectMissing, Path: "/home/u/ws/l"}}
	if c.made["/home/u/ws/l/n3"] = true; l.Decide(link).Action != event.ActionAllow || l.expendable("/home/u/ws/l/n3") {
		t.Error("what lies behind a link is expendable")
	}
}

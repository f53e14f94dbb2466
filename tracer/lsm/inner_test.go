package lsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inside loads the hooks of a session inside the one that h holds.
func (h *held) inside(rules Rules) *held {
	h.t.Helper()
	e, err := New(Config{Session: 7, Rules: rules, Inner: true, UrgentBytes: 64 << 10, FlowBytes: os.Getpagesize()})
	if err != nil {
		h.t.Fatal(err)
	}
	in := &held{t: h.t, engine: e, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { in.done <- e.Run(ctx, &in.log) }()
	h.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-in.done, e.Close()); err != nil {
			h.t.Error(err)
		}
	})
	return in
}

// paths are those of the records about files in dir, with what came of it.
func (l *log) paths(dir string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accesses {
		if rest, ok := strings.CutPrefix(a.Path, dir+"/"); ok {
			list = append(list, fmt.Sprintf("%s %d of %d", rest, a.Errno, a.Inner))
		}
	}
	slices.Sort(list) // they come by two rings
	return list
}

// TestInner: two sessions, one inside the other. What either refuses is refused
// inside, to all that is started there and however; the outer one's other tasks
// are judged by the outer one alone; what is allowed is recorded by one.
func TestInner(t *testing.T) {
	dir := ground(t, "open/f", "outer/f", "inner/f", "deepest/f")
	outer := hold(t, rulesOf(t, pattern{dir + "/outer", denyAll}))
	inner := outer.inside(rulesOf(t, pattern{dir + "/inner", denyAll}))
	deepest := inner.inside(rulesOf(t, pattern{dir + "/deepest", denyAll}, pattern{dir + "/outer", allowAll}))
	up := filepath.Dir(dir)
	const look = `cd "$1"; for f in open outer inner deepest; do cat $f/f >/dev/null 2>&1 && echo $f; done; `
	last := up + "/last"
	if err := unix.Mkfifo(last, 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(pid int, name string) {
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "..", name)); err == nil {
				return
			}
		}
		t.Errorf("%d: it never came to %s", pid, name)
	}
	script := look + `echo $$ >` + up + `/pid; : >` + up + `/one; until [ -e ` + up + `/go1 ]; do sleep 0.02; done
		` + look + `: >` + up + `/two; until [ -e ` + up + `/go2 ]; do sleep 0.02; done
		(` + look + `) & wait; setsid sh -c '(` + look + `) & wait' sh "$1"; (exec >/dev/null 2>&1; read x <` + last + `) & exit 0`
	wait := outer.start(script, dir)
	ask(0, "one")
	text, err := os.ReadFile(up + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := errors.Join(inner.engine.Enclose(pid), outer.engine.Hand(pid, 1), os.WriteFile(up+"/go1", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	ask(pid, "two")
	if err := errors.Join(deepest.engine.Enclose(pid), inner.engine.Hand(pid, 2), outer.engine.Hand(pid, 2), os.WriteFile(up+"/go2", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	other := outer.run(look, dir)
	got, err := wait()
	if err != nil {
		t.Error(err)
	}
	compareLines(t, got, "open\ninner\ndeepest\nopen\ndeepest\nopen\nopen")
	compareLines(t, other, "open\ninner\ndeepest")
	for _, e := range []*held{deepest, inner, outer} {
		if err := e.engine.Settle(); err != nil {
			t.Error(err)
		}
	}
	// Who refuses tells it, who allows last tells that, and both of whose task it is.
	compareLines(t, strings.Join(outer.log.paths(dir), "\n"), `deepest/f 0 of 0
		deepest/f 0 of 0
		deepest/f 0 of 1
		inner/f 0 of 0
		inner/f 0 of 0
		open/f 0 of 0
		open/f 0 of 0
		open/f 0 of 1
		open/f 0 of 2
		open/f 0 of 2
		outer/f 13 of 0
		outer/f 13 of 0
		outer/f 13 of 1
		outer/f 13 of 2
		outer/f 13 of 2`)
	compareLines(t, strings.Join(inner.log.paths(dir), "\n"), `inner/f 13 of 0
		inner/f 13 of 2
		inner/f 13 of 2`)
	compareLines(t, strings.Join(deepest.log.paths(dir), "\n"), `deepest/f 13 of 0
		deepest/f 13 of 0`)
	// The last task is one that nobody waits for.
	if n, err := deepest.engine.Population(); err != nil || n != 1 {
		t.Fatalf("%d tasks are left, %v", n, err)
	}
	if err := os.WriteFile(last, nil, 0); err != nil {
		t.Error(err)
	}
	for _, e := range []*held{inner, deepest} {
		n, err := e.engine.Population()
		for deadline := time.Now().Add(20 * time.Second); n > 0 && err == nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			n, err = e.engine.Population()
		}
		if err != nil || n != 0 {
			t.Errorf("%d tasks are left in the end, %v", n, err)
		}
	}
}

// TestWarden: a process with threads of its own becomes a session's first; what it
// starts can do nothing to it, nor to those outside, but it to them.
func TestWarden(t *testing.T) {
	dir := ground(t, "inner/f", "open/f")
	outer := hold(t, rulesOf(t))
	rules := rulesOf(t, pattern{dir + "/inner", denyAll})
	rules.Closed = Ptrace
	inner := outer.inside(rules)
	wait := outer.start(`sleep 600 >/dev/null 2>&1 & p=$!; export `+victimVariable+`=warden; "$1" "$2" $p; kill $p && echo outside lives`, self(t), dir)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(dir + "/pid"); err == nil && len(text) > 0 {
			pid, _ := strconv.Atoi(string(text))
			if err := errors.Join(inner.engine.Enclose(pid), outer.engine.Hand(pid, 1)); err != nil {
				t.Fatal(err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it never came up")
		}
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := wait()
	if err != nil {
		t.Error(err)
	}
	compareLines(t, got, `thread EACCES
		thread EACCES
		thread EACCES
		thread EACCES
		thread's child EACCES
		signal warden EPERM
		signal outside EPERM
		memory of warden EACCES
		child ok
		outside lives`)
}

func lockedOpen(begin <-chan struct{}, results chan<- error, path string) {
	runtime.LockOSThread()
	<-begin
	results <- open(path, unix.O_RDONLY)
}

func actWarden(args []string) {
	dir, outside := args[0], args[1]
	if len(args) > 2 { // the child
		warden, _ := strconv.Atoi(args[2])
		pid, _ := strconv.Atoi(outside)
		say("thread's child", open(dir+"/inner/f", unix.O_RDONLY))
		say("signal warden", unix.Kill(warden, unix.SIGTERM))
		say("signal outside", unix.Kill(pid, unix.SIGTERM))
		say("memory of warden", open(fmt.Sprintf("/proc/%d/mem", warden), unix.O_RDONLY))
		_ = unix.Close(3) // that was all
		time.Sleep(time.Minute)
		return
	}
	begin, results := make(chan struct{}), make(chan error)
	for range 4 {
		go lockedOpen(begin, results, dir+"/inner/f") // on threads that are there before
	}
	_ = os.WriteFile(dir+"/pid", fmt.Append(nil, os.Getpid()), 0o600)
	for open(dir+"/go", unix.O_RDONLY) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	close(begin)
	for range 4 {
		say("thread", <-results)
	}
	self, _ := os.Executable()
	said, saying, err := os.Pipe()
	if err != nil {
		say("pipe", err)
		return
	}
	child, err := os.StartProcess(self, []string{self, dir, outside, strconv.Itoa(os.Getpid())}, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr, saying}})
	if err != nil {
		say("child", err)
		return
	}
	saying.Close()
	_, _ = said.Read(make([]byte, 1)) // until it has said all, or is gone
	say("child", child.Kill())
	_, _ = child.Wait()
}

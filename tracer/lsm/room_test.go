package lsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/witness"
)

// facts counts what the witness tells.
type facts struct {
	mu                  sync.Mutex
	forks, execs, exits int
	lost                []witness.Lost
}

func (f *facts) take(r witness.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r := r.(type) {
	case witness.Fork:
		f.forks++
	case witness.Exec:
		if r.Filename == "/bin/true" { // the shell's own may be seen, or be over
			f.execs++
		}
	case witness.Exit:
		f.exits++
	case witness.Lost:
		f.lost = append(f.lost, r)
	}
}

func (f *facts) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%d forks, %d execs, %d exits, lost %v", f.forks, f.execs, f.exits, f.lost)
}

// actSpawn runs a program until the kernel has refused it a hundred times and no
// child can be made any more, and once the file "go" is there again, from several
// threads.
func actSpawn(args []string) {
	_ = os.Chdir(args[0])
	self, _ := os.Executable()
	ran, again := 0, 0
	for again < 100 {
		if err := exec.Command(self+".missing", "x").Run(); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAGAIN) {
			say("missing program", err)
		}
		switch err := exec.Command("/bin/true").Run(); {
		case err == nil:
			ran++
		case errors.Is(err, unix.EAGAIN):
			again++
		default:
			say("run", err)
			return
		}
	}
	_ = os.WriteFile("full", fmt.Append(nil, ran), 0o600)
	for open("go", unix.O_RDONLY) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		group.Go(func() {
			for range 10 {
				err := exec.Command("/bin/true").Run()
				for tries := 0; errors.Is(err, unix.EAGAIN) && tries < 1000; tries++ { // the reader may be slow
					time.Sleep(10 * time.Millisecond)
					err = exec.Command("/bin/true").Run()
				}
				if err != nil {
					say("run again", err)
					continue
				}
				mu.Lock()
				ran++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	fmt.Println("ran", ran)
}

// TestRoom: with the witness's reader stopped its ring runs full; where the audit
// is strict children and programs are then refused with EAGAIN, what did run is
// recorded to the last exit, and with the reader back it goes on.
func TestRoom(t *testing.T) {
	needsLSM(t)
	const ring = 16 << 10
	dir := ground(t)
	w, err := witness.New(witness.Config{RingBytes: ring})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	e, err := New(Config{Rules: rulesOf(t), Strict: true, Room: w.Room()})
	if err != nil {
		t.Fatal(err)
	}
	h := &held{t: t, engine: e, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { h.done <- e.Run(ctx, &h.log) }()
	wait := h.startHeld("export "+victimVariable+`=spawn; exec "$@"`, func(pid int) {
		if err := w.Adopt(pid); err != nil {
			t.Fatal(err)
		}
	}, self(t), dir)
	ended := make(chan string, 1)
	go func() {
		out, err := wait()
		ended <- fmt.Sprint(out, err)
	}()
	var first string
	for first == "" {
		select {
		case out := <-ended:
			t.Fatalf("it ended early: %s", out)
		case <-time.After(20 * time.Millisecond):
		}
		if b, err := os.ReadFile(dir + "/full"); err == nil {
			first = string(b)
		}
	}
	var f facts
	reading := make(chan error, 1)
	go func() { reading <- w.Run(ctx, f.take) }()
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := <-ended
	cancel()
	if err := errors.Join(<-reading, <-h.done); err != nil {
		t.Fatal(err)
	}
	var left uint64
	if err := e.loaded.Variables["promised"].Get(&left); err != nil {
		t.Fatal(err)
	}
	lost := map[Cause]uint64{}
	for _, l := range h.log.lost {
		lost[l.Cause] += l.Count
	}
	t.Logf("%s ran before the ring was full; %s; %v refused; %q", first, &f, lost, out)
	ran := 0
	if _, err := fmt.Sscanf(out, "ran %d\n", &ran); err != nil || strings.Contains(out, "again") {
		t.Errorf("it did not go on: %q", out)
	}
	if f.execs != ran || f.exits != f.forks+1 || f.forks < ran || len(f.lost) > 0 {
		t.Errorf("%d programs ran, but the witness tells %s", ran, &f)
	}
	if lost[CauseFork] == 0 || lost[CauseExec] == 0 {
		t.Errorf("refused %v: it is not told, or the test is too easy", lost)
	}
	if left != 0 {
		t.Errorf("%d bytes stay promised", left)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

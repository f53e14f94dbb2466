package tracer

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

// TestInitHolds: what init is given to hold is open until it is told to drop it,
// or until the tree is gone.
func TestInitHolds(t *testing.T) {
	l, err := Prepare(false)
	if err != nil {
		t.Fatal(err)
	}
	plan := Plan{Handling: performAll()}
	plan.Handling[gate.Kernel] = gate.Continue
	s, err := l.Start(t.Context(), Config{
		Plan: plan, Decider: decider{}, Recorder: &recorder{}, AllowDegraded: true,
		Order: spawn.Order{Path: "/bin/sleep", Argv: []string{"sleep", "100"}, Env: os.Environ(), Dir: "/"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Wait(func(unix.Signal) {})
		ended <- errors.Join(err, s.Close())
	}()
	// held is the reading end of a pipe whose writing end init holds, and nobody else.
	held := func(number int) int {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		if err := s.process.Hold(number, []int{p[1]}); err != nil {
			t.Fatal(err)
		}
		unix.Close(p[1])
		return p[0]
	}
	closed := func(fd int, within time.Duration) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, int(within.Milliseconds()))
		return err == nil && n == 1 && p[0].Revents&unix.POLLHUP != 0
	}
	dropped, kept := held(3), held(4)
	defer unix.Close(dropped)
	defer unix.Close(kept)
	if closed(dropped, 100*time.Millisecond) {
		t.Error("init let go of what it was to hold")
	}
	if err := s.process.Drop(3); err != nil {
		t.Fatal(err)
	}
	if !closed(dropped, 10*time.Second) {
		t.Error("init holds what it was told to drop")
	}
	if closed(kept, 100*time.Millisecond) {
		t.Error("init let go of something else")
	}
	if err := errors.Join(s.End(), <-ended); err != nil {
		t.Fatal(err)
	}
	if !closed(kept, 10*time.Second) {
		t.Error("something outlives the session")
	}
	if err := s.process.Drop(4); err != nil {
		t.Errorf("drop what is gone: %v", err)
	}
}

// TestInnerLimit: one session cannot take all the room that the kernel has for
// hooks.
func TestInnerLimit(t *testing.T) {
	var s inners
	for range maxInner {
		if err := s.enter(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.enter(); !errors.Is(err, ErrManyInside) {
		t.Errorf("one more: %v", err)
	}
	s.leave(nil)
	if err := s.enter(); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

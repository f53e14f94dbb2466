package headstart

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestMain is also the init of these tests: it lives until its socket is closed.
func TestMain(m *testing.M) {
	if os.Args[0] == InitName {
		var b [1]byte
		n, err := syscall.Read(3, b[:])
		if n != 0 || err != nil {
			os.Exit(1)
		}
		os.Exit(7)
	}
	os.Exit(m.Run())
}

// TestTake: what was begun is given once, and then others are started.
func TestTake(t *testing.T) {
	Begin()
	was := begun.Load().init
	first, err := Take()
	if err != nil || first != was {
		t.Fatalf("took %+v, %v; %+v was begun", first, err, was)
	}
	second, err := Take()
	if err != nil || second.Process.Pid == first.Process.Pid {
		t.Fatalf("took %+v, %v, after %+v", second, err, first)
	}
	for _, i := range []Init{first, second} {
		if err := syscall.Close(i.Socket); err != nil {
			t.Error(err)
		}
		if s, err := i.Process.Wait(); err != nil || s.ExitCode() != 7 {
			t.Errorf("init ended with %v, %v", s, err)
		}
	}
}

// TestDrop: what nobody takes is gone, and with it its socket.
func TestDrop(t *testing.T) {
	Begin()
	dropped := begun.Load().init
	done := make(chan struct{})
	go func() { Drop(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("init did not end with its socket")
	}
	if err := dropped.Process.Signal(syscall.Signal(0)); err == nil {
		t.Error("init is still there")
	}
	if _, err := syscall.GetsockoptInt(dropped.Socket, syscall.SOL_SOCKET, syscall.SO_TYPE); err == nil {
		t.Error("the launch socket is still open")
	}
	Drop() // of nothing
}

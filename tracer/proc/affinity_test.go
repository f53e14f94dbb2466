package proc

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// sitter is a thread that does nothing, with its affinity as it was at the start.
func sitter(t *testing.T) (tid int, was unix.CPUSet) {
	t.Helper()
	told, done := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: it ends with the goroutine
		told <- unix.Gettid()
		<-done
	}()
	t.Cleanup(func() { close(done) })
	tid = <-told
	was = affinity(t, tid)
	if was.Count() < 2 {
		t.Skip("one processor")
	}
	return tid, was
}

func affinity(t *testing.T, tid int) (set unix.CPUSet) {
	t.Helper()
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

func only(cpu int) (set unix.CPUSet) {
	set.Set(cpu)
	return set
}

func TestSeat(t *testing.T) {
	tid, was := sitter(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var s Seat
	for range 100 {
		if !s.Take(tid) {
			t.Fatal("not taken")
		}
		if now := affinity(t, tid); now.Count() != 1 {
			t.Fatalf("taken: %d processors", now.Count())
		}
		if err := s.Leave(); err != nil {
			t.Fatal(err)
		}
		if now := affinity(t, tid); now != was {
			t.Fatalf("left: %v, was %v", now, was)
		}
	}
}

// TestSeatKeeps: what somebody else decided about a thread's processors stays.
func TestSeatKeeps(t *testing.T) {
	tid, was := sitter(t)
	var cpus []int
	for i := 0; len(cpus) < 2; i++ {
		if was.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := affinity(t, 0)
	defer func() { _ = unix.SchedSetaffinity(0, &own) }()
	here, there := only(cpus[0]), only(cpus[1])
	if err := unix.SchedSetaffinity(0, &here); err != nil {
		t.Fatal(err)
	}
	var s Seat
	if !s.Take(tid) {
		t.Fatal("not taken")
	}
	if err := unix.SchedSetaffinity(tid, &there); err != nil {
		t.Fatal(err)
	}
	if err := s.Leave(); err != nil {
		t.Fatal(err)
	}
	if now := affinity(t, tid); now != there {
		t.Errorf("somebody else's change was undone: %v", now)
	}
	if s.Take(tid) {
		t.Error("taken from the one processor that it may run on")
	}
	if s.Take(1 << 30) {
		t.Error("taken: a thread that does not exist")
	}
}

func TestCPUList(t *testing.T) {
	for list, want := range map[string]int{
		"0": 1, "0-1": 2, "0-3,8": 5, "0-1023": 1024,
		"": 0, "x": 0, "0-1024": 0, "0-": 0, "-1": 0, "1,,2": 0,
	} {
		if set := cpuList(list); set.Count() != want {
			t.Errorf("%q: %d processors, want %d", list, set.Count(), want)
		}
	}
	if set := online(); set.Count() < runtime.NumCPU() {
		t.Errorf("%d processors are online, we may run on %d", set.Count(), runtime.NumCPU())
	}
}

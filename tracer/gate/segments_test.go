package gate

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// segment makes one beside the gate, and removes it when the test ends.
func segment(t *testing.T) int {
	t.Helper()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Skip("make a shared memory segment:", err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return id
}

// private makes one as a task of w would.
func private(t *testing.T, w *worker) int {
	t.Helper()
	a := w.g.segments.make(w, unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if a.errno != 0 {
		t.Fatal(a.errno)
	}
	return int(a.val)
}

// segmentOfChild is set for the child that makes the segment of another process.
const segmentOfChild = "GATE_TEST_SEGMENT"

// ofAnother is a segment that another process made.
func ofAnother(t *testing.T) (id int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSegmentOfChild$")
	cmd.Env = append(os.Environ(), segmentOfChild+"=1")
	out, err := cmd.Output()
	if _, scanErr := fmt.Sscanf(string(out), "segment %d", &id); err != nil || scanErr != nil {
		t.Fatalf("%s: %v, %v", out, err, scanErr)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return id
}

func TestSegmentOfChild(t *testing.T) {
	if os.Getenv(segmentOfChild) == "" {
		return // it makes what TestSegments needs
	}
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("segment %d\n", id)
}

// TestSegments: a segment is the session's for which it was made, and of those
// outside it; neither what merely has the maker's number, nor what merely has the
// segment's, is anybody's, or removed.
func TestSegments(t *testing.T) {
	stale := segment(t) // as of a process that had reeve's number before
	outer, inner := claimant()
	s := &outer.g.segments
	ofOuter, ofInner, wrapped := private(t, outer), private(t, inner), ofAnother(t)
	s.by[wrapped] = outer.m
	for _, c := range []struct {
		name         string
		id           int
		outer, inner bool
	}{
		{"the outer session's", ofOuter, true, false}, {"the inner session's", ofInner, true, true},
		{"an earlier process's", stale, false, false}, {"another's with a number of ours", wrapped, false, false},
	} {
		if got := s.own(outer, c.id); got != c.outer {
			t.Errorf("%s is the outer session's: %v", c.name, got)
		}
		if got := s.own(inner, c.id); got != c.inner {
			t.Errorf("%s is the inner session's: %v", c.name, got)
		}
	}
	s.remove(func(id int, err error) { t.Errorf("remove %d: %v", id, err) })
	for id, left := range map[int]bool{ofOuter: false, ofInner: false, stale: true, wrapped: true} {
		if _, there := proc.ShmMaker(id); there != left {
			t.Errorf("%d is there: %v, want %v", id, there, left)
		}
	}
}

// TestManySegments: there are so many and no more, until some are gone.
func TestManySegments(t *testing.T) {
	segment(t)
	outer, inner := claimant()
	s := &outer.g.segments
	t.Cleanup(func() { s.remove(func(id int, err error) { t.Errorf("remove %d: %v", id, err) }) })
	var ids []int
	for range maxSegments {
		ids = append(ids, private(t, outer))
	}
	private(t, outer) // where nothing is held back
	for _, w := range []*worker{outer, inner} {
		w.m.Handling[Kernel] = Refuse
		if a := s.make(w, unix.IPC_PRIVATE, 4096, 0o600); a.errno != unix.ENOSPC || a.denied == nil || a.denied.Reason == "" {
			t.Errorf("one more: %+v", a)
		}
	}
	for _, id := range ids[:2] {
		if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
			t.Fatal(err)
		}
	}
	if id := private(t, inner); slices.Contains(ids[2:], id) || s.own(outer, ids[0]) {
		t.Error("what is gone is the session's, or two have a number")
	}
}

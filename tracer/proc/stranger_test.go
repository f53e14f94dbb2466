package proc

import "testing"

func TestLinkOwner(t *testing.T) {
	for _, c := range []struct {
		dir string
		pid int
		ok  bool
	}{
		{"/proc/12", 12, true}, {"/proc/12/fd", 12, true}, {"/proc/12/task/13/ns", 12, true},
		{"/proc/asound", 0, false}, {"/proc/asound/1", 0, false}, {"/proc/net", 0, false},
		{"/mnt/proc/12/fd", 0, true}, {"/12", 0, true}, {"/mnt/proc/asound", 0, false}, {"/", 0, false},
	} {
		if pid, ok := linkOwner(c.dir); pid != c.pid || ok != c.ok {
			t.Errorf("linkOwner(%q) is %d, %v, want %d, %v", c.dir, pid, ok, c.pid, c.ok)
		}
	}
}

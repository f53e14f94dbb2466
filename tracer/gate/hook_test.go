package gate

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// filter runs the rules of a table over one call and says whether it is notified.
func filter(t *testing.T, h Table) func(name string, args ...uint64) bool {
	t.Helper()
	raw, err := seccomp.Build(Rules(h, nil, false, true))
	if err != nil {
		t.Fatal(err)
	}
	insns, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter does not disassemble")
	}
	vm, err := bpf.NewVM(insns)
	if err != nil {
		t.Fatal(err)
	}
	arch, err := seccomp.NativeArch()
	if err != nil {
		t.Fatal(err)
	}
	return func(name string, args ...uint64) bool {
		nr, ok := seccomp.Number(name)
		if !ok {
			t.Fatalf("no call %s", name)
		}
		data := make([]byte, 64)
		binary.BigEndian.PutUint32(data, uint32(nr))
		binary.BigEndian.PutUint32(data[4:], arch)
		for i, a := range args {
			binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
			binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
		}
		ret, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return ret != 0x7fff0000 // SECCOMP_RET_ALLOW
	}
}

// TestHookedOpens: what the hooks judge alone is not notified, and nothing else
// passes unseen.
func TestHookedOpens(t *testing.T) {
	h := Table{Read: Hook, Write: Hook, Tree: Perform, Meta: Perform, Exec: Continue, Kernel: Refuse}
	all, reads := filter(t, h), h
	reads[Write] = Perform
	readsOnly := filter(t, reads)
	unhooked := filter(t, Table{Read: Perform, Write: Perform, Tree: Perform, Kernel: Refuse})
	for _, tt := range []struct {
		name          string
		flags         uint64
		all, readOnly bool // whether it is notified
	}{
		{"read", unix.O_RDONLY | unix.O_CLOEXEC, false, false},
		{"list", unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK, false, false},
		{"write", unix.O_WRONLY, false, true},
		{"update", unix.O_RDWR | unix.O_APPEND, false, true},
		{"neither", 3, false, true},
		{"make", unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC, false, true},
		{"make to read", unix.O_RDONLY | unix.O_CREAT, false, true},
		{"truncate", unix.O_RDONLY | unix.O_TRUNC, false, true},
		{"unnamed", unix.O_TMPFILE | unix.O_WRONLY, false, true},
		{"exclusive", unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL, true, true},
		{"handle", unix.O_PATH, true, true},
		{"high bits", 1<<63 | unix.O_RDONLY, false, false},
	} {
		for _, call := range []struct {
			name string
			args []uint64
		}{{"open", []uint64{0, tt.flags}}, {"openat", []uint64{0, 0, tt.flags}}} {
			if got := all(call.name, call.args...); got != tt.all {
				t.Errorf("%s to %s: notified %v, want %v", call.name, tt.name, got, tt.all)
			}
			if got := readsOnly(call.name, call.args...); got != tt.readOnly {
				t.Errorf("%s to %s, only reading hooked: notified %v, want %v", call.name, tt.name, got, tt.readOnly)
			}
			if !unhooked(call.name, call.args...) {
				t.Errorf("%s to %s without hooks: not notified", call.name, tt.name)
			}
		}
	}
	for name, want := range map[string]bool{"openat2": true, "creat": false, "umask": true, "unlink": true, "renameat2": true, "execve": true, "clone3": true, "read": false, "tgkill": false} {
		if got := all(name); got != want {
			t.Errorf("%s: notified %v, want %v", name, got, want)
		}
	}
}

package witness

import (
	"encoding/binary"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/reeve-audit/reeve/bpf"
)

// sample is what the kernel would write for a record with text behind it.
func sample(t testing.TB, r any, text string) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.NativeEndian, r)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, text...)
	binary.NativeEndian.PutUint16(b[2:], uint16(len(b)))
	return b
}

func head(k bpf.WitnessKind) bpf.WitnessRecordHeader {
	return bpf.WitnessRecordHeader{Version: version, Kind: k, Time: 5}
}

func samples(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"fork": sample(t, bpf.WitnessForkRecord{
			Header: head(bpf.WitnessKindKIND_FORK), ParentTgid: 1, ParentTid: 2, ChildTgid: 3,
			Flags: forkUnmarked, ParentStart: 10, ChildStart: 20,
		}, ""),
		"exit": sample(t, bpf.WitnessExitRecord{
			Header: head(bpf.WitnessKindKIND_EXIT), Tgid: 3, Status: 7 << 8, Start: 20,
		}, ""),
		"exec": sample(t, bpf.WitnessExecRecord{
			Header: head(bpf.WitnessKindKIND_EXEC), Tgid: 3, OldTid: 4, Start: 20, Dev: 254<<20 | 1, Ino: 99,
			Flags: execMismatch | execKilled, FilenameLen: 2, ArgvLen: 5, ArgvFull: 5,
		}, "/xa\x00\x00b\x00"),
		"cut": sample(t, bpf.WitnessExecRecord{
			Header: head(bpf.WitnessKindKIND_EXEC), FilenameLen: 1, ArgvLen: 3, ArgvFull: 9000,
		}, "/a\x00b"),
		"no strings": sample(t, bpf.WitnessExecRecord{Header: head(bpf.WitnessKindKIND_EXEC), ArgvFull: 8}, ""),
	}
}

func TestDecode(t *testing.T) {
	want := map[string]Record{
		"fork": Fork{Time: 5, Parent: Process{1, 10}, Child: Process{3, 20}, ParentTID: 2, Unmarked: true},
		"exit": Exit{Time: 5, Process: Process{3, 20}, Status: syscall.WaitStatus(7 << 8)},
		"exec": Exec{
			Time: 5, Process: Process{3, 20}, OldTID: 4, Inode: Inode{Dev: 254<<8 | 1, Ino: 99},
			Filename: "/x", Argv: []string{"a", "", "b"}, Mismatch: true, Killed: true,
		},
		"cut":        Exec{Time: 5, Filename: "/", Argv: []string{"a", "b"}, ArgvLen: 9000},
		"no strings": Exec{Time: 5, ArgvLen: 8},
	}
	for name, b := range samples(t) {
		got, err := decode(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want[name])
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := map[string]func(b []byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"short header": func(b []byte) []byte { return b[:20] },
		"cut":          func(b []byte) []byte { return b[:len(b)-1] },
		"longer":       func(b []byte) []byte { return append(b, 0) },
		"version":      func(b []byte) []byte { b[0]++; return b },
		"kind":         func(b []byte) []byte { b[4] = 77; return b },
		"cut with a right size": func(b []byte) []byte {
			b = b[:len(b)-1]
			binary.NativeEndian.PutUint16(b[2:], uint16(len(b)))
			return b
		},
	}
	for name, spoil := range tests {
		for kind, b := range samples(t) {
			if r, err := decode(spoil(b)); err == nil {
				t.Errorf("%s %s: decoded as %+v", kind, name, r)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range samples(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if (r == nil) == (err == nil) {
			t.Fatalf("record %v, error %v", r, err)
		}
		if e, ok := r.(Exec); ok && len(e.Filename)+len(strings.Join(e.Argv, "")) > len(b) {
			t.Fatal("more text than bytes")
		}
	})
}

// TestLayout compares the structs that Go reads with what clang compiled.
func TestLayout(t *testing.T) {
	spec, err := bpf.LoadWitness()
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"record_header": bpf.WitnessRecordHeader{},
		"fork_record":   bpf.WitnessForkRecord{},
		"exec_record":   bpf.WitnessExecRecord{},
		"exit_record":   bpf.WitnessExitRecord{},
		"mark":          bpf.WitnessMark{},
		"expectation":   bpf.WitnessExpectation{},
	} {
		var s *btf.Struct
		if err := spec.Types.TypeByName(name, &s); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		typ := reflect.TypeOf(v)
		if int(s.Size) != int(typ.Size()) || binary.Size(v) != int(s.Size) {
			t.Errorf("%s: C %d bytes, Go %d, encoded %d", name, s.Size, typ.Size(), binary.Size(v))
		}
		if typ.NumField() != len(s.Members)+1 { // and structs.HostLayout
			t.Errorf("%s: C has %d members, Go %d", name, len(s.Members), typ.NumField()-1)
			continue
		}
		for i, m := range s.Members {
			if f := typ.Field(i + 1); m.Offset.Bytes() != uint32(f.Offset) {
				t.Errorf("%s.%s: C at %d, Go %s at %d", name, m.Name, m.Offset.Bytes(), f.Name, f.Offset)
			}
		}
	}
}

func TestProcessID(t *testing.T) {
	if got := (Process{PID: 1234, Start: 56_789_999_999}).ID(); got != "1234-5678" {
		t.Error(got)
	}
}

func TestKernelDev(t *testing.T) {
	for kernel, stat := range map[uint64]uint64{254 << 20: 254 << 8, 8<<20 | 300: 8<<8 | 300&0xff | 0x100<<12, 21: 21} {
		if got := fromKernelDev(kernel); got != stat {
			t.Errorf("fromKernelDev(%#x) = %#x, want %#x", kernel, got, stat)
		}
		if got := toKernelDev(stat); got != kernel {
			t.Errorf("toKernelDev(%#x) = %#x, want %#x", stat, got, kernel)
		}
	}
}

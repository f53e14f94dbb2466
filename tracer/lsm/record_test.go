package lsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/event"
)

func sample(t testing.TB, change func(*bpf.LsmRecord), path string) []byte {
	t.Helper()
	r := bpf.LsmRecord{
		Version: version, Size: uint16(binary.Size(bpf.LsmRecord{}) + len(path)), Kind: bpf.LsmKindKIND_ACCESS, Time: 5, Start: 3e9,
		Dev: 8<<20 | 1, Ino: 9, Tgid: 10, Tid: 11, Op: bpf.LsmOpLSM_OPEN, Access: uint32(event.AccessRead), PathLen: uint32(len(path)),
	}
	if change != nil {
		change(&r)
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, &r); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), path...)
}

func TestDecode(t *testing.T) {
	a, err := decode(sample(t, func(r *bpf.LsmRecord) {
		r.Error, r.Why, r.Flags = 13, bpf.LsmWhyWHY_PLANE, uint32(bpf.LsmNoteREC_OWN|bpf.LsmNoteREC_DELETED)
	}, "/a\xff b"))
	if err != nil {
		t.Fatal(err)
	}
	if a.Path != "/a\xff b" || a.Process.ID() != "10-300" || a.TID != 11 || !a.Refused || a.Errno != 13 || a.Why != WhyRule ||
		!a.Own || !a.Deleted || a.Made || a.Op != event.OpOpen || a.Dev != 0x801 {
		t.Errorf("%+v", a)
	}
}

// TestBothPaths: a record may hold two.
func TestBothPaths(t *testing.T) {
	const other = "/other\xff"
	a, err := decode(append(sample(t, func(r *bpf.LsmRecord) {
		r.Op, r.OtherLen = bpf.LsmOpLSM_RENAME, uint32(len(other))
		r.Size += uint16(len(other))
	}, "/a"), other...))
	if err != nil || a.Path != "/a" || a.Other != other || a.Op != event.OpRename {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestFields: our own reading of a record is that of its type, which is made from
// the kernel's side.
func TestFields(t *testing.T) {
	raw := make([]byte, recordSize)
	for i := range raw {
		raw[i] = byte(i + 1)
	}
	var want bpf.LsmRecord
	if n, err := binary.Decode(raw, binary.NativeEndian, &want); err != nil || n != recordSize {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if got := fields(raw); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMalformed(t *testing.T) {
	for name, change := range map[string]func(*bpf.LsmRecord){
		"version":   func(r *bpf.LsmRecord) { r.Version++ },
		"size":      func(r *bpf.LsmRecord) { r.Size++ },
		"path":      func(r *bpf.LsmRecord) { r.PathLen = 1 << 31 },
		"other":     func(r *bpf.LsmRecord) { r.OtherLen = 1 },
		"both":      func(r *bpf.LsmRecord) { r.PathLen, r.OtherLen = 1<<32-1, 3 },
		"kind":      func(r *bpf.LsmRecord) { r.Kind = 9 },
		"operation": func(r *bpf.LsmRecord) { r.Op = 1 << 20 },
		"none":      func(r *bpf.LsmRecord) { r.Op = 0 },
	} {
		if _, err := decode(sample(t, change, "/x")); !errors.Is(err, errRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReasons: everything that the kernel's side can say has words.
func TestReasons(t *testing.T) {
	for w := bpf.LsmWhyWHY_PLANE; w < bpf.LsmWhyNUM_WHYS; w++ {
		if Why(w).String() == "" {
			t.Errorf("no words for %d", w)
		}
	}
	for i, o := range ops {
		if i > 0 && o.op == event.OpNone {
			t.Errorf("operation %d has no name", i)
		}
	}
	for i, c := range causes {
		if c == "" {
			t.Errorf("loss %d has no name", i)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample(f, nil, "/etc/passwd"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decode(b)
		if err == nil && len(a.Path)+len(a.Other) > len(b) {
			t.Errorf("a path of %d bytes from %d", len(a.Path), len(b))
		}
	})
}

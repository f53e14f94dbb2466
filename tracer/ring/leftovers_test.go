package ring

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// saved is a directory into which the rings were saved.
func saved(t testing.TB, rings ...*fake) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var held []Held
	for i, f := range rings {
		held = append(held, Held{Number: uint32(i + 1), FD: f.fd, Size: f.size})
	}
	return dir, Save(int(d.Fd()), held)
}

// filled are two rings that went round, with something left in each: what was read
// and not acked, what was not read, and what was discarded.
func filled(t testing.TB) (rings []*fake, want []Sample) {
	t.Helper()
	for number := uint32(1); number <= 2; number++ {
		f := newFake(t, 4096)
		r := f.open(true)
		for n := range 200 {
			f.write(sample(n), 0)
			_, at, err := r.Read(soon())
			if err != nil {
				t.Fatal(err)
			}
			if n < 190 {
				r.Ack(at)
				continue
			}
			at.Ring = number
			want = append(want, Sample{at, sample(n)})
		}
		f.write(sample(1), discardBit)
		from := f.producer()
		f.write(sample(500), 0)
		want = append(want, Sample{event.Origin{Ring: number, From: from, To: f.producer()}, sample(500)})
		rings = append(rings, f)
	}
	return rings, want
}

func equal(a, b Sample) bool { return a.At == b.At && bytes.Equal(a.Data, b.Data) }

func TestSaveAndLoad(t *testing.T) {
	rings, want := filled(t)
	dir, err := saved(t, rings...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Load(filepath.Join(dir, LeftoversName))
	if err != nil || l.Torn != nil || l.Boot == 0 || l.Wall.IsZero() {
		t.Fatalf("%+v, %v", l, err)
	}
	if !slices.EqualFunc(l.Samples, want, equal) {
		t.Errorf("got %d samples, want %d", len(l.Samples), len(want))
	}
	info, err := os.Stat(filepath.Join(dir, LeftoversName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestNothingToSave(t *testing.T) {
	f := newFake(t, 4096)
	f.write(sample(1), discardBit)
	dir, err := saved(t, f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(dir, LeftoversName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

// TestFull: a ring that had no room left is named.
func TestFull(t *testing.T) {
	rings, want := filled(t)
	for rings[1].write(sample(9), 0) {
	}
	dir, err := saved(t, rings...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Load(filepath.Join(dir, LeftoversName))
	if err != nil || l.Torn != nil || !slices.Equal(l.Full, []uint32{2}) || len(l.Samples) <= len(want) {
		t.Errorf("%d samples, full %v, torn %v, %v", len(l.Samples), l.Full, l.Torn, err)
	}
}

// TestUnfinished: what is behind a record that is never finished cannot be read;
// what is before it, and in other rings, is there, and the file says that it is not
// all.
func TestUnfinished(t *testing.T) {
	a, b := newFake(t, 4096), newFake(t, 4096)
	a.write(sample(1), 0)
	a.write(sample(2), busyBit)
	b.write(sample(3), 0)
	dir, err := saved(t, a, b)
	if err == nil {
		t.Error("no error")
	}
	l, err := Load(filepath.Join(dir, LeftoversName))
	if err != nil || l.Torn == nil || len(l.Samples) != 2 || !bytes.Equal(l.Samples[1].Data, sample(3)) {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestTornFile: however a file is cut or changed, what is read of it is what was
// written, in its order, and where anything is missing it says so.
func TestTornFile(t *testing.T) {
	rings, want := filled(t)
	dir, err := saved(t, rings...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, LeftoversName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, at int, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Load(path)
		if err != nil {
			t.Fatalf("%s at %d: %v", what, at, err)
		}
		if len(l.Samples) > len(want) || !slices.EqualFunc(l.Samples, want[:len(l.Samples)], equal) {
			t.Fatalf("%s at %d: samples that nobody wrote", what, at)
		}
		if l.Torn == nil && len(l.Samples) != len(want) {
			t.Fatalf("%s at %d: %d of %d samples, and it says that this is all", what, at, len(l.Samples), len(want))
		}
	}
	for at := 0; at < len(whole); at += 1 + at/200 {
		try("cut", at, whole[:at])
		changed := bytes.Clone(whole)
		changed[at] ^= 0x41
		try("changed", at, changed)
	}
}

func FuzzLoad(f *testing.F) {
	rings, _ := filled(f)
	dir, err := saved(f, rings...)
	if err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, LeftoversName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), LeftoversName)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err != nil {
			t.Error(err)
		}
	})
}

package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// TestRelocation compares our reading of the kernel's types with the library's:
// the same code must come out.
func TestRelocation(t *testing.T) {
	full, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skipf("needs the kernel's types: %v", err)
	}
	spec, err := LoadWitness()
	if err != nil {
		t.Fatal(err)
	}
	members := localMembers(spec.Types)
	wanted := map[string]bool{}
	for name := range members {
		wanted[name] = true
	}
	for _, p := range spec.Programs {
		wanted[traceType(p)] = true
	}
	kernel, release, err := readKernelTypes(wanted)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	small, err := kernel.spec(members)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range spec.Programs {
		for i := range p.Instructions { // the maps do not matter here
			if p.Instructions[i].IsLoadFromMap() {
				p.Instructions[i] = p.Instructions[i].WithReference("")
			}
		}
		want, err := relocate(p, nil, full)
		if err != nil {
			t.Fatal(err)
		}
		got, err := relocate(p, nil, small)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: relocated differently", name)
		}
		id, err := kernel.typedef(traceType(p))
		if err != nil {
			t.Fatal(err)
		}
		var def *btf.Typedef
		if err := full.TypeByName(traceType(p), &def); err != nil {
			t.Fatal(err)
		}
		if wantID, err := full.TypeID(def); err != nil || uint32(wantID) != id {
			t.Errorf("%s: id %d, the library says %d (%v)", traceType(p), id, wantID, err)
		}
	}
}

func TestLoadTracepoints(t *testing.T) {
	if os.Geteuid() != 0 {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatal("REQUIRE=root, but this test needs root")
		}
		t.Skip("needs root: loads BPF programs")
	}
	programs, closeAll := loadFast(t)
	defer closeAll()
	for _, name := range []string{WitnessProgWitnessFork, WitnessProgWitnessExec, WitnessProgWitnessExit} {
		if programs[name] == nil || programs[name].Type() != ebpf.Tracing {
			t.Errorf("%s: %v", name, programs[name])
		}
	}
}

func loadFast(t testing.TB) (map[string]*ebpf.Program, func()) {
	t.Helper()
	spec, err := LoadWitness()
	if err != nil {
		t.Fatal(err)
	}
	programs := spec.Programs
	spec.Programs = nil
	maps, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Programs = programs
	loaded, err := LoadTracepoints(spec, maps.Maps)
	if err != nil {
		t.Fatal(err)
	}
	return loaded, func() {
		maps.Close()
		for _, p := range loaded {
			_ = p.Close()
		}
	}
}

// TestDamagedTypes: whatever the bytes are, there is an error and no panic.
func TestDamagedTypes(t *testing.T) {
	good := smallBTF(t)
	if _, err := parseKernelTypes(good, nil); err != nil {
		t.Fatal(err)
	}
	for n := range len(good) {
		if _, err := parseKernelTypes(good[:n], nil); !errors.Is(err, errTypes) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func smallBTF(t testing.TB) []byte {
	t.Helper()
	inner := &btf.Union{Size: 8, Members: []btf.Member{{Name: "n", Type: &btf.Int{Name: "int", Size: 4}}}}
	s := &btf.Struct{Name: "s", Size: 16, Members: []btf.Member{
		{Name: "p", Type: &btf.Pointer{Target: &btf.Void{}}}, {Type: inner, Offset: 64},
	}}
	b, err := btf.NewBuilder([]btf.Type{s, &btf.Typedef{Name: "t", Type: s}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func FuzzKernelTypes(f *testing.F) {
	f.Add(smallBTF(f))
	want := map[string]map[string]bool{"s": {"p": true, "n": true}}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := parseKernelTypes(b, map[string]bool{"s": true, "t": true})
		if err != nil {
			return
		}
		_, _ = k.spec(want)
		_, _ = k.typedef("t")
	})
}

func BenchmarkLoad(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	for _, fast := range []bool{true, false} {
		b.Run(fmt.Sprintf("ours=%v", fast), func(b *testing.B) {
			for b.Loop() {
				if fast {
					_, closeAll := loadFast(b)
					closeAll()
					continue
				}
				var o WitnessObjects
				if err := LoadWitnessObjects(&o, nil); err != nil {
					b.Fatal(err)
				}
				_ = o.Close()
			}
		})
	}
}

func BenchmarkKernelTypes(b *testing.B) {
	for b.Loop() {
		_, release, err := readKernelTypes(map[string]bool{"task_struct": true})
		if err != nil {
			b.Skip(err)
		}
		release()
	}
}

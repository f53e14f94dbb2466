package lsm

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if strings.Contains(os.Getenv("REQUIRE"), "root") {
		t.Fatal("REQUIRE=root, but this test needs root")
	}
	t.Skip("needs root: loads BPF programs")
}

func newJudge(t testing.TB) *Judge {
	t.Helper()
	needsRoot(t)
	j, err := NewJudge(&Rules{Planes: []Plane{{Need: event.AccessRead, Outcomes: []Outcome{{Read: event.ActionAllow}}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// TestPaths compares the hooks' paths of all files that are open on this machine
// with what /proc says of them.
func TestPaths(t *testing.T) {
	j := newJudge(t)
	dir := t.TempDir()
	deep := dir
	for i := range 30 {
		deep = filepath.Join(deep, fmt.Sprintf("%d-%s", i, strings.Repeat("x", 90)))
	}
	want := map[string]bool{}
	for _, name := range []string{"plain", "a b\nc\xff", strings.Repeat("n", 255)} {
		want[filepath.Join(dir, name)] = true
		want[filepath.Join(deep, name)] = true
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for path := range want {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	found, err := j.Files()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, f := range found {
		delete(want, f.Path)
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", f.TGID, f.FD))
		if err != nil || !f.Place || strings.HasSuffix(link, " (deleted)") || f.TGID != uint32(os.Getpid()) {
			continue
		}
		if link != f.Path {
			t.Errorf("the hooks say %q, /proc %q", f.Path, link)
		}
		compared++
	}
	if compared < 6 || len(want) > 0 {
		t.Errorf("%d compared, not seen: %v", compared, want)
	}
}

func BenchmarkWalk(b *testing.B) {
	j := newJudge(b)
	for _, depth := range []int{2, 6, 12, 40} {
		dir := b.TempDir()
		path := dir
		for strings.Count(path, "/") < depth {
			path = filepath.Join(path, "component")
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if strings.Count(path, "/") > depth {
			path = "/tmp"
		}
		b.Run(fmt.Sprintf("depth=%d", strings.Count(path, "/")), func(b *testing.B) {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
			if err != nil {
				f, err = os.Open(path)
			}
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			var total, runs float64
			for b.Loop() {
				found, err := j.Files()
				if err != nil {
					b.Fatal(err)
				}
				for _, one := range found {
					if one.TGID == uint32(os.Getpid()) && one.FD == uint32(f.Fd()) {
						total, runs = total+float64(one.Took), runs+1
					}
				}
			}
			b.ReportMetric(total/runs, "ns/walk")
		})
	}
}

// BenchmarkStranger is what each hook begins with, and for a task of no session is
// all that it does: the look at whether it is one of ours. What the kernel takes to
// call a program at a hook comes on top, and cannot be had without one there.
func BenchmarkStranger(b *testing.B) {
	j := newJudge(b)
	const times = 100_000
	best, total, rounds := math.MaxFloat64, 0.0, 0.0
	for b.Loop() {
		took, err := j.Strange(times)
		if err != nil {
			b.Fatal(err)
		}
		ns := float64(took) / times
		best, total, rounds = min(best, ns), total+ns, rounds+1
	}
	b.ReportMetric(total/rounds, "ns/look")
	b.ReportMetric(best, "ns/best")
}

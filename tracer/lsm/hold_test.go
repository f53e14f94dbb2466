package lsm

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkHold is what the hooks' code adds to an allowed open: the path, what the
// rules say, and the record. The best of all rounds is told, too: that is the code,
// while the mean has the machine's noise in it. Nobody waits for the records
// meanwhile: to wake a reader who has read all of them costs as much again.
func BenchmarkHold(b *testing.B) {
	j := newJudge(b)
	const times = 5000
	for _, depth := range []int{2, 6, 12} {
		path := "/tmp"
		if depth > 2 {
			path = b.TempDir()
			path = filepath.Join(path, strings.Repeat("directory/", max(0, depth-1-strings.Count(path, "/"))))
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			b.Fatal(err)
		}
		f, err := os.CreateTemp(path, "file")
		if err != nil {
			b.Fatal(err)
		}
		defer os.Remove(f.Name())
		defer f.Close()
		b.Run(fmt.Sprintf("depth=%d/bytes=%d", strings.Count(f.Name(), "/"), len(f.Name())), func(b *testing.B) {
			total, best, rounds := 0.0, math.MaxFloat64, 0.0
			for b.Loop() {
				took, refused, err := j.Hold(int(f.Fd()), times)
				if err != nil || refused != 0 {
					b.Fatal(refused, err)
				}
				ns := float64(took) / times
				total, best, rounds = total+ns, min(best, ns), rounds+1
				if n, err := j.Drain(); n != times || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(total/rounds, "ns/open")
			b.ReportMetric(best, "ns/best")
		})
	}
}

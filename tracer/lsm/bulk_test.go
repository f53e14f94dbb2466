package lsm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
)

// limited are rules under which five files may lose what they hold, but for those
// below build, a glob, and those that keeper changes.
func limited(t testing.TB, window time.Duration, build string, patterns ...pattern) Rules {
	t.Helper()
	auto, err := automaton.Compile([]automaton.Rule{{Glob: build, Below: true}}, automaton.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rules := rulesOf(t, patterns...)
	rules.Marks = true
	rules.Bulk = Bulk{
		Files: 5, Window: window, Expendable: auto, IsExpendable: make([]bool, auto.NumAccepts()), Keepers: []string{"no", "keeper"},
		Held: event.Decision{Action: event.ActionDeny, Rule: "five"},
	}
	for a := range rules.Bulk.IsExpendable {
		rules.Bulk.IsExpendable[a] = a > 0
	}
	return rules
}

// counting is the judge with such rules.
func counting(t *testing.T, window time.Duration) *Judge {
	t.Helper()
	needsRoot(t)
	rules := limited(t, window, "/none/build")
	j, err := NewJudge(&rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func TestLose(t *testing.T) {
	const window = 300 * time.Millisecond
	j := counting(t, window)
	for i, tt := range []struct {
		files int
		pause time.Duration
		over  bool
	}{
		{files: 3}, {files: 2}, {files: 1, over: true},
		{files: 5, pause: 2 * window}, {files: 0},
		{files: 6, pause: 2 * window, over: true},
		{files: 1, over: true},
		{files: 1 << 40, pause: 2 * window, over: true},
		{files: 1, pause: 2 * window},
	} {
		time.Sleep(tt.pause)
		if over, err := j.Lose(tt.files); err != nil || over != tt.over {
			t.Fatalf("step %d, %d files: over %v %v, want %v", i, tt.files, over, err, tt.over)
		}
	}
}

// TestLoseAtOnce: of many who lose a file at once exactly as many may as the limit
// says.
func TestLoseAtOnce(t *testing.T) {
	j := counting(t, time.Hour)
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 200 {
				over, err := j.Lose(1)
				if err != nil {
					t.Error(err)
				}
				if !over {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 5 {
		t.Errorf("%d passed, want 5", passed.Load())
	}
}

// TestUncounted: rules without a limit count nothing, and who asks is told so.
func TestUncounted(t *testing.T) {
	needsRoot(t)
	rules := rulesOf(t)
	j, err := NewJudge(&rules)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if over, err := j.Lose(1); err == nil || !over {
		t.Errorf("over %v, %v", over, err)
	}
}

// anew makes h another test's, with nothing recorded and no file lost yet.
func (h *held) anew(t *testing.T) {
	t.Helper()
	h.t = t
	h.log.mu.Lock()
	h.log.accesses = nil
	h.log.mu.Unlock()
	losses := h.engine.loaded.Maps[bpf.LsmMapLosses]
	for i := range losses.MaxEntries() {
		if err := losses.Put(i, uint64(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBulk: of the files that were there before five may be overwritten. Each of
// the scripts begins anew.
func TestBulk(t *testing.T) {
	const there = "for i in 1 2 3 4 5 6 7 8; do "
	top := ground(t)
	rules := limited(t, time.Hour, top+"/*/build", pattern{top + "/*/ro", readOnly}, pattern{top + "/*/bin", readOnly})
	byOthers := hold(t, rules)
	rules.Names = true
	byThem := hold(t, rules)
	for name, tt := range map[string]struct {
		script string
		left   int  // of eight files
		names  bool // names are changed by the tasks themselves
	}{
		"truncated":         {there + `echo x > data/f$i; done`, 3, false},
		"written":           {there + `echo xxx 1<> data/f$i; done`, 3, false},
		"by two at once":    {`(` + there + `echo x > data/f$i; done) & (` + there + `echo x > data/f$i; done) & wait`, 3, false},
		"appended":          {there + `: >> data/f$i; done`, 8, false},
		"read":              {there + `read x < data/f$i; done`, 8, false},
		"one again":         {there + `echo x > data/f1; done; echo secret > data/f1`, 8, false},
		"own":               {there + `echo x > data/n$i; done; ` + there + `echo x > data/n$i; done`, 8, false},
		"expendable":        {there + `echo x > build/f$i; done; echo x > data/f1`, 7, false},
		"name gone":         {there + `ln data/f$i data/q; exec 3< data/q; rm data/q; echo x > /proc/self/fd/3; done`, 3, false},
		"refused":           {there + `echo x > ro/f$i; done; echo x > data/f1`, 7, false},
		"by a keeper":       {there + `bin/keeper -c "echo x > data/f$i"; done`, 0, false},
		"by another keeper": {there + `data/keeper -c "echo x > data/f$i"; done`, 3, false},
		"moved":             {there + `echo x > data/n; mv -f data/n data/f$i; done`, 0, false}, // renames are the gate's to count
		"deleted":           {there + `rm -f data/f$i; done`, 3, true},
		"replaced":          {there + `echo x > data/n; mv -f data/n data/f$i; done`, 3, true},
		"cut":               {there + `truncate -s 0 data/f$i; echo x > data/f$i; done`, 3, true},
		"moved to a build":  {there + `mv data/f$i build/n$i; done`, 3, true},
		"linked to a build": {there + `ln data/f$i build/n$i && echo x > build/n$i; done`, 3, true},
		"moved, own":        {there + `echo x > data/n$i; mv data/n$i build/n$i; ln build/n$i data/m$i; done; echo x > data/f1`, 7, true},
		"deleted, own":      {there + `echo x > data/n$i; rm data/n$i; done; rm -f build/*`, 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := byOthers, filepath.Join(top, strings.ReplaceAll(name, " ", "-"))
			if tt.names {
				h = byThem
			}
			h.anew(t)
			for _, sub := range []string{"data", "build", "ro", "bin"} {
				for i := range 8 {
					path := fmt.Sprintf("%s/%s/f%d", dir, sub, i+1)
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte("secret\n"), 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			shell, err := os.ReadFile("/bin/sh")
			if err != nil {
				t.Fatal(err)
			}
			for _, keeper := range []string{"/bin/keeper", "/data/keeper"} {
				if err := os.WriteFile(dir+keeper, shell, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			out := h.run("cd " + dir + "; " + tt.script)
			left := 0
			for i := range 8 {
				if b, _ := os.ReadFile(fmt.Sprintf("%s/data/f%d", dir, i+1)); string(b) == "secret\n" {
					left++
				}
			}
			// Of two who open a file at once both may count.
			if left < tt.left || left != tt.left && name != "by two at once" {
				t.Errorf("%d files are left, want %d: %s", left, tt.left, out)
			}
			held := 0
			for _, r := range h.log.refusals() {
				if strings.Contains(r, WhyBulk.String()) {
					held++
				}
			}
			if want := tt.left; want == 3 && held < 3 || want != 3 && held > 0 {
				t.Errorf("%d refusals for the limit: %v", held, h.log.refusals())
			}
			if name == "truncated" {
				if over, err := h.engine.Lose(1); err != nil || !over {
					t.Errorf("the gate's next deletion is over the limit: %v %v, want true", over, err)
				}
			}
		})
	}
}

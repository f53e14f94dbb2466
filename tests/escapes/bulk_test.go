package escapes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// bulkPolicy refuses what the default profile asks about.
const bulkPolicy = `[permissions.bulk]
extends = ":workspace"
[permissions.bulk.commands]
destructive = "allow"
bulk = { files = 50, window = "60s", action = "deny" }
`

// TestBulk: of many files the first fifty are deleted or overwritten, and the next
// one is held, whoever does it.
func TestBulk(t *testing.T) {
	const many = 80
	prepare := func(t *testing.T, nobody bool) *trial.Ground {
		g := trial.NewGround(t, nobody)
		writeFile(t, g.Base+"/bulk.toml", bulkPolicy, 0o644)
		for _, dir := range []string{"data", "build", "data/__pycache__"} {
			if err := os.MkdirAll(filepath.Join(g.Workspace, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range many {
				writeFile(t, fmt.Sprintf("%s/%s/f%d", g.Workspace, dir, i), "kept\n", 0o644)
			}
		}
		g.Own(g.Workspace)
		return g
	}
	left := func(g *trial.Ground, dir string) int {
		n := 0
		for i := range many {
			if text, err := os.ReadFile(fmt.Sprintf("%s/%s/f%d", g.Workspace, dir, i)); err == nil && string(text) == "kept\n" {
				n++
			}
		}
		return n
	}
	opt := trial.Options{Flags: []string{"--policy", "{base}/bulk.toml", "--profile", "bulk"}}
	tiers(t, false, func(t *testing.T, nobody bool) {
		for name, c := range map[string]struct {
			script, dir string
			left        int
		}{
			"rm":             {"rm -f data/f*", "data", 30},
			"rm -r":          {"rm -rf data", "data", 30},
			"find -delete":   {"find data -type f -name 'f*' -not -path '*cache*' -delete", "data", 30},
			"one rm each":    {"for f in data/f*; do rm -f $f; done", "data", 30},
			"perl":           {"perl -e 'unlink glob \"data/f*\"'", "data", 30},
			"overwriting":    {"for f in data/f*; do echo x > $f; done", "data", 30},
			"cp over":        {"for f in data/f*; do cp -f ok.txt $f; done", "data", 30},
			"mv over":        {"for f in data/f*; do cp ok.txt n; mv -f n $f; done", "data", 30},
			"truncate":       {"truncate -s 0 data/f*", "data", 30},
			"dd in place":    {"for f in data/f*; do echo xxxx | dd of=$f conv=notrunc 2>/dev/null; done", "data", 30},
			"linked as made": {"for f in data/f*; do ln $f $f.o && echo x > $f.o; done", "data", 30},
			"linked to own":  {"mkdir own; ln data/f* own; for f in own/f*; do echo x > $f; done", "data", 30},
			"links deleted":  {"mkdir own; ln data/f* own; rm -rf own; ln data/f* .; rm -f f*", "data", many},
			"moved to build": {"mv data build/data; rm -rf build/data", "data", many},
			"build folder":   {"rm -rf build", "build", 0},
			"cache":          {"rm -rf data/__pycache__", "data/__pycache__", 0},
			"its own":        {"mkdir own; for i in $(seq 200); do echo > own/$i; done; rm -rf own; rm -f build/f*", "build", 0},
			"many times one": {"for i in $(seq 100); do echo x > data/f1; done; echo kept > data/f1", "data", many},
		} {
			t.Run(name, func(t *testing.T) {
				if name == "perl" {
					trial.NeedProgram(t, "perl")
				}
				control := prepare(t, nobody)
				control.Native(opt, "/bin/sh", "-c", c.script)
				g := prepare(t, nobody)
				r := g.Supervised(opt, "/bin/sh", "-c", c.script)
				if got := left(g, c.dir); got != c.left {
					t.Errorf("%d files are left, want %d: %.500s", got, c.left, r.Text())
				}
				if c.left > 0 && c.left < many {
					if left(control, c.dir) != 0 {
						t.Errorf("control: %d files are left natively", left(control, c.dir))
					}
					denials := trial.Denials(r.Events)
					if len(denials) == 0 || !strings.HasPrefix(denials[0].Rule, "commands.bulk: more than 50 files") {
						t.Errorf("no denial by the rule: %v", denials)
					}
				}
			})
		}
	})
}

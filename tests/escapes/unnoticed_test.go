package escapes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestUnnoticed: with nobody to ask, an ordinary open of an allowed file is judged
// in the kernel under the engine lsm, and notified to nobody; under the other one
// each is. What is refused is refused for the same under both.
func TestUnnoticed(t *testing.T) {
	g := trial.NewGround(t, false)
	r := g.Supervised(trial.Options{}, "/bin/sh", "-c", `
		echo new > made && echo more > ok.txt && echo more >> ok.txt && echo NOTE 1<> sub/deep/note.txt && read x < ok.txt && cat made ok.txt sub/deep/note.txt
		echo x > .git/config || echo no config
		echo x >> .git/hooks/pre-commit || echo no hook
		echo x > .git/hooks/post-commit || echo no new hook
		read x < .env || echo no secret
		echo x > ../outside/secret.txt || echo not outside`)
	if want := "new\nmore\nmore\nNOTE\nno config\nno hook\nno new hook\nno secret\nnot outside\n"; r.Stdout != want {
		t.Errorf("got %q, want %q: %s", r.Stdout, want, r.Stderr)
	}
	g.KeptSecret(r)
	layers := map[string]int{} // of opens
	for _, e := range r.Events {
		if e.Kind == "request" && (e.Op == "open" || e.Op == "create") {
			layers[e.Layer]++
		}
	}
	notified, judged := layers["gate"], layers["lsm"]
	if trial.Engine() == "lsm" && (notified != 0 || judged < 10) || trial.Engine() != "lsm" && (notified < 10 || judged != 0) {
		t.Errorf("%d opens were notified, %d judged by hooks", notified, judged)
	}
	const nobody = "; asks, and there is nobody to ask"
	for _, want := range []struct{ op, path, rule, reason string }{
		{"open", ".git/config", ".git/**/{config,config.lock,config.worktree,config.worktree.lock}", "protected configuration: git obeys it" + nobody},
		{"open", ".git/hooks/pre-commit", ".git/**/hooks", "protected configuration: git runs it" + nobody},
		{"create", ".git/hooks/post-commit", ".git/**/hooks", "protected configuration: git runs it" + nobody},
		{"open", ".env", "", "secret"},
		{"open", "../outside/secret.txt", "", ""},
	} {
		path := filepath.Join(g.Workspace, want.path)
		if !slices.ContainsFunc(trial.Denials(r.Events), func(e trial.Event) bool {
			return e.Op == want.op && e.Object.Path == path && (want.rule == "" || e.Rule == want.rule) &&
				strings.Contains(e.Reason, want.reason) && e.By == "policy:workspace-edit-no-net" && e.Errno == "EACCES"
		}) {
			t.Errorf("no denial is %+v", want)
		}
	}
	if t.Failed() {
		for _, e := range trial.Denials(r.Events) {
			t.Logf("%v", &e)
		}
	}
}

// TestBulkUnnoticed: the limit on bulk changes of the default profile holds for what
// nobody is notified of, counted together with what the supervisor does for a
// task; and what the session made is known to be its own.
func TestBulkUnnoticed(t *testing.T) {
	const many = 80
	for name, c := range map[string]struct {
		script string
		left   int
	}{
		"overwritten":            {`for f in data/f*; do echo x > $f; done`, 30},
		"written":                {`for f in data/f*; do echo x 1<> $f; done`, 30},
		"overwritten, deleted":   {`for i in $(seq 25); do echo x > data/f$i; done; rm -f data/f[3-9]?; echo x > data/f26; echo x > data/f27`, many - 50},
		"deleted, overwritten":   {`rm -f data/f[1-4]; for f in data/f*; do echo x > $f; done`, many - 50},
		"linked, overwritten":    {`mkdir own; ln data/f* own; for f in own/f*; do echo x > $f; done`, many - 50},
		"linked where it passes": {`for i in $(seq 80); do ln data/f$i build/l$i && echo x > build/l$i; done`, many - 50},
		"links deleted":          {`mkdir own; ln data/f* own; rm -rf own; ln data/f* .; rm -f f*; echo x > data/f1`, many - 1},
		"appended":               {`for f in data/f*; do echo x >> $f; done`, many},
		"its own, overwritten":   {`for i in $(seq 120); do echo x > data/n$i; done; for i in $(seq 120); do echo y > data/n$i; done`, many},
		"its own, deleted":       {`for i in $(seq 120); do echo x > data/n$i; done; rm -f data/n*; [ ! -e data/n1 ] && [ ! -e data/n120 ] || echo x > data/f1`, many},
		"its own, by a command":  {`mkdir data/d; for i in $(seq 3); do echo x > data/n$i; done; rm -rf data/n1 data/n2 data/n3 data/d; [ ! -e data/n1 ] || echo x > data/f1`, many},
		"replaced again":         {`for i in $(seq 60); do echo $i > data/n; mv -f data/n data/f1; done; echo kept > data/f1; echo y > data/f2`, many - 1},
		"a build":                {`for f in build/f*; do echo x > $f; done; echo x > data/f1`, many - 1},
	} {
		t.Run(name, func(t *testing.T) {
			if trial.Sampled() && !slices.Contains([]string{"overwritten, deleted", "its own, deleted", "a build"}, name) {
				trial.Skip(t, "long", "tracer/lsm tries each way of counting (set REEVE_LONG=1 for all)")
			}
			g := trial.NewGround(t, false)
			for _, dir := range []string{"data", "build"} {
				if err := os.MkdirAll(filepath.Join(g.Workspace, dir), 0o755); err != nil {
					t.Fatal(err)
				}
				for i := range many {
					writeFile(t, fmt.Sprintf("%s/%s/f%d", g.Workspace, dir, i+1), "kept\n", 0o644)
				}
			}
			r := g.Supervised(trial.Options{}, "/bin/sh", "-c", c.script)
			left := 0
			for i := range many {
				text, _ := os.ReadFile(fmt.Sprintf("%s/data/f%d", g.Workspace, i+1))
				if strings.HasPrefix(string(text), "kept\n") {
					left++
				}
			}
			if left != c.left {
				t.Errorf("%d files are left, want %d: %.500s", left, c.left, r.Text())
			}
			const rule = "commands.bulk: more than 50 files in 10s"
			denials := trial.Denials(r.Events)
			for _, e := range denials {
				if e.Rule != rule || e.By != "policy:workspace-edit-no-net" || e.Errno != "EACCES" ||
					e.Reason != "many files that were there before are being deleted or overwritten; asks, and there is nobody to ask" {
					t.Errorf("denied: %v", &e)
				}
			}
			if held := c.left == many-50; held != (len(denials) > 0) {
				t.Errorf("%d denials: %.500s", len(denials), r.Text())
			}
		})
	}
}

package escapes_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// The build cache of go on the host is read by a session, and never written.

// goScript counts what go compiles, in a module that the host has built. The first
// line is the control: without the host's cache it would compile all there is.
const goScript = `cd mod
	run() { ./out$1 2>&1; }
	compiles() { "$@" 2>&1 | grep -c '/compile '; }
	echo "nothing cached: $(GOCACHEPROG= GOCACHE=$TMPDIR/empty compiles go build -n -o out .)"
	echo "as on the host: $(compiles go build -x -o out .) $(run)"
	sed -i s/before/after/ main.go
	echo "changed: $(compiles go build -x -o out .) $(run)"
	echo "again: $(compiles go build -x -o out .) $(run)"
	for i in 1 2 3 4; do go build -tags "t$((i % 2))" -ldflags "-X main.of=$i" -o out$i . & done; wait
	echo "at once: $(run 1) $(run 2) $(run 3) $(run 4)"
	echo "without the program: $(GOCACHEPROG= compiles go build -n -o out .)"
	echo "inside: $($R run -q -- sh -c 'go build -x -o out . 2>&1' | grep -c '/compile ') $(run)"
	go clean -cache -testcache; rm out
	echo "cleaned: $(compiles go build -x -o out .) $(run)"
	cd $HOST && ls | head -3 | xargs && for f in $(ls 00/* | head -3) new 00/new; do echo x >> $f; touch $f; rm -f $f; chmod 777 $f; ln -f $f $TMPDIR/x && echo x >> $TMPDIR/x; done 2>/dev/null
	echo end`

func TestGoCache(t *testing.T) {
	trial.NeedProgram(t, "go")
	warm := ""
	all := t
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		host := g.Base + "/gocache"
		for _, dir := range []string{host, g.Workspace + "/mod"} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range map[string]string{
			"go.mod": "module example.org/mod\n\ngo 1.24\n", "main.go": "package main\n\nvar of = \"before\"\n\nfunc main() { println(of) }\n",
		} {
			writeFile(t, g.Workspace+"/mod/"+name, text, 0o644)
		}
		if warm != "" {
			if err := os.CopyFS(host, os.DirFS(warm)); err != nil {
				t.Fatal(err)
			}
		}
		g.Own(g.Base)
		env := []string{"GOCACHE=" + host, "HOST=" + host, "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0"}
		if r := g.Native(trial.Options{Env: env, Dir: g.Workspace + "/mod"}, "go", "build", "-o", "out", "."); r.Status != 0 {
			t.Fatalf("control: build on the host: %s", r.Text())
		}
		if warm == "" {
			warm = all.TempDir()
			if err := os.CopyFS(warm, os.DirFS(host)); err != nil {
				t.Fatal(err)
			}
		}
		before := listing(t, host)
		r, _ := inside(t, g, trial.Options{Env: env}, "exec 2>&1\n"+goScript)
		want := `^nothing cached: [1-9]\d+
as on the host: 0 before
changed: 1 after
again: 0 after
at once: 1 2 3 4
without the program: [1-9]\d+
inside: 0 after
cleaned: 1 after
00 01 02
end
$`
		if r.Status != 0 || !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("status %d, %s\ndoes not match %s", r.Status, r.Text(), want)
		}
		if after := listing(t, host); after != before {
			t.Errorf("the host's cache changed:\n%s\nwas\n%s", after, before)
		}
	})
}

// listing is all that a directory has: names, kinds, sizes, times to the nanosecond,
// links, and content.
func listing(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %v %d %d", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %x", sha256.Sum256(text))
		}
		fmt.Fprintln(&out)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

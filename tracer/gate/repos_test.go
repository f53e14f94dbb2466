package gate

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// TestBorn: a repository that the session makes where something was before does not
// make that its own.
func TestBorn(t *testing.T) {
	ws := t.TempDir()
	g := &Gate{}
	g.repos.dirs = map[FileID]struct{}{}
	for dir, made := range map[string]bool{
		"old/.hg": false, "old/.vscode": false, "old/.git": true, "old/.github": true, "old/sub": true,
		"new": true, "new/.git": true, "new/.hg": true,
		"standing/.git": false, "standing/.github": true,
	} {
		path := filepath.Join(ws, dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		if made {
			g.repos.dirs[FileID{st.Dev, st.Ino}] = struct{}{}
		}
	}
	if err := os.WriteFile(filepath.Join(ws, "old/lefthook.yml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"old/.hg/hgrc": false, "old/.vscode/tasks.json": false, "old/lefthook.yml": false,
		"old/.gitlab-ci.yml": true, "old/.github/workflows/x.yml": true, "old/sub/.hg/hgrc": true, "old/.git/config": true,
		"new/.hg/hgrc": true, "new/lefthook.yml": true,
		"standing/.github/x.yml": false, "standing/.gitlab-ci.yml": false, "none/.hg/hgrc": false,
	} {
		if got := g.born(&event.Request{Op: event.OpCreate, Object: event.Object{Path: filepath.Join(ws, path)}}); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

package session

import (
	"os"
	"testing"
)

func TestHasTree(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return dir + "/" + name }
	for _, err := range []error{
		os.MkdirAll(in("deep/er"), 0o700), os.WriteFile(in("file"), nil, 0o600), os.Symlink("deep/er", in("link")),
		os.Symlink("nowhere", in("dangling")), os.Symlink("/proc/self/cwd", in("here")), os.Symlink("loop", in("loop")),
		os.Symlink("file", in("text")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for path, want := range map[string]bool{
		"deep": true, "deep/": true, "deep/er/..": true, "link": true, "link/": true, "link/../er": true,
		"file": false, "file/": false, "file/x": false, "text": false, "dangling": false, "dangling/": false,
		"missing": false, "missing/x": false, "*": false, "link/../missing": false,
		"here/missing": true, "here/file": true, "loop": true,
	} {
		if got := HasTree(in(path)); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	for _, path := range []string{"/", "/proc/self/cwd/missing", "/proc/thread-self/root/missing"} {
		if !HasTree(path) {
			t.Errorf("%s: said to be no directory", path)
		}
	}
}

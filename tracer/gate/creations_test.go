package gate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// claimant is a worker of a session, and one of a session inside it.
func claimant() (outer, inner *worker) {
	g := &Gate{}
	g.members.list = []*member{{}}
	m := &member{index: 1, parent: g.members.list[0]}
	g.members.list = append(g.members.list, m)
	return &worker{g: g, m: g.members.list[0]}, &worker{g: g, m: m}
}

// fileAt is the object that stands at a path.
func fileAt(t *testing.T, path string) event.Object {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return event.Object{Kind: event.ObjectFile, Path: path, Dev: st.Dev, Ino: st.Ino, Mode: st.Mode}
}

// create makes a file as a task of w would.
func create(t *testing.T, w *worker, path string, secret bool) event.Object {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.g.creations.made(int(f.Fd()), secret, w.m)
	return fileAt(t, path)
}

func claims(w *worker, o event.Object) bool {
	w.claimFile(&o)
	return o.Own
}

// TestCreations: what was made here is known under any name, what merely has its
// number, or its name, is not.
func TestCreations(t *testing.T) {
	w, inner := claimant()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, b := dir+"/a", dir+"/b"
	o := create(t, w, a, false)
	if !claims(w, o) || claims(inner, o) {
		t.Errorf("a new file is the session's: %v, and that of one inside it: %v", claims(w, o), claims(inner, o))
	}
	if err := os.Rename(a, b); err != nil {
		t.Fatal(err)
	}
	if claims(w, o) {
		t.Error("it counts under a name that it has no more")
	}
	if !claims(w, fileAt(t, b)) {
		t.Error("it does not count under its new name")
	}
	if err := os.WriteFile(a, []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	if claims(w, fileAt(t, a)) {
		t.Error("a host's file counts by its name")
	}
	mixed := o
	mixed.Path = a
	if claims(w, mixed) {
		t.Error("a path that leads to another file counts")
	}
	if err := os.Symlink(b, dir+"/l"); err != nil {
		t.Fatal(err)
	}
	if mixed.Path = dir + "/l"; claims(w, mixed) {
		t.Error("a symbolic link is followed")
	}
	if err := os.Mkdir(dir+"/d", 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir+"/d", unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if w.g.creations.made(fd, true, w.m); len(w.g.creations.kept.files) != 0 {
		t.Error("a directory is remembered")
	}
	own := create(t, inner, dir+"/in", true)
	if !claims(inner, own) || !claims(w, own) {
		t.Error("what a session inside made is not its own, or not that of the one outside")
	}
}

// TestCreationsReused: a later file with the same number is another's. On file systems
// that do not use a number again at once it has another one, which tells less.
func TestCreationsReused(t *testing.T) {
	w, _ := claimant()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path += "/key.pem"
	reused := 0
	for range 200 {
		o := create(t, w, path, true)
		if !claims(w, o) {
			t.Fatal("control: a new file does not count")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("host"), 0o600); err != nil {
			t.Fatal(err)
		}
		now := fileAt(t, path)
		if now.Ino == o.Ino {
			reused++
		}
		if claims(w, now) {
			t.Fatalf("the host's file with number %d counts", now.Ino)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 200 had the number of the one before", reused)
}

// TestCreationsChanged: what changes after the session could have changed it is the
// host's; a change of its own by name counts anew.
func TestCreationsChanged(t *testing.T) {
	w, _ := claimant()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	age := func(o event.Object) {
		id := FileID{o.Dev, o.Ino}
		f, ok := w.g.creations.known(id)
		if !ok {
			t.Fatal("it is not known")
		}
		f.changed = f.changed.Add(-ownLasts - time.Second)
		w.g.creations.kept.files[id] = f
	}
	o := create(t, w, dir+"/.env", true)
	age(o)
	w.changesOwn(&event.Request{Op: event.OpOpen, Access: event.AccessRead, Object: o})
	if claims(w, o) {
		t.Error("a file that was changed long after counts, or reading it was taken for a change")
	}
	if _, ok := w.g.creations.known(FileID{o.Dev, o.Ino}); ok {
		t.Error("it is remembered")
	}
	o = create(t, w, dir+"/x.key", true)
	age(o)
	w.changesOwn(&event.Request{Op: event.OpChmod, Access: event.AccessMeta, Object: o})
	if !claims(w, o) {
		t.Error("a file that the session changed itself does not count")
	}
}

// TestShelf: the oldest goes first, and what came again is not old.
func TestShelf(t *testing.T) {
	var s shelf
	id := func(n int) FileID { return FileID{1, uint64(n)} }
	has := func(n int) bool { _, ok := s.files[id(n)]; return ok }
	for n := range 4 {
		s.put(id(n), creation{}, 4)
	}
	delete(s.files, id(0))
	s.put(id(4), creation{}, 4) // in the place of 0
	s.put(id(1), creation{}, 4) // is there
	delete(s.files, id(2))
	s.put(id(2), creation{}, 4) // came again, in the place of 1
	s.put(id(5), creation{}, 4) // in the place that 2 left
	if has(0) || has(1) || !has(2) || !has(3) || !has(4) || !has(5) {
		t.Errorf("it holds %v", s.files)
	}
	for n := range 1000 {
		if s.put(id(n), creation{}, 4); len(s.files) > 4 || len(s.order) > 4 {
			t.Fatalf("it holds %d files in %d places", len(s.files), len(s.order))
		}
	}
}

// TestTellsFiles: a file system whose files cannot be told from later ones is known.
func TestTellsFiles(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, "/proc/self/fdinfo": false, "/proc": false, dir + "/none": false} {
		if got := tellsFiles(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

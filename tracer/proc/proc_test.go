package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// child starts a process that stays in dir with file open as descriptor 3, and
// names it.
func child(t *testing.T, dir string, file *os.File) *Thread {
	t.Helper()
	// Descriptor 77 is one that this process does not have.
	cmd := exec.Command("bash", "-c", "test -d d || exit 1; exec 77<d; exec sleep 60")
	cmd.Dir = dir
	cmd.Env = []string{"TOKEN=of-the-child"}
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for { // until bash has become sleep
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)); strings.HasSuffix(exe, "/sleep") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	table := NewTable()
	t.Cleanup(table.Close)
	th, err := table.Get(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Release)
	return th
}

func TestResolveIsTheTasksView(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir+"/d", 0o755))
	must(os.WriteFile(dir+"/d/f", []byte("x"), 0o644))
	must(os.Symlink("d/f", dir+"/rel"))
	must(os.Symlink("/proc/self", dir+"/self"))
	must(os.Symlink("loop", dir+"/loop"))
	must(os.Symlink("d", dir+"/dlink"))
	must(os.Symlink("/proc/self/fd/77", dir+"/fdlink"))
	must(os.Symlink("nothing", dir+"/dangling"))
	file, err := os.Open(dir + "/d/f")
	must(err)
	defer file.Close()
	th := child(t, dir, file)
	pid := fmt.Sprint(th.TGID)
	view := View{Thread: th, MayBlock: true, Owns: func(p int) bool { return p == th.TGID }, SameRoot: true}
	rows := []struct {
		path  string
		flags int
		want  string
		err   error
	}{
		{"d/f", 0, dir + "/d/f", nil},
		{"./d/../d//f", 0, dir + "/d/f", nil},
		{"rel", 0, dir + "/d/f", nil},
		{"rel", unix.O_NOFOLLOW, dir + "/rel", nil},
		{"loop", 0, "", unix.ELOOP},
		{"dlink/", unix.O_NOFOLLOW, dir + "/d", nil},
		{"d/f/", 0, "", unix.ENOTDIR},
		{"", 0, "", unix.ENOENT},
		{"nothing/f", 0, "", unix.ENOENT},
		{"/proc/self/environ", 0, "/proc/" + pid + "/environ", nil},
		{"/proc/self/", 0, "/proc/" + pid, nil},
		{"/proc/thread-self/status", 0, "/proc/" + pid + "/task/" + pid + "/status", nil},
		{"/proc/mounts", 0, "/proc/" + pid + "/mounts", nil},
		{"/proc/self/cwd/d/f", 0, dir + "/d/f", nil},
		{"/proc/self/root" + dir + "/d/f", 0, dir + "/d/f", nil},
		{"/proc/self/fd/3", 0, dir + "/d/f", nil},
		{"/dev/fd/3", 0, dir + "/d/f", nil},
		{"self/cwd/d", 0, dir + "/d", nil},
		{"self/fd/3", unix.O_NOFOLLOW, "/proc/" + pid + "/fd/3", nil},
		{"/proc/self/cwd/d/f/", 0, "", unix.ENOTDIR},
		{"/proc/self/fd/99", 0, "", unix.ENOENT},
		{"/dev/fd/77", 0, dir + "/d", nil},
		{"fdlink", 0, dir + "/d", nil},
		{"dangling", 0, "", unix.ENOENT},
		{"/proc/1/cwd/", 0, "", unix.EACCES},
		{"/proc/1/root/etc/passwd", 0, "", unix.EACCES},
	}
	for _, r := range rows {
		p, err := view.Resolve(unix.AT_FDCWD, r.path, r.flags, 0)
		if !errors.Is(err, r.err) || p.Path != r.want {
			t.Errorf("%q: %q, %v; want %q, %v", r.path, p.Path, err, r.want, r.err)
		}
		p.Close()
	}
	if p, err := view.Resolve(3, "f", 0, 0); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %q %v", p.Path, err)
	}
	if _, err := view.Resolve(78, "f", 0, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("below a descriptor that is not open: %v", err)
	}
}

func TestResolveNeverWaitsInline(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	th := child(t, dir, os.Stdin)
	view := View{Thread: th, SameRoot: true}
	for _, path := range []string{"/proc/self/environ", "/proc/self/cwd"} {
		if _, err := view.Resolve(unix.AT_FDCWD, path, 0, 0); !errors.Is(err, ErrBlocks) {
			t.Errorf("%s: %v, want ErrBlocks", path, err)
		}
	}
}

func TestThreadOfADeadTaskIsGone(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	table := NewTable()
	defer table.Close()
	th, err := table.Get(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer th.Release()
	if !strings.HasPrefix(th.ID, fmt.Sprint(cmd.Process.Pid, "-")) && !strings.HasPrefix(th.ID, fmt.Sprintf("%d-", cmd.Process.Pid)) {
		t.Errorf("id %q", th.ID)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if th.Alive() {
		t.Error("a reaped task is alive")
	}
	if _, err := th.Open("cwd", unix.O_PATH); !errors.Is(err, ErrGone) {
		t.Errorf("open cwd of a dead task: %v", err)
	}
	if _, err := table.Get(cmd.Process.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("name a dead task: %v", err)
	}
}

func TestSplitLast(t *testing.T) {
	rows := []struct{ path, dir, last string }{
		{"a", ".", "a"}, {"a/", ".", "a/"}, {"/a", "/", "a"}, {"/a/", "/", "a/"}, {"/", "/", "/"},
		{"///", "/", "/"}, {"a/b", "a/", "b"}, {"a//b//", "a//", "b//"}, {"/a/b", "/a/", "b"}, {"..", ".", ".."},
	}
	for _, r := range rows {
		dir, last, err := splitLast(r.path)
		if err != nil || dir != r.dir || last != r.last {
			t.Errorf("%q: %q %q %v, want %q %q", r.path, dir, last, err, r.dir, r.last)
		}
	}
	if _, _, err := splitLast(""); err != unix.ENOENT {
		t.Errorf("empty: %v", err)
	}
}

func FuzzParseSockaddr(f *testing.F) {
	f.Add([]byte{2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 'x'})
	f.Add(append([]byte{1, 0}, []byte(strings.Repeat("p", 108))...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := ParseSockaddr(raw)
		if err == nil && a.Family == unix.AF_INET && !a.Addr.Is4() {
			t.Errorf("%x: an internet address that is none", raw)
		}
		if err == nil && strings.IndexByte(a.Path, 0) >= 0 && !a.Abstract {
			t.Errorf("%x: a path with a NUL", raw)
		}
	})
}

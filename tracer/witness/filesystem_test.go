package witness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMemfd execs a file that has no name.
func TestMemfd(t *testing.T) {
	needRoot(t)
	program, err := os.ReadFile(resolve(t, "true"))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("program", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "memfd")
	defer file.Close()
	if _, err := file.Write(program); err != nil {
		t.Fatal(err)
	}
	readOnly, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	_ = file.Close() // what is open for writing cannot be executed
	for _, right := range []bool{true, false} {
		s := start(t, Config{Verify: true}, false)
		cmd := become("exec", "/proc/self/fd/3")
		cmd.ExtraFiles = []*os.File{readOnly}
		release := s.adopt(cmd)
		var d Devices
		want, err := d.Inode(int(readOnly.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if !right {
			want.Ino++
		}
		if _, err := s.Expect(cmd.Process.Pid, []Inode{want}, nil); err != nil {
			t.Fatal(err)
		}
		release()
		if err := cmd.Wait(); (err == nil) != right {
			t.Errorf("right=%v: %v, %+v", right, err, s.all())
		}
	}
}

// TestFileSystems execs from file systems whose st_dev may not be the super
// block's device.
func TestFileSystems(t *testing.T) {
	needRoot(t)
	program, err := os.ReadFile(resolve(t, "true"))
	if err != nil {
		t.Fatal(err)
	}
	try := func(t *testing.T, path string, write bool) {
		t.Helper()
		if write {
			if err := os.WriteFile(path, program, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		s := start(t, Config{Verify: true}, false)
		cmd := become("exec", path)
		release := s.adopt(cmd)
		if _, err := s.Expect(cmd.Process.Pid, []Inode{inodeOf(t, path)}, nil); err != nil {
			t.Fatal(err)
		}
		release()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %+v, inode %+v", err, s.all(), inodeOf(t, path))
		}
	}
	mount := func(t *testing.T, kind, at, data string) {
		t.Helper()
		if err := unix.Mount(kind, at, kind, 0, data); err != nil {
			t.Skipf("mount %s: %v", kind, err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	t.Run("tmpfs", func(t *testing.T) {
		dir := t.TempDir()
		mount(t, "tmpfs", dir, "")
		try(t, filepath.Join(dir, "x"), true)
	})
	t.Run("overlay", func(t *testing.T) {
		dir, ram := t.TempDir(), t.TempDir()
		mount(t, "tmpfs", ram, "")
		for _, d := range []string{"lower", "merged"} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range []string{"upper", "work"} {
			if err := os.Mkdir(filepath.Join(ram, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		lower := filepath.Join(dir, "lower")
		for _, f := range []string{"low", "copied"} {
			if err := os.WriteFile(filepath.Join(lower, f), program, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		merged := filepath.Join(dir, "merged")
		mount(t, "overlay", merged, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work,xino=off", lower, ram, ram))
		try(t, filepath.Join(merged, "low"), false)
		try(t, filepath.Join(merged, "up"), true)
		if err := os.Chmod(filepath.Join(merged, "copied"), 0o700); err != nil {
			t.Fatal(err)
		}
		try(t, filepath.Join(merged, "copied"), false)
	})
}

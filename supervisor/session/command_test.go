package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestLookCommand(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{
		"a/tool": 0o755, "b/tool": 0o755, "a/data": 0o644, "b/data": 0o755, "a/only": 0o644, "b/dir/x": 0o755, "here": 0o755,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("tool", filepath.Join(dir, "a", "link")); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + dir + "/a:" + dir + "/none:" + dir + "/b"
	for _, tc := range []struct {
		name, cmd string
		env       []string
		want      string
		status    int
	}{
		{"first wins", "tool", []string{path}, dir + "/a/tool", 0},
		{"not executable is passed over", "data", []string{path}, dir + "/b/data", 0},
		{"only a not executable one", "only", []string{path}, "", 126},
		{"directory in PATH", "dir", []string{path}, "", 127},
		{"absent", "absent", []string{path}, "", 127},
		{"symlink keeps its name", "link", []string{path}, dir + "/a/link", 0},
		{"relative", "./here", []string{path}, "./here", 0},
		{"dots are kept", "a/../here", nil, "a/../here", 0},
		{"empty element is the working directory", "here", []string{"PATH=/none:"}, "./here", 0},
		{"not in the working directory by itself", "here", []string{"PATH=/none"}, "", 127},
		{"explicit directory", "./a", nil, "", 126},
		{"explicit not executable", "a/only", nil, "", 126},
		{"explicit absent", "./absent", nil, "", 127},
		{"below a file", "here/x", nil, "", 127},
		{"no PATH", "sh", nil, "/bin/sh", 0},
		{"empty", "", []string{path}, "", 127},
		{"device", "/dev/null", nil, "", 126},
		{"NUL", "a\x00b", []string{path}, "", 127},
		{"first PATH counts", "tool", []string{"PATH=/none", path}, "", 127},
	} {
		got, err := LookCommand(tc.cmd, dir, tc.env)
		var ce *CommandError
		status := 0
		if errors.As(err, &ce) {
			status = ce.Status
		}
		if got != tc.want || status != tc.status {
			t.Errorf("%s: got %q, status %d (%v); want %q, %d", tc.name, got, status, err, tc.want, tc.status)
		}
	}
}

func TestOpenWorkspace(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(dir, "ws")
	file := filepath.Join(dir, "file")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(ws, 0o755), os.WriteFile(file, nil, 0o644), os.Symlink("ws", link),
		os.Symlink("nowhere", filepath.Join(dir, "dangling"))); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		in, want string
		notes    int
		ok       bool
	}{
		{ws, ws, 0, true},
		{ws + "/../ws/.", ws, 0, true},
		{link, ws, 1, true},
		{file, "", 0, false},
		{filepath.Join(dir, "gone"), "", 0, false},
		{filepath.Join(dir, "dangling"), "", 0, false},
	} {
		got, err := OpenWorkspace(tc.in)
		if got.Path != tc.want || len(got.Notes) != tc.notes || (err == nil) != tc.ok {
			t.Errorf("%s: got %+v, %v; want %q with %d notes", tc.in, got, err, tc.want, tc.notes)
		}
	}
}

func TestWorkingDirIgnoresPWD(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PWD", "/somewhere/else")
	if got, err := WorkingDir(); err != nil || got != dir {
		t.Errorf("got %q, %v; want %q", got, err, dir)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := WorkingDir(); err == nil {
		t.Errorf("a deleted directory has the path %q", got)
	}
}

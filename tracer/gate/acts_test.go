package gate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

func TestReplaces(t *testing.T) {
	for path, want := range map[string]string{
		"/d/config.lock": "/d/config", "/d/a.b.tmp": "/d/a.b", "/d/a.json.tmp.12.ab": "/d/a.json", "/d/a.tmp-9": "/d/a", "/d/a.new": "/d/a",
		"/d/f.3141592653": "/d/f", "/d/f.12": "", "/d/.lock": "", "/d/lock": "", "/d/a.tmpfile": "", "/d/main.c": "", "/d/a.lock/b": "", "/d/a.tmp\n": "",
		"/x.lock": "/x", "": "", "/d/\xff.lock": "/d/\xff",
	} {
		if got := replaces(path); got != want {
			t.Errorf("replaces(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestEnvWords(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"/usr/bin/env", "node", "s", "a b"}, "node|s|a b"},
		{[]string{"/usr/bin/env", "-S node --x", "s"}, "node|--x|s"},
		{[]string{"env", "-Snode", "s"}, "node|s"},
		{[]string{"/usr/bin/env", "-S A=b node", "s"}, ""},
		{[]string{"/usr/bin/env", "-S -i node", "s"}, ""},
		{[]string{"/usr/bin/env", "-S node 'x y'", "s"}, ""},
		{[]string{"/usr/bin/env", "-S node $X", "s"}, ""},
		{[]string{"/usr/bin/env", "-S ", "s"}, ""},
		{[]string{"/usr/bin/env", "-i", "s"}, ""},
		{[]string{"/usr/bin/env", "A=b", "s"}, ""},
		{[]string{"/usr/bin/env", "s"}, ""},
		{[]string{"/bin/sh", "s", "a"}, ""},
	} {
		if got := strings.Join(envWords(&event.Request{Argv: c.argv}), "|"); got != c.want {
			t.Errorf("envWords(%q) = %q, want %q", c.argv, got, c.want)
		}
	}
}

func TestPlainAttributes(t *testing.T) {
	for name, want := range map[string]bool{
		"user.x": true, "system.posix_acl_access": true, "system.posix_acl_default": true,
		"security.capability": false, "security.ima": false, "trusted.overlay.opaque": false, "system.nfs4_acl": false, "": false, "users.x": false,
	} {
		if plainAttribute(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// TestActsEnd: acts end by time, by number, with their object and with its name, and
// each end closes what was held.
func TestActsEnd(t *testing.T) {
	dir := t.TempDir()
	var s acts
	add := func(task string, d event.Action) (event.Object, *act) {
		path := filepath.Join(dir, task)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(path, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		o := event.Object{Path: path, Dev: st.Dev, Ino: st.Ino}
		a := &act{
			task: task, also: follow(&event.Request{Op: event.OpCreate, Object: o}), d: event.Decision{Action: d},
			until: time.Now().Add(time.Minute), held: fd, id: FileID{st.Dev, st.Ino},
		}
		s.add(a)
		return o, a
	}
	open := func(a *act) bool { return a.held >= 0 }
	o, a := add("time", event.ActionAllow)
	if s.sweep(time.Now()); !open(a) {
		t.Error("it ended before its time")
	}
	if s.sweep(time.Now().Add(2 * time.Minute)); open(a) || s.any.Load() {
		t.Error("it outlasted its time")
	}
	o, a = add("removed", event.ActionAllow)
	s.forget(&event.Object{Path: o.Path, Dev: o.Dev, Ino: o.Ino + 1})
	if !open(a) {
		t.Error("another object's end ended it")
	}
	if s.forget(&o); open(a) {
		t.Error("it outlasted its object")
	}
	o, a = add("moved", event.ActionAllow)
	s.moved("moved", &o, "/elsewhere")
	for _, step := range a.also {
		if step.Object.Path != "/elsewhere" || step.Op == event.OpDelete || step.Op == event.OpRename {
			t.Errorf("after its rename it covers %v of %s", step.Op, step.Object.Path)
		}
	}
	if !open(a) || len(a.also) != 5 {
		t.Errorf("after its rename: %v", a.also)
	}
	if s.moved("another task", &event.Object{Path: "/elsewhere", Dev: o.Dev, Ino: o.Ino}, "/x"); open(a) {
		t.Error("it outlasted another task's rename")
	}
	var all []*act
	for range maxActs + 3 {
		_, a := add("many", event.ActionAllow)
		all = append(all, a)
	}
	if n := len(slices.DeleteFunc(all, func(a *act) bool { return !open(a) })); n != maxActs {
		t.Errorf("%d are held, expected %d", n, maxActs)
	}
	if s.remove(func(*act) bool { return true }); s.any.Load() {
		t.Error("some are left")
	}
}

package lsm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
)

func compareLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(strings.TrimSpace(got), "\n"), strings.Split(strings.TrimSpace(want), "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = strings.TrimSpace(w[i])
		}
		if a != b {
			t.Errorf("got %q, want %q", a, b)
		}
	}
}

// self is this binary where a session can run it.
func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (h *held) victim(name string, args ...string) string {
	h.t.Helper()
	return h.run("export "+victimVariable+"="+name+`; exec "$@"`, append([]string{self(h.t)}, args...)...)
}

func TestNames(t *testing.T) {
	dir := ground(t, "open/a", "open/c", "open/gone", "open/dir/x", "deny/x", "deny/e/y", "ro/f")
	rules := rulesOf(t, pattern{dir + "/deny", denyAll}, pattern{dir + "/ro", readOnly})
	rules.Names, rules.Closed = true, Tree|Xattr
	h := hold(t, rules)
	compareLines(t, h.victim("names", dir), `mkdir ok
		mkdir denied EACCES
		rmdir ok
		rmdir denied EACCES
		unlink denied EACCES
		unlink ok
		rename out EACCES
		rename in EACCES
		rename ok
		rename widens EACCES
		rename dir EXDEV
		exchange EXDEV
		link ok
		link denied EXDEV
		link widens EXDEV
		symlink EPERM
		truncate denied EACCES
		truncate ok
		chmod denied EACCES
		chmod ok
		chmod setuid EPERM
		chown denied EACCES
		mknod device EPERM
		mknod fifo ok
		mknod denied EACCES
		setxattr EPERM`)
	if b, err := os.ReadFile(dir + "/deny/x"); err != nil || string(b) != "secret\n" {
		t.Errorf("deny/x: %q %v", b, err)
	}
	// Each is recorded once, with both its names.
	got := map[string]int{}
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	for _, a := range h.log.accesses {
		switch a.Op {
		case event.OpRename, event.OpLink, event.OpSymlink:
			got[strings.ReplaceAll(fmt.Sprintf("%s %s %s %d %v", a.Op, a.Path, a.Other, a.Errno, a.Made), dir+"/", "")]++
		}
	}
	for _, want := range []string{
		"rename deny/x open/x 13 true", "rename open/a deny/a 13 true", "rename open/a open/b 0 true", "rename ro/f open/f 13 true",
		"rename open/dir open/dir2 18 true", "rename open/b open/c 18 false",
		"link open/b open/l 0 true", "link deny/x open/y 18 true", "link ro/f open/f 18 true", "symlink open/s x 1 true",
	} {
		if got[want] != 1 {
			t.Errorf("%d records of %q", got[want], want)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("and these: %v", got)
	}
}

// TestLongNames: both names may be as long as they come.
func TestLongNames(t *testing.T) {
	dir := ground(t)
	deep := dir
	for len(deep)+252 < 4090 {
		deep += "/" + strings.Repeat("n", 250)
		if err := os.Mkdir(deep, 0o755); err != nil { //nolint:usetesting // it is
			t.Fatal(err)
		}
	}
	deep += "/" + strings.Repeat("l", 4094-len(deep))
	if err := os.WriteFile(deep+"a", nil, 0o600); err == nil || os.WriteFile(deep, nil, 0o600) != nil {
		t.Fatalf("a path of %d bytes", len(deep))
	}
	rules := rulesOf(t)
	rules.Names = true
	h := hold(t, rules)
	other := deep[:len(deep)-1] + "m"
	if got := h.run(`mv "$1" "$2"; ln -s "$1" "$3" && echo ok`, deep, other, dir+"/s"); got != "ok\n" {
		t.Errorf("got %q", got)
	}
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	seen := 0
	for _, a := range h.log.accesses {
		if a.Op == event.OpRename && a.Path == deep && a.Other == other || a.Op == event.OpSymlink && a.Path == dir+"/s" && a.Other == deep {
			seen++
		}
	}
	if seen != 2 {
		t.Errorf("%d of 2 recorded whole", seen)
	}
}

// TestTruncated: where everything is allowed a path that is too long is, too, and
// the record says that it is only the end of it; anywhere else it is refused.
func TestTruncated(t *testing.T) {
	dir := ground(t)
	open := hold(t, Rules{RecordOnly: true})
	compareLines(t, open.victim("long", dir), "long ok\nrenamed ok")
	rules := rulesOf(t)
	rules.Names = true
	held := hold(t, rules)
	compareLines(t, held.victim("long", dir), "long ENAMETOOLONG\nrenamed ENAMETOOLONG")
	ends := func(path string) bool {
		return len(path) > 3800 && len(path) < 4096 && strings.HasPrefix(path, "/nnn") && strings.HasSuffix(path, "n/f")
	}
	for l, want := range map[*log]string{&open.log: "create false", &held.log: "rename true"} {
		got := 0
		l.mu.Lock()
		for _, a := range l.accesses {
			if long := len(a.Path) > 3800; long != a.PathLong {
				t.Errorf("a path of %d bytes is said to be cut %v", len(a.Path), a.PathLong)
			}
			if fmt.Sprint(a.Op, " ", a.OtherLong) == want && a.PathLong && ends(a.Path) {
				got++
			}
		}
		l.mu.Unlock()
		if got != 1 {
			t.Errorf("%d records of %s", got, want)
		}
	}
}

func TestSpecial(t *testing.T) {
	needsRoot(t)
	dir := ground(t, "ok", "deny/x")
	for _, name := range []string{"run", "deny/run"} {
		copyFile(t, "/bin/true", filepath.Join(dir, name))
	}
	if err := unix.Mknod(dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, "reeve-abc")
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(dir, "reeve-000")
	rules := rulesOf(t, pattern{dir + "/deny", denyAll}, pattern{"/proc/[0-9]*", denyAll}, pattern{dir + "/reeve-*", denyAll},
		pattern{alias, allowAll}, pattern{"/dev/pts", Outcome{Terminal: true, Read: event.ActionAllow, Write: event.ActionAllow}})
	rules.Temp, rules.TempAlias, rules.MemoryExec = temp, alias, false
	h := hold(t, rules)
	compareLines(t, h.victim("special", dir, fmt.Sprint(os.Getpid()), temp), `own environ ok
		own maps by thread ok
		parent's environ EACCES
		temp ok
		temp's neighbour EACCES
		memfd ok
		memfd reopened ok
		memfd run EACCES
		tmpfile ok
		tmpfile reopened ok
		tmpfile denied EACCES
		device EACCES
		device in its place ok
		pipe ok
		deleted ok
		long ENAMETOOLONG
		namespace file ok
		execve denied EACCES
		by loader exit status 127
		run ok
		setuid ok
		made setuid EPERM`)
	t.Log(strings.Join(h.log.refusals(), "\n"))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestOwnTerminals: a pseudo-terminal that the session makes is its own, another
// is not.
func TestOwnTerminals(t *testing.T) {
	other, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	defer unix.Close(other)
	if err := unix.IoctlSetPointerInt(other, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminals, err := automaton.Compile([]automaton.Rule{{Glob: "/dev/pts/*", Below: true}, {Glob: "/dev/pts/ptmx"}}, automaton.Config{})
	if err != nil {
		t.Fatal(err)
	}
	plane := Plane{Need: event.AccessRead | event.AccessWrite, Auto: terminals, Outcomes: make([]Outcome, terminals.NumAccepts())}
	for a := range plane.Outcomes {
		w := terminals.Winners(uint32(a))
		plane.Outcomes[a].Terminal = len(w) > 0 && w[0] == 0
	}
	rules := rulesOf(t)
	rules.Planes = append([]Plane{plane}, rules.Planes...)
	h := hold(t, rules)
	got := h.victim("pty")
	if !strings.HasPrefix(got, "master ok\nslave ok\nother EACCES\n") {
		t.Errorf("got:\n%s", got)
	}
}

// TestDeath: when the supervisor is gone everything is refused.
func TestDeath(t *testing.T) {
	dir := ground(t, "ok")
	h := hold(t, rulesOf(t))
	wait := h.start("export "+victimVariable+`=loop; exec "$@"`, self(t), dir+"/ok")
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(dir + "/ok.begun"); err == nil {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the victim does not begin")
		}
	}
	if err := h.engine.loaded.Variables["over"].Set(uint32(1)); err != nil {
		t.Fatal(err)
	}
	got, _ := wait()
	compareLines(t, got, "open EPERM")
}

package lsm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// actRoots opens one denied file by all kinds of ways to it. The second argument
// is an overlay's mount point, the third another mount of the directory.
func actRoots(args []string) {
	dir := args[0]
	say("overlay", open(args[1]+"/low", unix.O_RDONLY))
	say("overlay copied up", open(args[1]+"/low", unix.O_RDWR))
	say("overlay denied", open(args[1]+"/deny/x", unix.O_RDONLY))
	say("tmpfs", open(dir+"/tmpfs/f", unix.O_RDONLY))
	say("tmpfs denied", open(dir+"/tmpfs/deny", unix.O_RDONLY))
	say("bind mount's own name", open(args[2]+"/deny/x", unix.O_RDONLY))
	say("other namespace", unix.Unshare(unix.CLONE_NEWNS))
	say("denied there", open(dir+"/deny/x", unix.O_RDONLY))
	say("allowed there", open(dir+"/ok", unix.O_RDONLY))
	_ = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	say("chroot", unix.Chroot(dir))
	say("denied from another root", open("/deny/x", unix.O_RDONLY))
	say("allowed from another root", open("/ok", unix.O_RDONLY))
}

// TestRoots: the verdict is about the object at its path from the session's root,
// whatever the task's own root and namespace, and the record says that path.
func TestRoots(t *testing.T) {
	needsRoot(t)
	dir := ground(t, "ok", "deny/x", "lower/low", "lower/deny/x", "upper/.keep", "work/.keep", "merged/.keep", "tmpfs/.keep", "bound/.keep")
	for _, m := range [][4]string{
		{"overlay", dir + "/merged", "overlay", fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", dir, dir, dir)},
		{"tmpfs", dir + "/tmpfs", "tmpfs", ""}, {dir, dir + "/bound", "", ""},
	} {
		flags := uintptr(0)
		if m[2] == "" {
			flags = unix.MS_BIND
		}
		if err := unix.Mount(m[0], m[1], m[2], flags, m[3]); err != nil {
			t.Fatalf("mount %v: %v", m, err)
		}
		defer func() { _ = unix.Unmount(m[1], unix.MNT_DETACH) }()
	}
	for _, f := range []string{"tmpfs/f", "tmpfs/deny"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := hold(t, rulesOf(t, pattern{dir + "/deny", denyAll}, pattern{dir + "/merged/deny", denyAll}, pattern{dir + "/tmpfs/deny", denyAll},
		pattern{dir + "/upper", denyAll}, pattern{dir + "/lower", denyAll}))
	compareLines(t, h.victim("roots", dir, dir+"/merged", dir+"/bound"), `overlay ok
		overlay copied up ok
		overlay denied EACCES
		tmpfs ok
		tmpfs denied EACCES
		bind mount's own name ok
		other namespace ok
		denied there EACCES
		allowed there ok
		chroot ok
		denied from another root EACCES
		allowed from another root ok`)
	got := strings.Join(h.log.refusals(), "\n")
	t.Log(got)
	if strings.Count(got, "open read "+dir+"/deny/x: denied by the policy") != 2 {
		t.Errorf("the records do not name %s/deny/x twice", dir)
	}
}

// actMoved opens files, waits until their directories have other names, and opens
// and changes them by what it holds. Its arguments are the directory and pairs of a
// descriptor's name and its file.
func actMoved(args []string) {
	dir := args[0]
	fds := map[string]int{}
	for _, name := range args[1:] {
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_PATH|unix.O_CLOEXEC, 0)
		if filepath.Base(name) == "f" && !strings.HasPrefix(name, "deny") {
			_ = unix.Close(fd)
			fd, err = unix.Open(filepath.Join(dir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		say("before: "+name, err)
		fds[name] = fd
	}
	say("ready", open(dir+"/ready", unix.O_CREAT|unix.O_WRONLY))
	for open(dir+"/go", unix.O_RDONLY) != nil {
		time.Sleep(time.Millisecond)
	}
	for _, name := range args[1:] {
		fd := fds[name]
		if filepath.Base(name) != "f" {
			at, err := unix.Openat(fd, "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			_ = unix.Close(at)
			say(name+"/f", err)
			say(name+"/f chmod", unix.Fchmodat(fd, "f", 0o600, 0))
			continue
		}
		say(name, open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY))
		say(name+" to write", open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY))
		say(name+" fchmod", unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o600))
		if !strings.HasPrefix(name, "deny") {
			say(name+" by descriptor", unix.Fchmod(fd, 0o600))
		}
	}
}

// TestMoved: where directories get other names while files below them are open, the
// verdict is about what they are called now, and so is the record.
func TestMoved(t *testing.T) {
	dir := ground(t, "here/a/f", "there/b/f", "deny/c/f")
	rules := rulesOf(t, pattern{dir + "/deny", denyAll})
	rules.Names = true // what changes modes is judged by the hooks
	h := hold(t, rules)
	names := []string{"here/a/f", "here/a", "there/b/f", "deny/c", "deny/c/f"}
	wait := h.start("export "+victimVariable+`=moved; exec "$@"`, append([]string{self(t), dir}, names...)...)
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(dir + "/ready"); err == nil {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the victim does not begin")
		}
	}
	for _, move := range [][2]string{{"here", "deny/inside"}, {"there", "elsewhere"}, {"deny/c", "free"}} {
		if err := os.Rename(filepath.Join(dir, move[0]), filepath.Join(dir, move[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := wait()
	if err != nil {
		t.Error(err)
	}
	compareLines(t, got, `before: here/a/f ok
		before: here/a ok
		before: there/b/f ok
		before: deny/c ok
		before: deny/c/f ok
		ready ok
		here/a/f EACCES
		here/a/f to write EACCES
		here/a/f fchmod EACCES
		here/a/f by descriptor EACCES
		here/a/f EACCES
		here/a/f chmod EACCES
		there/b/f ok
		there/b/f to write ok
		there/b/f fchmod ok
		there/b/f by descriptor ok
		deny/c/f ok
		deny/c/f chmod ok
		deny/c/f ok
		deny/c/f to write ok
		deny/c/f fchmod ok`)
	seen := map[string]int{}
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	for _, a := range h.log.accesses {
		if rest, ok := strings.CutPrefix(a.Path, dir+"/"); ok && (a.Op == event.OpOpen || a.Op == event.OpChmod) {
			seen[fmt.Sprintf("%s %s %s %d", a.Op, a.Need, rest, a.Errno)]++
		}
	}
	for what, n := range map[string]int{
		"open read here/a/f 0": 1, "open read there/b/f 0": 1, // before
		"open read deny/inside/a/f 13": 2, "open write deny/inside/a/f 13": 1, "chmod write deny/inside/a/f 13": 3,
		"open read elsewhere/b/f 0": 1, "open write elsewhere/b/f 0": 1, "chmod write elsewhere/b/f 0": 2,
		"open read free/f 0": 2, "open write free/f 0": 1, "chmod write free/f 0": 2,
	} {
		if seen[what] != n {
			t.Errorf("%d records of %q, want %d; all are %v", seen[what], what, n, seen)
		}
	}
}

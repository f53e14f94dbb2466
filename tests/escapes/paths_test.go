package escapes_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

func symlink(to, name string) func(*testing.T, *trial.Ground) {
	return func(t *testing.T, g *trial.Ground) {
		if err := os.Symlink(g.Expand(to), g.Expand(name)); err != nil {
			t.Fatal(err)
		}
	}
}

func openat(path string) []string { return readCall(unix.SYS_OPENAT, -100, "s:"+path, 0) }

// TestSecretByAnyName: one denied file, every way to name it.
func TestSecretByAnyName(t *testing.T) {
	secret, ofInit := openDenied("{secret}"), openDenied("{secret}")
	long := "{ws}" + strings.Repeat("/./sub/..", 60) + "/.env"
	rows := []row{
		{id: "P00", name: "open", argv: readCall(unix.SYS_OPEN, "s:{secret}", 0), deny: secret},
		{id: "P00", name: "openat", argv: openat("{secret}"), deny: secret},
		{id: "P00", name: "relative", argv: openat(".env"), deny: secret},
		{id: "P00", name: "by directory", argv: readCall(unix.SYS_OPENAT, "d:{ws}", "s:.env", 0), deny: secret},
		{id: "P00", name: "by path descriptor", argv: readCall(unix.SYS_OPENAT, "p:{ws}", "s:./.env", 0), deny: secret},
		{id: "P00", name: "dot dot", argv: openat("{ws}/sub/deep/../../.env"), deny: secret},
		{id: "P00", name: "slashes", argv: openat("{ws}//.//.env"), deny: secret},
		{id: "P00", name: "long way round", argv: openat(long), deny: secret},
		{id: "P00", name: "symlink", prepare: symlink("{secret}", "{ws}/l"), argv: openat("{ws}/l"), deny: secret},
		{id: "P00", name: "relative symlink", prepare: symlink("../.env", "{ws}/sub/l"), argv: openat("sub/l"), deny: secret},
		{id: "P00", name: "symlinked directory", prepare: symlink("{ws}", "{ws}/l"), argv: openat("l/.env"), deny: secret},
		{id: "P00", name: "high flag bits", argv: readCall(unix.SYS_OPENAT, -100, "s:{secret}", "0x100000000"), deny: secret},
		{id: "P00", name: "high descriptor bits", argv: readCall(unix.SYS_OPENAT, "0x1ffffff9c", "s:.env", 0), deny: secret},
		{id: "P00", name: "home key", argv: openat("{home}/.ssh/id_rsa"), deny: openDenied("{home}/.ssh/id_rsa")},
		{id: "P00", name: "outside", argv: openat("{outside}/secret.txt"), deny: openDenied("{outside}/secret.txt")},
		{id: "P09", name: "own root", argv: openat("/proc/self/root{secret}"), deny: secret},
		{id: "P09", name: "own cwd", argv: openat("/proc/self/cwd/.env"), deny: secret},
		{id: "P09", name: "thread root", argv: openat("/proc/thread-self/root{secret}"), deny: secret},
		{id: "P09", name: "task root", argv: openat("/proc/self/task/../root{secret}"), deny: secret},
		{id: "P09", name: "root of init", argv: openat("/proc/1/root{secret}"), native: `ret=(\d+ errno=0|-1 errno=13)`, // init may be shut to all
			root: true, deny: ofInit, after: leadsTo(ofInit)},
		{id: "P09", name: "root of parent", argv: []string{"/bin/sh", "-c", "cat /proc/$PPID/root{secret}"}, native: "TOKEN=", want: "denied",
			root: true, deny: secret},
		{id: "P09", name: "link to own root", prepare: symlink("/proc/self/root", "{ws}/l"), argv: openat("l{secret}"), deny: secret},
	}
	run(t, rows)
}

// TestReopen: a descriptor for reading is no licence to write (P10).
func TestReopen(t *testing.T) {
	var rows []row
	for _, via := range []string{"proc", "devfd", "stdin", "opath"} {
		rows = append(rows, row{
			id: "P10", name: via, argv: []string{"reopen", via, "{config}"}, native: `write: ret=8`,
			want: `open: ret=0 errno=0\nreopen: ` + refused, deny: openDenied("{config}"),
		})
	}
	run(t, rows)
}

// TestMemFile: the memory of a process is no file to write to (P11).
func TestMemFile(t *testing.T) {
	isMem := func(t *testing.T, _ *trial.Ground, r *trial.Result, supervised bool) {
		for _, e := range trial.Denials(r.Events) {
			if !strings.HasSuffix(e.Object.Path, "/mem") {
				t.Errorf("object is %q, want …/mem", e.Object.Path)
			}
		}
	}
	var rows []row
	for _, whose := range []string{"self", "thread-self", "pid"} {
		rows = append(rows, row{
			id: "P11", name: whose, argv: []string{"mem", whose}, native: `pwrite: ret=16`,
			want: `mem: ` + refused, deny: &trial.Denial{Ops: []string{"open"}}, after: isMem,
		})
	}
	run(t, rows)
}

// TestNewNames: a denied object gets no other name, a protected name no other object.
func TestNewNames(t *testing.T) {
	link := &trial.Denial{Ops: []string{"link"}, Path: "{secret}", Target: "{ws}/x"}
	policy := trial.Options{Policy: true}
	// A directory over a denied one does not move as a whole: as if its new place
	// were another file system, so that mv(1) copies it, file by file.
	const elsewhere = `ret=-1 errno=18\b`
	rows := []row{
		{id: "P13", name: "link", argv: call(unix.SYS_LINK, "s:{secret}", "s:{ws}/x"), deny: link},
		{id: "P13", name: "linkat", argv: call(unix.SYS_LINKAT, -100, "s:.env", -100, "s:x", 0), deny: link},
		{id: "P13", name: "linkat symlink", prepare: symlink("{secret}", "{ws}/l"),
			argv: call(unix.SYS_LINKAT, -100, "s:l", -100, "s:x", unix.AT_SYMLINK_FOLLOW), deny: link},
		{id: "P15", name: "rename denied directory", opt: policy, argv: call(unix.SYS_RENAME, "s:{ws}/p2/x", "s:{ws}/y"),
			deny: &trial.Denial{Ops: []string{"rename"}, Path: "{ws}/p2/x", Target: "{ws}/y"}},
		{id: "P15", name: "rename covering directory", opt: policy, argv: call(unix.SYS_RENAME, "s:{ws}/p2", "s:{ws}/y"),
			want: elsewhere,
			deny: &trial.Denial{Ops: []string{"rename"}, Path: "{ws}/p2", Target: "{ws}/y", Errno: "EXDEV"}},
		{id: "P15", name: "exchange covering directory", opt: policy,
			want: elsewhere,
			argv: call(unix.SYS_RENAMEAT2, -100, "s:p1", -100, "s:p2", 2), deny: &trial.Denial{Ops: []string{"rename"}, Errno: "EXDEV"}},
		{id: "P15", name: "rename secret", argv: call(unix.SYS_RENAME, "s:{secret}", "s:{ws}/x"),
			deny: &trial.Denial{Ops: []string{"rename"}, Path: "{secret}", Target: "{ws}/x"}},
		{id: "P16", name: "rename over", argv: call(unix.SYS_RENAME, "s:{ok}", "s:{config}"),
			deny: &trial.Denial{Ops: []string{"rename"}, Path: "{ok}", Target: "{config}"}},
		{id: "P16", name: "exchange", argv: call(unix.SYS_RENAMEAT2, -100, "s:{ok}", -100, "s:{config}", 2),
			deny: &trial.Denial{Ops: []string{"rename"}, Path: "{ok}", Target: "{config}"}},
		{id: "P16", name: "exchange reversed", argv: call(unix.SYS_RENAMEAT2, -100, "s:{config}", -100, "s:{ok}", 2),
			deny: &trial.Denial{Ops: []string{"rename"}, Path: "{config}", Target: "{ok}"}},
		{id: "P16", name: "rename over secret", argv: call(unix.SYS_RENAME, "s:{ok}", "s:{secret}"),
			deny: &trial.Denial{Ops: []string{"rename"}, Path: "{ok}", Target: "{secret}"}},
		{id: "P17", name: "tmpfile by descriptor", argv: []string{"tmpfile", "empty", "{ws}", "{hooks}/post-commit"},
			native: `linkat: ret=0`, want: `linkat: ` + refused,
			deny: &trial.Denial{Ops: []string{"link"}, Target: "{hooks}/post-commit"}},
		{id: "P17", name: "tmpfile by name", argv: []string{"tmpfile", "proc", "{ws}", "{hooks}/post-commit"},
			native: `linkat: ret=0`, want: `linkat: ` + refused,
			deny: &trial.Denial{Ops: []string{"link"}, Target: "{hooks}/post-commit"}},
		{id: "P17", name: "tmpfile there", argv: []string{"tmpfile", "proc", "{hooks}", "{hooks}/post-commit"},
			native: `linkat: ret=0`, want: `tmpfile: ` + refused, deny: &trial.Denial{Ops: []string{"open", "create"}}},
	}
	run(t, rows)
}

// TestPathDescriptor: what a path-only descriptor leads to is resolved (P18).
func TestPathDescriptor(t *testing.T) {
	policy := trial.Options{Policy: true}
	f := openDenied("{ws}/p2/x/f")
	run(t, []row{
		{id: "P18", name: "openat", opt: policy, argv: []string{"opath", "openat", "{ws}/p2", "x/f"}, want: `openat: ` + refused, deny: f},
		{id: "P18", name: "fchdir", opt: policy, argv: []string{"opath", "fchdir", "{ws}/p2", "x/f"},
			native: `content: TOKEN`, want: `fchdir: ` + refused, deny: f},
		{id: "P18", name: "execveat", opt: policy, argv: []string{"opath", "execveat", "{ws}/p2", "x/tool"},
			native: `victim call`, want: `execveat: ` + refused, deny: &trial.Denial{Ops: []string{"exec"}, Path: "{ws}/p2/x/tool"}},
		{id: "P18", name: "fchmodat", opt: policy, argv: []string{"opath", "fchmodat", "{ws}/p2", "x/f"}, want: `fchmodat: ` + refused,
			deny: &trial.Denial{Ops: []string{"chmod"}, Path: "{ws}/p2/x/f"}},
	})
}

// TestMounts: nothing is put in front of a path (P14), nor is another root (P20).
func TestMounts(t *testing.T) {
	own := trial.Options{Wrap: []string{"unshare", "-m", "--propagation", "private"}}
	kernel := &trial.Denial{Ops: []string{"mount", "namespace"}, Errno: "*"}
	run(t, []row{
		{id: "P14", name: "bind", root: true, opt: own, want: barred, deny: kernel,
			argv: call(unix.SYS_MOUNT, "s:{ws}/p2", "s:{ws}/p1", 0, unix.MS_BIND, 0)},
		{id: "P14", name: "tmpfs", root: true, opt: own, want: barred, deny: kernel,
			argv: call(unix.SYS_MOUNT, "s:none", "s:{hooks}", "s:tmpfs", 0, 0)},
		{id: "P14", name: "user namespace", argv: call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_NEWNS), want: barred, deny: kernel},
		{id: "P14", name: "open_tree", root: true, argv: call(unix.SYS_OPEN_TREE, -100, "s:{ws}", 0x80001), want: barred, deny: kernel},
		{id: "P20", name: "chroot", root: true, opt: underOpened, prepare: opens("chroot"), native: "content: TOKEN=",
			argv: steps(line(unix.SYS_CHROOT, "s:{ws}"), append([]string{"cat"}, line(unix.SYS_OPEN, "s:/.env", 0)...)),
			want: `env 0: ` + refused, deny: openDenied("{secret}")},
		{id: "P20", name: "entry in a chroot", root: true, opt: underOpened, prepare: opens("chroot"), native: `env: ret=0`,
			argv: steps(line(unix.SYS_CHROOT, "s:{ws}"), line(unix.SYS_UNLINK, "s:/.env")),
			want: `env: ` + refused, deny: &trial.Denial{Ops: []string{"delete"}, Path: "{secret}"}},
	})
}

// TestOwnProc: /proc/self is about the one who asks, never about us (P08).
func TestOwnProc(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		for _, profile := range []string{"", "observe"} {
			g := trial.NewGround(t, nobody)
			control := g.Native(trial.Options{}, "{victim}", "self")
			if strings.Contains(control.Stdout, ": 0") || control.Status != 0 {
				t.Fatalf("control: %s", control.Text())
			}
			r := g.Supervised(trial.Options{Profile: profile}, "{victim}", "self")
			if r.Stdout != control.Stdout {
				t.Errorf("profile %q: got\n%s%s\nwant\n%s", profile, r.Stdout, r.Stderr, control.Stdout)
			}
			marker := trial.Options{Profile: profile, Env: []string{"TRIAL_MARK=own"}}
			r = g.Supervised(marker, "/bin/cat", "/proc/self/environ")
			if !strings.Contains(r.Stdout, "TRIAL_MARK=own") {
				t.Errorf("profile %q: own environment lacks the mark: %q %s", profile, r.Stdout, r.Stderr)
			}
		}
	})
}

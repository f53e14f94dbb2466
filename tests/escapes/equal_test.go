package escapes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// An equality is a command whose outcome under reeve is that without it.
type equality struct {
	opt trial.Options
	// profiles are those compared: observe and the default one, when empty.
	profiles []string
	prepare  func(*testing.T, *trial.Ground)
	// argv is a technique of the victim or a command, as in a row; stdin may
	// name the ground's places too.
	argv  []string
	stdin string
}

// equal compares the answers to a batch of calls, literally.
func equal(t *testing.T, name string, e equality, calls []string) {
	e.argv, e.stdin = []string{"batch"}, strings.Join(calls, "\n")+"\n"
	t.Run(name, e.test)
}

func (e equality) test(t *testing.T) {
	if len(e.profiles) == 0 {
		e.profiles = []string{"observe", ""}
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		native := e.once(t, nobody, func(g *trial.Ground) func(trial.Options, ...string) *trial.Result { return g.Native })
		if len(native) < 12 {
			t.Fatalf("control: nothing came of it: %s", native)
		}
		for _, e.opt.Profile = range e.profiles {
			got := e.once(t, nobody, func(g *trial.Ground) func(trial.Options, ...string) *trial.Result { return g.Supervised })
			if got != native {
				t.Errorf("profile %q differs:\n%s", e.opt.Profile, diff(native, got))
			}
		}
	})
}

// once is the outcome of one run, the ground's name taken out.
func (e equality) once(t *testing.T, nobody bool, how func(*trial.Ground) func(trial.Options, ...string) *trial.Result) string {
	t.Helper()
	g := trial.NewGround(t, nobody)
	if e.prepare != nil {
		e.prepare(t, g)
	}
	o := e.opt
	o.Stdin = strings.NewReader(g.Expand(e.stdin))
	r := how(g)(o, row{argv: e.argv}.command()...)
	return strings.ReplaceAll(fmt.Sprintf("%sstderr: %s\nstatus: %d\n", r.Stdout, r.Stderr, r.Status), g.Base, "BASE")
}

// diff shows the lines that differ, native first.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	shown := 0
	for i := range max(len(w), len(g)) {
		var l, r string
		if i < len(w) {
			l = w[i]
		}
		if i < len(g) {
			r = g[i]
		}
		if l != r && shown < 40 {
			fmt.Fprintf(&b, "line %d: native %q\n     under reeve %q\n", i+1, l, r)
			shown++
		}
	}
	return b.String()
}

func lines(words ...[]string) []string {
	var out []string
	for _, w := range words {
		out = append(out, strings.Join(w, " "))
	}
	return out
}

// TestBadPointers: strings that end, or do not, where memory ends (P26).
func TestBadPointers(t *testing.T) {
	var calls []string
	for _, path := range []string{
		"0", "1", "-1", "0x800000000000", "e:{ok}", "u:{ok}", "e:", "u:/", "e:ok.txt", "u:ok.txt",
		"l:4094", "l:4095", "l:4096", "l:5000", "l:255", "l:256", "s:", "z:1",
	} {
		calls = append(calls, lines(
			line(unix.SYS_OPENAT, -100, path, 0), line(unix.SYS_OPEN, path, 0), line(unix.SYS_OPENAT, -100, path, unix.O_PATH),
			line(unix.SYS_OPENAT2, -100, path, how(0, 0, 0), 24), line(unix.SYS_CHMOD, path, 0o644), line(unix.SYS_UNLINK, path+".no"),
			line(unix.SYS_RENAME, path+".no", "s:x"), line(unix.SYS_TRUNCATE, path+".no", 0),
			line(unix.SYS_EXECVE, path+".no", 0, 0), line(unix.SYS_LINK, "s:ok.txt", path+".no"), line(unix.SYS_RMDIR, path+".no"),
			line(unix.SYS_UTIMENSAT, -100, path+".no", 0, 0),
		)...)
	}
	for _, bad := range []string{"0", "1", "-1", "0x800000000000", "u:/", "u:ok.txt", "l:4096", "l:5000", "l:256", "s:"} {
		calls = append(calls, lines(
			line(unix.SYS_RENAME, "s:ok.txt", bad), line(unix.SYS_RENAME, bad, "s:x"), line(unix.SYS_SYMLINK, bad, "s:ok.txt"),
			line(unix.SYS_SYMLINK, "s:ok.txt", bad), line(unix.SYS_LINK, bad, "s:x"), line(unix.SYS_MKNOD, bad, unix.S_IFIFO|0o644, 0),
			line(unix.SYS_MKDIR, bad, 0o755), line(unix.SYS_SETXATTR, bad, "s:user.x", "s:v", 1, 0), line(unix.SYS_CHOWN, bad, -1, -1),
		)...)
	}
	calls = append(calls, lines(
		line(unix.SYS_UTIMENSAT, -100, "s:{ok}", 1, 0), line(unix.SYS_SETXATTR, "s:{ok}", 0, 0, 0, 0),
		line(unix.SYS_EXECVE, "s:{ws}/none", 0, 0), line(unix.SYS_EXECVE, "s:{ok}", 0, 0), line(unix.SYS_EXECVE, "s:{ws}", 0, 0),
		line(unix.SYS_EXECVE, "0", 0, 0), line(unix.SYS_EXECVEAT, 99, "s:x", 0, 0, 0), line(unix.SYS_EXECVEAT, "r:{ok}", "s:", 0, 0, 0),
		line(unix.SYS_CONNECT, 99, "z:16", 16), line(unix.SYS_CONNECT, "k:1,1,0", 0, 16), line(unix.SYS_CONNECT, "k:1,1,0", 1, 16),
		line(unix.SYS_CONNECT, "k:1,1,0", "z:200", 200), line(unix.SYS_CONNECT, "k:1,1,0", "z:2", 1), line(unix.SYS_CONNECT, "k:1,1,0", "z:2", -1),
		line(unix.SYS_CONNECT, "r:{ok}", "z:16", 16), line(unix.SYS_BIND, "k:1,1,0", 1, 16), line(unix.SYS_BIND, 99, "z:16", 16),
		line(unix.SYS_SENDTO, 99, "s:x", 1, 0, "z:16", 16), line(unix.SYS_SENDMSG, 99, 0, 0), line(unix.SYS_SENDMSG, "k:1,2,0", 0, 0),
		line(unix.SYS_SENDMSG, "k:1,2,0", 1, 0), line(unix.SYS_SENDMMSG, "k:1,2,0", 1, 1, 0),
	)...)
	equal(t, "P26", equality{}, calls)
}

// TestOddPaths: names that are no plain names (P27).
func TestOddPaths(t *testing.T) {
	var calls []string
	paths := []string{
		"s:", "s:.", "s:ok.txt", "s:ok.txt/", "s:ok.txt/.", "s:ok.txt/..", "s:./ok.txt",
		"s:sub", "s:sub/", "s:sub/.", "s:sub/..", "s:sub/../ok.txt", "s:none", "s:none/", "s:none/x", "s:none/..", "s:ok.txt/x",
		"s:loop", "s:loop/x", "s:dangling", "s:dangling/", "s:todir", "s:todir/", "s:todir/deep/note.txt", "s:tofile", "s:tofile/", "s:{ok}", "s:{ws}/",
	}
	dirs := []string{"-100", "-1", "99", "d:{ws}", "d:{ws}/sub", "p:{ws}", "r:{ok}", "p:{ok}"}
	flags := []int{
		0, unix.O_DIRECTORY, unix.O_NOFOLLOW, unix.O_PATH, unix.O_PATH | unix.O_NOFOLLOW, unix.O_DIRECTORY | unix.O_NOFOLLOW,
		unix.O_WRONLY, unix.O_RDWR, unix.O_CREAT | unix.O_EXCL, unix.O_TMPFILE | unix.O_RDWR, unix.O_TMPFILE, unix.O_DIRECTORY | unix.O_CREAT,
	}
	for _, p := range paths {
		for _, f := range flags {
			calls = append(calls, strings.Join(line(unix.SYS_OPENAT, -100, p, f, 0o644), " "))
		}
		for _, d := range dirs {
			calls = append(calls, strings.Join(line(unix.SYS_OPENAT, d, p, 0), " "))
		}
		calls = append(calls, lines(
			line(unix.SYS_MKDIR, p, 0o755), line(unix.SYS_MKNOD, p, unix.S_IFREG|0o644, 0), line(unix.SYS_SYMLINK, "s:x", p),
			line(unix.SYS_LINK, p, "s:ok.txt"), line(unix.SYS_LINK, "s:ok.txt", p), line(unix.SYS_RENAME, p, "s:none/x"),
			line(unix.SYS_RENAMEAT2, -100, "s:ok.txt", -100, p, 1), line(unix.SYS_RENAMEAT2, -100, p, -100, "s:none/x", 2),
			line(unix.SYS_UNLINKAT, -100, p, 0x4000), line(unix.SYS_RMDIR, p+"/none/x"), line(unix.SYS_UNLINK, p+"/none/x"),
			line(unix.SYS_FCHMODAT, -100, p, 0o755), line(sysFchmodat2, -100, p, 0o755, unix.AT_EMPTY_PATH), line(sysFchmodat2, -100, p, 0o755, 0x8000),
			line(unix.SYS_FCHOWNAT, -100, p, -1, -1, 0), line(unix.SYS_FCHOWNAT, 99, p, -1, -1, unix.AT_EMPTY_PATH),
			line(unix.SYS_UTIMENSAT, -100, p, 0, 0), line(unix.SYS_UTIMENSAT, -100, p, 0, unix.AT_EMPTY_PATH), line(unix.SYS_TRUNCATE, p, 9),
		)...)
	}
	equal(t, "P27", equality{prepare: oddNames}, calls)
	// Beyond the workspace the default profile says no more often than the kernel.
	var beyond []string
	for _, p := range []string{"s:..", "s:/", "s://", "s:///.", "s:/..", "s:/tmp/..", "s:/dev/null/", "s:/dev/null/x", "s:/proc/self/", "s:/proc/self/fd/99"} {
		for _, f := range flags {
			if f&(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY) == 0 {
				beyond = append(beyond, strings.Join(line(unix.SYS_OPENAT, -100, p, f), " "))
			}
		}
		beyond = append(beyond, lines(line(unix.SYS_MKDIR, p, 0o755), line(unix.SYS_RMDIR, p), line(unix.SYS_UNLINK, p), line(unix.SYS_SYMLINK, "s:x", p),
			line(unix.SYS_LINK, p, "s:{ok}"), line(unix.SYS_RENAME, p, "s:{ws}/y"), line(unix.SYS_RENAME, "s:{ok}", p), line(unix.SYS_TRUNCATE, p, 0))...)
	}
	equal(t, "P27 beyond", equality{profiles: []string{"observe"}}, beyond)
}

func oddNames(t *testing.T, g *trial.Ground) {
	for name, to := range map[string]string{"loop": "loop", "dangling": "nowhere", "todir": "sub", "tofile": "ok.txt"} {
		if err := os.Symlink(to, filepath.Join(g.Workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	g.Own(g.Base)
}

// TestWaitingOpens: opens that wait for a peer hold nobody else (P28, P29).
func TestWaitingOpens(t *testing.T) {
	o := trial.Options{Timeout: 30 * time.Second}
	shell := "mkfifo f; cat f & echo through the fifo > f; wait; echo done"
	t.Run("P28 shell", equality{opt: o, argv: []string{"/bin/sh", "-c", shell}}.test)
	t.Run("P29 others go on", equality{opt: o, argv: []string{"fifo", "2000", "{ws}/f", "{ok}"}}.test)
	t.Run("P29 signal and death", equality{opt: o, argv: []string{"fifo-signal", "{ws}/f"}}.test)
}

// TestCreation: mode, owner and group of what is made (P31). Set-user-id modes
// are made under observe only: the default profile refuses them.
func TestCreation(t *testing.T) {
	made := func(mode os.FileMode) func(*testing.T, *trial.Ground) {
		return func(t *testing.T, g *trial.Ground) {
			dir := filepath.Join(g.Workspace, "made")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			g.Own(g.Base)
			if g.UID() == 0 {
				if err := os.Chown(dir, 0, 4321); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	create := func(words ...string) []string { return append([]string{"create", "{ws}/made"}, words...) }
	for name, e := range map[string]equality{
		"umask": {prepare: made(0o755)}, "setgid directory": {prepare: made(0o755 | os.ModeSetgid)}, "default list": {prepare: made(0o755), argv: []string{"acl"}},
	} {
		words := e.argv
		e.argv = create(append([]string{"plain"}, words...)...)
		t.Run("P31 "+name, e.test)
		e.argv, e.profiles = create(append([]string{"all"}, words...)...), []string{"observe"}
		t.Run("P31 "+name+" and set-user-id", e.test)
	}
}

// TestDescriptorFlags: status flags, close-on-exec and offset of what was
// opened (P32).
func TestDescriptorFlags(t *testing.T) {
	var calls []string
	modes := []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR}
	extra := []int{
		0, unix.O_CLOEXEC, unix.O_APPEND, unix.O_NONBLOCK, unix.O_DIRECT, unix.O_LARGEFILE, unix.O_SYNC, unix.O_DSYNC, unix.O_NOATIME,
		unix.O_NOCTTY, unix.O_ASYNC, unix.O_CREAT, unix.O_CREAT | unix.O_TRUNC | unix.O_CLOEXEC, unix.O_PATH, 1 << 26, 1 << 30,
	}
	// Known difference: F_GETFL of a performed open does not show O_NOFOLLOW,
	// which means nothing once the file is open.
	for _, m := range modes {
		for _, x := range extra {
			for _, path := range []string{"s:{ok}", "s:{ws}", "s:/dev/null", "s:/dev/zero", "s:/proc/self/status"} {
				if (m != unix.O_RDONLY || x&unix.O_TRUNC != 0) && strings.HasPrefix(path, "s:/proc") {
					continue // the default profile takes it for a change
				}
				calls = append(calls, "flags "+strings.Join(line(unix.SYS_OPENAT, -100, path, m|x, 0o644), " "))
			}
			calls = append(calls, "flags stat "+strings.Join(line(unix.SYS_OPEN, "s:{ok}", m|x, 0o644), " "))
		}
	}
	calls = append(calls, lines([]string{"flags stat"}, line(unix.SYS_CREAT, "s:{ws}/created", 0o640))[1])
	equal(t, "P32", equality{}, calls)
}

// TestNoFollow: directories and links are told apart (P35).
func TestNoFollow(t *testing.T) {
	names := []string{"ok.txt", "sub/deep/note.txt", "todir/deep/note.txt", "todir", "tofile", "loop", "dangling", "../outside/secret.txt", "sub/../ok.txt", "escape"}
	prepare := func(t *testing.T, g *trial.Ground) {
		symlink("{outside}", "{ws}/escape")(t, g)
		oddNames(t, g)
	}
	t.Run("P35 os.Root", equality{prepare: prepare, argv: append([]string{"{ws}/opens", "root", "{ws}"}, names...)}.test)
}

// TestStreams: standard input, output and their ends (Y07).
func TestStreams(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20000) // more than a pipe holds
	for name, script := range map[string]string{
		"echo": "cat", "count": "wc -c", "both ways": "tee /dev/stderr", "no reader": "yes | head -n 2; echo $?",
		"broken pipe":  "(trap - PIPE; while :; do echo x; done; echo survived) | head -n 1; echo end",
		"closed stdin": "exec <&-; cat; echo $?", "null": "cat < /dev/null; echo $?", "no terminal": "tty; test -t 0; echo $?",
		"dev fd": "cat /dev/stdin | wc -c; echo out > /dev/stdout; echo err > /dev/stderr", "status": "exit 42", "signal": "kill -SEGV $$",
		"not found": "no-such-program", "traps": "trap 'echo got' TERM; kill -TERM $$; echo on",
		"background": "sleep 0.1 & wait; echo done", "here document": "cat <<E\nline\nE\n",
	} {
		t.Run("Y07 "+name, equality{argv: []string{"/bin/sh", "-c", script}, stdin: big}.test)
	}
	t.Run("Y07 statuses", func(t *testing.T) {
		g := trial.NewGround(t, false)
		for _, c := range []struct {
			argv []string
			want int
		}{
			{[]string{"/bin/true"}, 0}, {[]string{"{victim}", "exit", "status", "255"}, 255}, {[]string{"{victim}", "exit", "signal", "9"}, 137},
			{[]string{"{victim}", "exit", "signal", "15"}, 143}, {[]string{"/nowhere/at/all"}, 127}, {[]string{"no-such-program"}, 127},
			{[]string{"{ok}"}, 126}, {[]string{"{ws}"}, 126},
		} {
			if r := g.Supervised(trial.Options{NoEvents: true}, c.argv...); r.Status != c.want {
				t.Errorf("%v: status %d, want %d: %s", c.argv, r.Status, c.want, r.Text())
			}
		}
	})
}

// TestSignalsToNobody: a signal to a process that is gone, or never was, fails as it
// does without reeve: programs go by that errno.
func TestSignalsToNobody(t *testing.T) {
	trial.NeedProgram(t, "/usr/bin/python3")
	const script = `
import ctypes, errno, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    ctypes.set_errno(0)
    print(name, libc.syscall(*args), errno.errorcode.get(ctypes.get_errno()))
pid = os.fork()
if pid == 0: os._exit(0)
fd = os.pidfd_open(pid)
call("kill, zombie", 62, pid, 0)
os.waitpid(pid, 0)
call("kill", 62, pid, 15)
call("kill, no signal", 62, pid, 0)
call("tkill", 200, pid, 15)
call("tgkill", 234, pid, pid, 15)
call("pidfd_send_signal", 424, fd, 15, 0, 0)
call("pidfd_send_signal, no pidfd", 424, 77, 15, 0, 0)
call("kill, odd signal", 62, pid, 99)
call("kill, beyond", 62, 0x3fffffff, 15)
call("kill, a group", 62, -0x3fffffff, 15)
`
	equality{argv: []string{"/usr/bin/python3", "-c", script}}.test(t)
}

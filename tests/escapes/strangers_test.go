package escapes_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestStrangers: the magic links of a process outside the session lead nowhere,
// whatever is done through them, and the record says that reeve refused it and what
// it was about (P09, P34). The stranger is the command's parent: natively a shell of
// the same user, under reeve its init. PARENT stands for the parent's /proc entry.
func TestStrangers(t *testing.T) {
	at := func(path string) string { return "s:PARENT/root" + path }
	one := func(ops, path string) *trial.Denial { return &trial.Denial{Ops: strings.Split(ops, "|"), Path: path} }
	to := func(op, path string) *trial.Denial { return &trial.Denial{Ops: []string{op}, Target: path} }
	const dir, creat, handle = unix.O_DIRECTORY, unix.O_CREAT | unix.O_WRONLY, unix.O_PATH
	rows := []row{
		{name: "open", argv: readCall(unix.SYS_OPENAT, -100, at("{secret}"), 0), deny: one("open", "{secret}")},
		{name: "open what is allowed", argv: readCall(unix.SYS_OPEN, at("{ok}"), 0), deny: one("open", "{ok}")},
		{name: "by dot dot", argv: readCall(unix.SYS_OPENAT, -100, "s:/proc/self/../PID/root{secret}", 0), deny: one("open", "{secret}")},
		{name: "thread", argv: readCall(unix.SYS_OPENAT, -100, "s:PARENT/task/PID/root{secret}", 0), deny: one("open", "{secret}")},
		{name: "directory", argv: readCall(unix.SYS_OPENAT, -100, "s:PARENT/cwd", dir), deny: one("open", "")},
		{name: "program", argv: readCall(unix.SYS_OPENAT, -100, "s:PARENT/exe", 0), deny: one("open", "")},
		{name: "descriptor", argv: call(unix.SYS_OPENAT, -100, "s:PARENT/fd/0", 0), deny: one("open", "")},
		{name: "namespace", argv: call(unix.SYS_OPENAT, -100, "s:PARENT/ns/ipc", 0), deny: one("open", "")},
		{name: "handle", argv: call(unix.SYS_OPENAT, -100, at("{ok}"), handle), deny: one("open", "{ok}")},
		{name: "create", argv: call(unix.SYS_OPENAT, -100, at("{ws}/new"), creat, 0o644), deny: one("open|create", "{ws}/new")},
		{name: "create over link", argv: call(unix.SYS_OPENAT, -100, "s:PARENT/fd/0", creat, 0o644), native: `ret=`, deny: one("open|create", "")},
		{name: "mkdir", argv: call(unix.SYS_MKDIR, at("{ws}/d"), 0o755), deny: one("mkdir", "{ws}/d")},
		{name: "delete", argv: call(unix.SYS_UNLINK, at("{ok}")), deny: one("delete", "{ok}")},
		{name: "rename from", argv: call(unix.SYS_RENAME, at("{ok}"), "s:{ws}/x"), deny: one("rename", "{ok}")},
		{name: "rename to", argv: call(unix.SYS_RENAME, "s:{ok}", at("{ws}/x")), deny: to("rename", "{ws}/x")},
		{name: "link from", argv: call(unix.SYS_LINK, at("{ok}"), "s:{ws}/x"), deny: one("link", "{ok}")},
		{name: "link to", argv: call(unix.SYS_LINK, "s:{ok}", at("{ws}/x")), deny: to("link", "{ws}/x")},
		{name: "symlink to", argv: call(unix.SYS_SYMLINK, "s:{ok}", at("{ws}/x")), deny: to("symlink", "{ws}/x")},
		{name: "chmod", argv: call(unix.SYS_CHMOD, at("{ok}"), 0o600), deny: one("chmod", "{ok}")},
		{name: "truncate", argv: call(unix.SYS_TRUNCATE, at("{ok}"), 0), deny: one("truncate", "{ok}")},
		{name: "exec", argv: call(unix.SYS_EXECVE, at("{victim}"), 0, 0), native: "victim call", deny: one("exec", "{victim}")},
		{name: "exec of its program", argv: call(unix.SYS_EXECVE, "s:PARENT/exe", 0, 0), native: `^$`, deny: one("exec", "")},
		{name: "connect", prepare: listenInside, argv: []string{"send", "stream", "unix", "PARENT/root{ws}/in"}, deny: one("connect", "{ws}/in")},
		{name: "send", prepare: listenInside, argv: []string{"send", "sendto", "unix", "PARENT/root{ws}/gram"}, deny: one("send", "{ws}/gram")},
	}
	for i := range rows {
		// What the hooks judge nobody is told before: the kernel itself does not let
		// a task look into init, and the look-up never comes as far as to a hook.
		if trial.Engine() == "lsm" && strings.HasPrefix(rows[i].deny.Ops[0], "open") && rows[i].name != "handle" {
			rows[i].opt.NoEvents = true
		}
		rows[i].argv = ofParent(rows[i].argv)
	}
	// The interpreter of a script, which the kernel opens.
	rows = append(rows, row{name: "interpreter", native: "ran", deny: one("exec", "{ws}/s"), argv: []string{"/bin/sh", "-c",
		`printf '#!/proc/%d/root/bin/sh\necho ran\n' $PPID > s; chmod +x s; exec {victim} call 59 s:./s 0 0`}})
	for i := range rows {
		rows[i].id = "P09"
		rows[i].opt.Wrap = []string{"/bin/sh", "-c", `"$@"; exit $?`, "sh"}
		rows[i].after = leadsTo(rows[i].deny)
	}
	run(t, rows)
}

// leadsTo takes from a denial what it says of paths, and requires it in a way that
// reeve can fulfil where the kernel does not tell it where the stranger has its
// root, as it tells no ordinary user of reeve's init: then the link stands in front
// of it, by number.
func leadsTo(d *trial.Denial) func(*testing.T, *trial.Ground, *trial.Result, bool) {
	path, target := d.Path, d.Target
	d.Path, d.Target = "", ""
	return func(t *testing.T, g *trial.Ground, r *trial.Result, supervised bool) {
		for _, e := range trial.Denials(r.Events) {
			for want, got := range map[string]string{g.Expand(path): e.Object.Path, g.Expand(target): e.Target.Path} {
				named := strings.HasPrefix(got, "/proc/") && strings.HasSuffix(got, "/root"+want)
				if supervised && want != "" && got != want && (!named || g.UID() == 0 && !strings.HasPrefix(got, "/proc/1/")) {
					t.Errorf("denied is %q, want %q: %v", got, want, &e)
				}
			}
			if supervised && g.UID() == 0 && !strings.Contains(e.Reason, "magic link of process") {
				t.Errorf("reason is %q", e.Reason)
			}
		}
	}
}

// ofParent is the victim's command with its parent's /proc entry put in.
func ofParent(argv []string) []string {
	line := "exec {victim}"
	for _, w := range argv {
		w = strings.NewReplacer("PARENT", "/proc/$PPID", "PID", "$PPID").Replace(w)
		line += fmt.Sprintf(` "%s"`, w)
	}
	return []string{"/bin/sh", "-c", line}
}

// listenInside listens on two unix sockets in the workspace, where a session may
// connect to.
func listenInside(t *testing.T, g *trial.Ground) {
	l, err := net.Listen("unix", g.Workspace+"/in")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.ListenPacket("unixgram", g.Workspace+"/gram")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/in", "/gram"} {
		if err := os.Chmod(g.Workspace+name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { l.Close(); c.Close() })
}

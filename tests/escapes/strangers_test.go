package escapes_test

import (
	"debug/elf"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
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

// TestSupervisorLinks: what leads into reeve itself, beyond its init, is refused as
// what leads to any stranger (E11, P09). Natively a shell is the parent of a shell.
func TestSupervisorLinks(t *testing.T) {
	const grand = `/proc/$(sed -n 's/^PPid:.//p' /proc/$PPID/status)`
	var rows []row
	for name, c := range map[string]struct{ path, native string }{
		"root": {"root{secret}", "TOKEN="}, "cwd": {"cwd/.env", "TOKEN="}, "descriptor": {"fd/0", succeeded}, "program": {"exe", succeeded},
	} {
		line := fmt.Sprintf(`exec {victim} call cat 257 -100 "s:%s/%s" 0`, grand, c.path)
		r := row{id: "E11", name: name, argv: []string{"/bin/sh", "-c", line}, native: c.native, deny: &trial.Denial{Ops: []string{"open"}}}
		r.opt.Wrap = []string{"/bin/sh", "-c", `/bin/sh -c '"$@"; exit $?' sh "$@"; exit $?`, "sh"}
		r.opt.NoEvents = trial.Engine() == "lsm" // the kernel refuses what no hook sees
		rows = append(rows, r)
	}
	run(t, rows)
}

// TestMapFiles: nor are the files followed that a stranger has mapped, which only
// root may follow natively (P34). Init does not say what it has mapped, but where the
// first piece of a program stands can be read in its file.
func TestMapFiles(t *testing.T) {
	trial.NeedRoot(t)
	g := trial.NewGround(t, false)
	program, err := elf.Open(g.Reeve)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	first := program.Progs[0]
	for _, p := range program.Progs {
		if p.Type == elf.PT_LOAD {
			first = p
			break
		}
	}
	const page = 4095
	where := fmt.Sprintf("%x-%x", first.Vaddr&^page, (first.Vaddr+first.Filesz+page)&^page)
	script := `m=$(ls /proc/$PPID/map_files 2>/dev/null | head -n 1); exec {victim} call 257 -100 "s:/proc/$PPID/map_files/${m:-` + where + `}" 0`
	run(t, []row{{id: "P34", name: "map_files", root: true, argv: []string{"/bin/sh", "-c", script},
		opt:  trial.Options{Wrap: []string{"/bin/sh", "-c", `"$@"; exit $?`, "sh"}, NoEvents: trial.Engine() == "lsm"},
		many: true, deny: &trial.Denial{Ops: []string{"open"}, Path: "{reeve}"}}})
}

// TestObservedStrangers: under observe a task follows a stranger's links as far as
// the kernel lets it, and the record names where they lead (P09, P34).
func TestObservedStrangers(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		calls := func(g *trial.Ground) trial.Options {
			cmd := exec.Command("/bin/sleep", "60")
			cmd.Dir, cmd.SysProcAttr = g.Workspace, &syscall.SysProcAttr{Credential: g.Cred}
			in, err := os.Open(g.Workspace + "/.env")
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			cmd.Stdin = in
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			proc := "s:/proc/" + strconv.Itoa(cmd.Process.Pid)
			var text strings.Builder
			for _, path := range []string{"/root" + g.Workspace + "/ok.txt", "/cwd/ok.txt", "/cwd", "/exe", "/fd/0", "/root" + g.Workspace + "/none"} {
				fmt.Fprintln(&text, strings.Join(line(unix.SYS_OPENAT, -100, proc+path, 0), " "))
			}
			return trial.Options{Stdin: strings.NewReader(text.String()), Profile: "observe", KeepRunning: true}
		}
		g := trial.NewGround(t, nobody)
		native := g.Native(calls(g), "{victim}", "batch")
		// A descriptor's number is not the same where others are closed before.
		errnos := func(r *trial.Result) string {
			return strings.Join(regexp.MustCompile(`errno=\d+`).FindAllString(strings.Join(answers(r.Stdout), "\n"), -1), " ")
		}
		if errnos(native) != "errno=0 errno=0 errno=0 errno=0 errno=0 errno=2" {
			t.Fatalf("control: %s", native.Text())
		}
		r := g.Supervised(calls(g), "{victim}", "batch")
		if got := errnos(r); got != errnos(native) {
			t.Errorf("got %s, natively %s", r.Text(), native.Text())
		}
		named := map[string]int{}
		for _, e := range r.Events {
			if e.Action != "allow" && e.Action != "" {
				t.Errorf("not allowed: %v", &e)
			}
			if strings.HasPrefix(e.Object.Raw, "/proc/") || trial.Engine() == "lsm" && e.Op == "open" { // a hook knows no name but the file's

				named[e.Object.Path]++
			}
		}
		for path, n := range map[string]int{g.Workspace + "/ok.txt": 2, g.Workspace: 1, g.Workspace + "/.env": 1} {
			if named[path] < n {
				t.Errorf("%s is named %d times, want %d at least: %v", path, named[path], n, named)
			}
		}
	})
}

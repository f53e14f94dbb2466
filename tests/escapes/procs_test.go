package escapes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestDaemon: what leaves its parents is still of the session (K01).
func TestDaemon(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		c := trial.NewGround(t, nobody)
		c.Native(trial.Options{}, "{victim}", "daemon", "{ws}/notes", "{secret}", "50", "0")
		if !waitFor(t, 5*time.Second, func() bool { return strings.Contains(read(c, "ws/notes"), "secret=0") }) {
			t.Fatalf("control: the daemon did not outlive its parent: %q", read(c, "ws/notes"))
		}
		g := trial.NewGround(t, nobody)
		r := g.Supervised(trial.Options{}, "{victim}", "daemon", "{ws}/notes", "{secret}", "50", "600")
		if !strings.Contains(read(g, "ws/notes"), "secret=-1 errno=13") {
			t.Errorf("the daemon noted %q: %s", read(g, "ws/notes"), r.Text())
		}
		trial.OneDenial(t, r.Events, trial.Denial{Ops: []string{"open"}, Path: g.Expand("{secret}")})

		g = trial.NewGround(t, nobody)
		g.Supervised(trial.Options{}, "{victim}", "daemon", "{ws}/notes", "{secret}", "1500", "0")
		time.Sleep(2 * time.Second)
		if notes := read(g, "ws/notes"); strings.Contains(notes, "secret") {
			t.Errorf("the daemon outlived the session: %q", notes)
		}
	})
}

func read(g *trial.Ground, name string) string {
	data, err := os.ReadFile(filepath.Join(g.Base, name))
	if err != nil {
		return ""
	}
	return string(data)
}

func waitFor(t *testing.T, limit time.Duration, done func() bool) bool {
	t.Helper()
	for end := time.Now().Add(trial.Patience(limit)); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return done()
}

// TestSupervisorSignals: nobody below signals the supervisor (K07). The parent
// of the victim is reeve's first process; of that one the parent is reeve itself.
func TestSupervisorSignals(t *testing.T) {
	// Signals to threads are left to Landlock's scope where it holds, which tells
	// nobody: the answer is EPERM and the stream has no record of it.
	// Natively a shell of the same user is the parent, and another its parent: they
	// end by the signal, and say so by the status.
	o := trial.Options{Wrap: []string{"/bin/sh", "-c", `/bin/sh -c '"$@"; exit $?' sh "$@"; echo shell $?`, "sh"}}
	const no = `ret=-1 errno=1\b`
	var rows []row
	for _, c := range []struct {
		name, native string
		nr           int
		words        []any
	}{
		{"kill nothing", succeeded, unix.SYS_KILL, []any{"ppid", 0}},
		{"kill", succeeded, unix.SYS_KILL, []any{"ppid", int(unix.SIGCONT)}},
		{"kill term", "shell 143", unix.SYS_KILL, []any{"ppid", int(unix.SIGTERM)}},
		{"kill kill", "shell 137", unix.SYS_KILL, []any{"ppid", int(unix.SIGKILL)}},
		{"tgkill", succeeded, unix.SYS_TGKILL, []any{"ppid", "ppid", int(unix.SIGCONT)}},
		{"tgkill term", "shell 143", unix.SYS_TGKILL, []any{"ppid", "ppid", int(unix.SIGTERM)}},
		{"tkill", succeeded, unix.SYS_TKILL, []any{"ppid", int(unix.SIGCONT)}},
		{"tkill kill", "shell 137", unix.SYS_TKILL, []any{"ppid", int(unix.SIGKILL)}},
		{"high bits", succeeded, unix.SYS_KILL, []any{"ppid", "0x100000012"}},
	} {
		r := row{id: "K07", name: c.name, opt: o, argv: call(c.nr, c.words...), native: c.native, want: no, after: tookNone}
		// The scope is Landlock's since ABI 6.
		if c.nr == unix.SYS_KILL || !trial.KernelSince(6, 12) {
			r.deny = &trial.Denial{Ops: []string{"signal"}, Errno: "EPERM"}
		}
		rows = append(rows, r)
	}
	run(t, rows)
}

// tookNone requires that reeve ended by the victim's failure, and not by a signal.
func tookNone(t *testing.T, _ *trial.Ground, r *trial.Result, supervised bool) {
	if supervised && !strings.HasSuffix(r.Stdout, "shell 1\n") {
		t.Errorf("reeve did not end by itself: %s", r.Text())
	}
}

// TestPidfdSignals: nor by a descriptor of the process, to its init or to reeve
// itself, whose number the record of the session's own start does not tell: it is in
// the status of init (K07).
func TestPidfdSignals(t *testing.T) {
	o := trial.Options{Wrap: []string{"/bin/sh", "-c", `/bin/sh -c '"$@"; exit $?' sh "$@"; echo shell $?`, "sh"}}
	const grand = `$(sed -n 's/^PPid:.//p' /proc/$PPID/status)`
	var rows []row
	for _, c := range []struct {
		name, whom, native string
		sig                unix.Signal
	}{
		{"init, nothing", "$PPID", `424 last 0 0 0: ret=0`, 0},
		{"init, term", "$PPID", "shell 143", unix.SIGTERM},
		{"init, kill", "$PPID", "shell 137", unix.SIGKILL},
		{"init, stop", "$PPID", `424 last 18 0 0: ret=0`, unix.SIGCONT},
		{"reeve, nothing", grand, `424 last 0 0 0: ret=0`, 0},
		{"reeve, cont", grand, `424 last 18 0 0: ret=0`, unix.SIGCONT},
	} {
		line := fmt.Sprintf(`printf 'keep 434 %%d 0\n424 last %d 0 0\n' "%s" | {victim} batch`, c.sig, c.whom)
		rows = append(rows, row{
			id: "K07", name: c.name, opt: o, argv: []string{"/bin/sh", "-c", line}, native: c.native,
			want: `(?s)keep 434 \d+ 0: ret=[0-9]+.*424 last \d+ 0 0: ret=-1 errno=1\b`,
			deny: &trial.Denial{Ops: []string{"signal"}, Syscalls: []string{"pidfd_send_signal"}, Errno: "EPERM"},
		})
	}
	run(t, rows)
	// Killing reeve itself by each of the ways: its own number is an outsider's here.
	tiers(t, false, func(t *testing.T, nobody bool) {
		for _, nr := range []int{unix.SYS_KILL, unix.SYS_TKILL} {
			g := trial.NewGround(t, nobody)
			line := fmt.Sprintf(`{victim} call %d "%s" 15`, nr, grand)
			r := g.Supervised(trial.Options{}, "/bin/sh", "-c", line)
			if r.Status != 1 || !strings.Contains(r.Stdout, "ret=-1 errno=1\n") {
				t.Errorf("call %d: status %d: %s", nr, r.Status, r.Text())
			}
		}
	})
}

// TestSupervisorDies: kill -9 of reeve ends the tree, keeps the secret, and
// leaves a stream that can be read (K17).
func TestSupervisorDies(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		cmd := start(t, g, g.Command(trial.Options{}, "{victim}", "beat", "{ws}/notes", "{secret}"))
		if !waitFor(t, 10*time.Second, func() bool { return strings.Count(read(g, "ws/notes"), "\n") > 30 }) {
			t.Fatalf("control: nothing beats: %q", read(g, "ws/notes"))
		}
		// In an emulated machine the bus may need longer than that to come up.
		if trial.Emulated() && !waitFor(t, 30*time.Second, func() bool { return len(secretDenials(g)) > 0 }) {
			t.Fatal("no record of the running session is stored")
		}
		if len(g.Processes()) < 3 {
			t.Fatalf("control: %d processes beat, want 3", len(g.Processes()))
		}
		if err := syscall.Kill(cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if !waitFor(t, time.Second, func() bool { return len(g.Processes()) == 0 }) {
			t.Errorf("a second after the kill these live: %v", g.Processes())
		}
		if err := cmd.Wait(); trial.ExitStatus(err) == 0 {
			t.Error("status is 0")
		}
		notes := read(g, "ws/notes")
		if strings.Contains(notes, "LEAKED") || strings.Contains(notes, "empty") {
			t.Errorf("the secret was opened: %s", notes)
		}
		// The next start stores what the killed session left.
		if r := g.Supervised(trial.Options{}, "/bin/true"); r.Status != 0 {
			t.Fatalf("start after the kill: %s", r.Text())
		}
		if sessions := secretDenials(g); len(sessions) != 1 {
			t.Errorf("denials of the killed session in the store: %v, want some of one session", sessions)
		}
	})
}

// secretDenials counts the denials of the secret that are stored, by session.
func secretDenials(g *trial.Ground) map[string]int {
	sessions := map[string]int{}
	for _, e := range g.AllEvents() {
		if e.Action == "deny" && e.Object.Path == g.Expand("{secret}") {
			sessions[e.Session]++
		}
	}
	return sessions
}

func start(t *testing.T, g *trial.Ground, argv []string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = g.Workspace, g.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: g.Cred}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestSupervisorMemory: nor does it read, write or trace it, or take its
// descriptors (K08).
func TestSupervisorMemory(t *testing.T) {
	ptrace := &trial.Denial{Ops: []string{"ptrace"}, Errno: "*"}
	const no = `ret=-1 errno=(1|3|13)\b`
	run(t, []row{
		{id: "K08", name: "process_vm_readv", root: true, argv: []string{"vm", "read", "ppid"}, native: `read: ret=\d`, want: no, deny: ptrace},
		{id: "K08", name: "process_vm_writev", argv: []string{"vm", "write", "ppid"}, native: `write: ret=0`, want: no, deny: ptrace},
		{id: "K08", name: "mem file", root: true, argv: []string{"mem", "parent"}, want: no, deny: &trial.Denial{Ops: []string{"open"}}},
	})
	tiers(t, false, func(t *testing.T, nobody bool) {
		const attach, seize, traceme = 16, 0x4206, 0
		for name, nr := range map[string]int{"attach": attach, "seize": seize} {
			g := trial.NewGround(t, nobody)
			r := g.Supervised(trial.Options{}, append([]string{"{victim}"}, call(unix.SYS_PTRACE, nr, "ppid", 0, 0)...)...)
			if !strings.Contains(r.Stdout, "ret=-1") {
				t.Errorf("%s: %s", name, r.Text())
			}
			trial.OneDenial(t, r.Events, *ptrace)
		}
		g := trial.NewGround(t, nobody)
		take := strings.NewReader("keep 434 ppid 0\n438 last 3 0\n")
		control := trial.NewGround(t, false).Native(trial.Options{Stdin: strings.NewReader("keep 434 self 0\n438 last 1 0\n")}, "{victim}", "batch")
		if _, got, ok := strings.Cut(control.Stdout, "438 last 1 0: ret="); !ok || strings.HasPrefix(got, "-") {
			t.Fatalf("control: pidfd_getfd: %s", control.Text())
		}
		r := g.Supervised(trial.Options{Stdin: take}, "{victim}", "batch")
		if !strings.Contains(r.Stdout, "438 last 3 0: ret=-1") {
			t.Errorf("pidfd_getfd: %s", r.Text())
		}
		if len(trial.Denials(r.Events)) == 0 {
			t.Error("pidfd_getfd: no denial in the stream")
		}
	})
}

// TestDescriptors: the listener is not among the session's descriptors (K09).
func TestDescriptors(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r := g.Supervised(trial.Options{}, "{victim}", "fds")
		if r.Stdout != "fd 0 standard\nfd 1 standard\nfd 2 standard\n" {
			t.Errorf("descriptors: %s", r.Text())
		}
	})
}

// TestPreemption: a Go program whose threads are signalled all the time goes on
// (K12).
func TestPreemption(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		n := trial.Attempts(20_000)
		r := g.Supervised(trial.Options{Timeout: 2 * time.Minute}, "{ws}/opens", "loop", n, "{ok}")
		if !strings.Contains(r.Stdout, "opened="+n+" failed=0") {
			t.Errorf("%s", r.Text())
		}
	})
}

// TestStorm: tasks that are stopped, continued, killed and replaced while they
// wait; each goes on with its own verdict, and the loop lives (K13, K22).
func TestStorm(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		o := trial.Options{Timeout: 2 * time.Minute}
		argv := []string{"{victim}", "storm", "8", trial.Attempts(3000), "{ok}", "{secret}"}
		c := trial.NewGround(t, nobody)
		if r := c.Native(o, argv...); !strings.Contains(r.Stdout, "good=1 refused=0") || strings.Contains(r.Stdout, "reached=0") {
			t.Fatalf("control: %s", r.Text())
		}
		g := trial.NewGround(t, nobody)
		r := g.Supervised(o, argv...)
		if !strings.Contains(r.Stdout, "good=1 refused=0 reached=0") {
			t.Errorf("verdicts went astray: %s", r.Text())
		}
	})
}

// TestReusedPids: in a pid namespace of 400 numbers a killed task's number is
// soon a stranger's; no verdict goes to it (K05).
func TestReusedPids(t *testing.T) {
	trial.NeedRoot(t)
	if trial.SmallPids() == nil {
		trial.Skip(t, "pidns", "pid_max is not per namespace here (Linux 6.14)")
	}
	// The witness does not see into another pid namespace.
	o := trial.Options{Timeout: 3 * time.Minute, Wrap: trial.SmallPids(), Flags: []string{"--allow-degraded"}, KeepRunning: true}
	argv := []string{"{victim}", "storm", "16", trial.Attempts(6000), "{ok}", "{secret}"}
	c := trial.NewGround(t, false)
	if r := c.Native(o, argv...); !strings.Contains(r.Stdout, "good=1 refused=0") {
		t.Fatalf("control: %s", r.Text())
	}
	g := trial.NewGround(t, false)
	r := g.Supervised(o, argv...)
	if !strings.Contains(r.Stdout, "good=1 refused=0 reached=0") {
		t.Errorf("verdicts went astray: %s", r.Text())
	}
}

// TestUndumpable: a task that hides its memory works on and is judged (K19). From an
// ordinary user's reeve it cannot hide: it is told that it did, and the record says so.
func TestUndumpable(t *testing.T) {
	run(t, []row{
		{id: "K19", name: "secret", argv: []string{"dumpable", "{secret}"}, native: `open: ret=0`, want: `open: ret=-1 errno=`,
			deny: &trial.Denial{Ops: []string{"open"}, Errno: "*"}},
	})
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r := g.Supervised(trial.Options{}, "{victim}", "dumpable", "{ok}")
		told := slices.ContainsFunc(r.Events, func(e trial.Event) bool { return e.Object.Path == "prctl" && strings.Contains(e.Reason, "not done") })
		if user := nobody || os.Geteuid() != 0; !strings.Contains(r.Stdout, "ordinary") || told != user {
			t.Errorf("as a user %v, on record %v: %s", user, told, r.Text())
		}
	})
}

// TestSpawning: parents that sleep in the kernel until their child has run (K23).
func TestSpawning(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		n := trial.Attempts(300)
		r := g.Supervised(trial.Options{}, "{victim}", "spawn", n, "{victim}")
		if !strings.Contains(r.Stdout, "ran="+n+" of "+n) {
			t.Errorf("%s", r.Text())
		}
	})
}

// TestThreads: many at once, as natively (K24).
func TestThreads(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		o := trial.Options{}
		want := trial.NewGround(t, nobody).Native(o, "{victim}", "threads", "512", "{ok}")
		for _, profile := range []string{"", "observe"} {
			o.Profile = profile
			got := trial.NewGround(t, nobody).Supervised(o, "{victim}", "threads", "512", "{ok}")
			if got.Stdout != want.Stdout {
				t.Errorf("profile %q: %s, natively %s", profile, got.Text(), want.Text())
			}
		}
	})
	// clone3 hides its flags in memory: no such call, so that the library falls
	// back to clone, whose flags the filter sees.
	g := trial.NewGround(t, false)
	if r := g.Supervised(trial.Options{}, append([]string{"{victim}"}, call(435, "z:88", 88)...)...); !strings.Contains(r.Stdout, "ret=-1 errno=38") {
		t.Errorf("clone3: %s", r.Text())
	}
}

// TestKillAll: kill(-1) by the tree ends the tree and not us (K07). In a pid
// namespace of its own, so that a failure ends nobody else.
func TestKillAll(t *testing.T) {
	trial.NeedRoot(t)
	if trial.SmallPids() == nil {
		trial.Skip(t, "pidns", "no pid namespace to be had")
	}
	for _, sig := range []int{int(unix.SIGKILL), int(unix.SIGSTOP), int(unix.SIGTERM)} {
		g := trial.NewGround(t, false)
		o := trial.Options{Wrap: trial.SmallPids(), Flags: []string{"--allow-degraded"}, KeepRunning: true, Timeout: 20 * time.Second, NoEvents: true}
		r := g.Supervised(o, append([]string{"{victim}"}, call(unix.SYS_KILL, -1, sig)...)...)
		if !strings.Contains(r.Stdout, "call 62: ret=") {
			t.Errorf("signal %s: status %d: %s", strconv.Itoa(sig), r.Status, r.Text())
		}
		if r.Status > 1 {
			t.Errorf("signal %d: status %d, reeve did not end by itself: %s", sig, r.Status, r.Text())
		}
	}
}

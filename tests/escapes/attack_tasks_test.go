package escapes_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// limitsHeld requires that none of the victim's four calls came through.
const limitsHeld = `core: ret=-1 errno=1\s+nofile: ret=-1 errno=1\s+affinity: ret=-1 errno=1\s+priority: ret=-1 errno=1\b`

// limitsPass is the same, come through.
const limitsPass = `core: ret=0 errno=0\s+nofile: ret=0 errno=0\s+affinity: ret=0 errno=0\s+priority: ret=0 errno=0`

// bystander starts a process of the ground's user beyond any session.
func bystander(t *testing.T, g *trial.Ground) int {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: g.Cred}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// TestAttackLimits: limits and scheduling are the session's to set for its own
// tasks alone (E6).
func TestAttackLimits(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		t.Run("E6/another process", func(t *testing.T) {
			c, g := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
			control := c.Native(trial.Options{}, "{victim}", "limits", strconv.Itoa(bystander(t, c)))
			match(t, "control", limitsPass, control)
			pid := bystander(t, g)
			r := g.Supervised(trial.Options{}, "{victim}", "limits", strconv.Itoa(pid))
			match(t, "reeve", limitsHeld, r)
			if n := len(trial.Denials(r.Events)); n != 4 {
				t.Errorf("%d denials, want 4", n)
			}
			trial.SomeDenial(t, r.Events, trial.Denial{Ops: []string{"sched"}, Errno: "EPERM"})
			limits, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
			if err != nil || matches(`open files +7 `, string(limits)) {
				t.Errorf("the process's limits: %s, %v", limits, err)
			}
		})
	})
	// Natively the parent is a shell, under reeve its first process.
	shell := trial.Options{Wrap: []string{"/bin/sh", "-c", `"$@"; exit $?`, "sh"}}
	run(t, []row{
		{id: "E6", name: "first process", argv: []string{"limits", "parent"}, opt: shell, native: limitsPass, want: limitsHeld,
			deny: &trial.Denial{Ops: []string{"sched"}, Errno: "EPERM"}, many: true},
		{id: "E6", name: "own child", argv: []string{"limits", "child"}, native: limitsPass, want: limitsPass},
		{id: "E6", name: "self", argv: []string{"limits", "self"}, native: limitsPass, want: limitsPass},
	})
}

func match(t *testing.T, who, pattern string, r *trial.Result) {
	t.Helper()
	if !matches(pattern, r.Text()) {
		t.Errorf("%s: output does not match %q (status %d): %s", who, pattern, r.Status, r.Text())
	}
}

// TestAttackSharedMemory: segments of others have neither path nor descriptor,
// and are not there; one's own are (E7).
func TestAttackSharedMemory(t *testing.T) {
	var words []string // the argument of each run, once its segment is made
	segment := func(t *testing.T, g *trial.Ground) {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
		if err != nil {
			trial.Skip(t, "shm", err.Error())
		}
		t.Cleanup(func() { unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
		m, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		copy(m, "TOKEN="+g.Token)
		if err := unix.SysvShmDetach(m); err != nil {
			t.Fatal(err)
		}
		words = []string{"{victim}", "shm", strconv.Itoa(id)}
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		t.Run("E7/another's", func(t *testing.T) {
			c, g := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
			segment(t, c)
			match(t, "control", `content: TOKEN=`+c.Token, c.Native(trial.Options{}, words...))
			segment(t, g)
			r := g.Supervised(trial.Options{}, words...)
			match(t, "reeve", `shmat: ret=-1 errno=(1|13|22|43)\b`, r)
			g.KeptSecret(r)
		})
	})
	const key, fresh = 0x7265657, unix.IPC_CREAT | unix.IPC_EXCL | 0o600
	keyed := func() (int, bool) {
		id, err := unix.SysvShmGet(key, 0, 0)
		return id, err == nil
	}
	remove := func() {
		if id, there := keyed(); there {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}
	t.Cleanup(remove)
	run(t, []row{
		{id: "E7", name: "own", argv: []string{"shm", "own"}, native: `content: own memory`, want: `content: own memory`},
		// As PostgreSQL does. What a session leaves goes with it.
		{id: "E7", name: "own, by a key", argv: call(unix.SYS_SHMGET, key, 4096, fresh), want: succeeded, after: func(t *testing.T, _ *trial.Ground, _ *trial.Result, supervised bool) {
			if _, there := keyed(); there == supervised {
				t.Errorf("after the command it is there: %v, supervised: %v", there, supervised)
			}
			remove()
		}},
	})
	tiers(t, false, func(t *testing.T, nobody bool) {
		if !nobody {
			return // root's sessions have a namespace of their own
		}
		t.Run("E7/another's, by its key", func(t *testing.T) {
			defer remove()
			if _, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666); err != nil {
				t.Fatal(err)
			}
			c, g := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
			argv := row{argv: call(unix.SYS_SHMGET, key, 4096, unix.IPC_CREAT|0o600)}.command()
			match(t, "control", succeeded, c.Native(trial.Options{}, argv...))
			r := g.Supervised(trial.Options{}, argv...)
			match(t, "reeve", refused, r)
			trial.OneDenial(t, r.Events, trial.Denial{Ops: []string{"ipc"}, Errno: "EACCES"})
		})
	})
}

// TestAttackTerminals: a terminal is opened by its session alone (E8).
func TestAttackTerminals(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		trial.Skip(t, "pty", err.Error())
	}
	t.Cleanup(func() { master.Close(); slave.Close() })
	fd := int(master.Fd()) // which makes it wait
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		buf := make([]byte, 256)
		n, _ := unix.Read(fd, buf)
		return string(buf[:max(n, 0)])
	}
	run(t, []row{
		{id: "E8", name: "another", argv: []string{"terminal", slave.Name()}, native: `inject: ret=10`, want: `terminal: ret=-1 errno=(1|13)`,
			deny: &trial.Denial{Ops: []string{"open"}, Path: slave.Name()},
			prepare: func(t *testing.T, g *trial.Ground) {
				if err := slave.Chown(g.UID(), g.GID()); err != nil {
					t.Fatal(err)
				}
			},
			after: func(t *testing.T, _ *trial.Ground, _ *trial.Result, supervised bool) {
				if text := shown(); strings.Contains(text, "injected") == supervised {
					t.Errorf("the terminal shows %q", text)
				}
			}},
		{id: "E8", name: "made", argv: []string{"pty"}, native: `passed: word`, want: `passed: word`},
	})
	for _, mode := range []string{"native", "reeve"} {
		t.Run("E8/own/"+mode, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				argv := []string{g.Expand("{victim}"), "reopen-terminal"}
				if mode == "reeve" {
					argv = g.Command(trial.Options{}, argv...)
				}
				s := open(t, g, argv...)
				s.expect("by name: ret=3")
				s.expect("by descriptor: ret=4")
				s.expect("as tty: ret=5")
				s.wait()
			})
		})
	}
}

// TestAttackThreadUser: a program that a thread became runs as the thread's
// user, not as the one that its number had before (I5).
func TestAttackThreadUser(t *testing.T) {
	trial.NeedRoot(t)
	closed := func(t *testing.T, g *trial.Ground) {
		if err := os.WriteFile(g.Workspace+"/closed", []byte("for root\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, []row{
		{id: "I5", name: "root", root: true, prepare: closed, argv: []string{"thread-uid", "0", "{victim}", "loop", "open", "50", "{ws}/closed"},
			native: `failed=0\b`, want: `failed=0\b`},
		{id: "I5", name: "another user", root: true, prepare: closed, argv: []string{"thread-uid", "65534", "{victim}", "loop", "open", "50", "{ws}/closed"},
			native: `failed=50\b`, want: `failed=50\b|setres[ug]id: ret=-1 errno=1\b`, many: true},
	})
}

// TestAttackLateName: a program whose name is not there while it is judged is
// not run unjudged (I2).
func TestAttackLateName(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		argv := []string{"{victim}", "exec-appear", attempts, "{ws}/notes", "{ws}/p2/x/tool"}
		o := trial.Options{Policy: true, Timeout: time.Minute}
		c := trial.NewGround(t, nobody)
		trial.Won(t, "control: the name is there, and not", trial.ControlAttempts(2500), func(n string) (bool, *trial.Result) {
			r := c.Native(o, raced(argv, n)...)
			return matches(`reached=[1-9]\d* absent=[1-9]`, r.Stdout), r
		})
		g := trial.NewGround(t, nobody)
		r := g.Supervised(o, raced(argv, trial.Attempts(2500))...)
		t.Logf("%s%v", r.Stdout, r.Took.Round(time.Millisecond))
		if !matches(`attempts=[1-9]\d* opened=0 reached=0`, r.Stdout) {
			t.Errorf("status %d: %s", r.Status, r.Text())
		}
		trial.SomeDenial(t, r.Events, trial.Denial{Ops: []string{"exec"}, Errno: "*"})
	})
	const fault = `ret=-1 errno=14\b`
	var rows []row
	for name, argv := range map[string][]string{
		"null": call(unix.SYS_EXECVE, 0, 0, 0), "unmapped": call(unix.SYS_EXECVE, 16, 0, 0),
		"kernel": call(unix.SYS_EXECVE, "0xffff888000000000", 0, 0), "unended": call(unix.SYS_EXECVE, "u:{victim}", 0, 0),
		"arguments": call(unix.SYS_EXECVE, "s:{victim}", 16, 0), "environment": call(unix.SYS_EXECVE, "s:{victim}", "z:8", 16),
	} {
		rows = append(rows, row{id: "I2", name: name, argv: argv, native: fault, want: fault})
	}
	run(t, rows)
}

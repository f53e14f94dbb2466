package escapes_test

import (
	"os"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// Sessions inside a session: what the inner one may not, nothing of it may, and
// what the outer one may not, no inner one may.

// inside runs a shell script that finds reeve in $R, and returns the events of all
// sessions that it made.
func inside(t *testing.T, g *trial.Ground, o trial.Options, script string) (*trial.Result, []trial.Event) {
	t.Helper()
	o.NoEvents = true
	own := g.Workspace + "/reeve"
	if !exists(own) {
		if err := os.Link(g.Reeve, own); err != nil {
			t.Fatal(err)
		}
	}
	o.Env = append(o.Env, "R="+own)
	r := g.Supervised(o, "bash", "-c", script)
	list := g.Verb("sessions", "--json")
	var events []trial.Event
	for line := range strings.SplitSeq(strings.TrimSpace(list.Stdout), "\n") {
		_, id, _ := strings.Cut(line, `"session":"`)
		id, _, _ = strings.Cut(id, `"`)
		events = append(events, g.Events("--session", id)...)
		if v := g.Verb("verify", id); v.Status != 0 {
			t.Errorf("verify %s: %s", id, v.Text())
		}
		g.Redecided(id)
	}
	return r, events
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestNestedNarrows(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r, events := inside(t, g, trial.Options{}, `
			$R run -q --profile read-only -- sh -c 'cat ok.txt; echo x > inner; exit 3'; echo "status $?"; echo x > outer`)
		if r.Status != 0 || !strings.Contains(r.Stdout, "ordinary\nstatus 3\n") {
			t.Errorf("status %d: %s", r.Status, r.Text())
		}
		if exists(g.Workspace+"/inner") || !exists(g.Workspace+"/outer") {
			t.Error("the inner session wrote, or the outer one could not")
		}
		trial.OneDenial(t, events, trial.Denial{Ops: []string{"create"}, Path: g.Workspace + "/inner"})
		sessions, parents, starts := map[string]bool{}, map[string]bool{}, map[string]string{}
		for _, e := range events {
			sessions[e.Session] = true
			if e.Op == "start" {
				_, parent, found := strings.Cut(e.Detail, `"parent":"`)
				if parent, _, _ = strings.Cut(parent, `"`); found {
					parents[parent] = true
				}
				starts[e.Session] = e.Detail
			}
			if e.Op == "open" && strings.HasSuffix(e.Object.Path, "/ok.txt") && strings.Contains(starts[e.Session], `"profile":"workspace-edit-no-net"`) {
				t.Error("an event of the inner session is in the outer one's record")
			}
		}
		if len(sessions) != 2 || len(parents) != 1 || !sessions[firstKey(parents)] {
			t.Errorf("sessions %v, parents %v", sessions, parents)
		}
	})
}

func firstKey(m map[string]bool) string {
	for k := range m {
		return k
	}
	return ""
}

// TestNestedCannotWiden: whatever the inner policy says, the outer one holds.
func TestNestedCannotWiden(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		wide := "[permissions.wide.filesystem]\n\"/\" = \"write\"\n[permissions.wide.secrets]\n\"/\" = \"write\"\n[permissions.wide.protected]\n\"/\" = \"write\"\n" +
			"[permissions.wide.network]\nenabled = true\nmode = \"full\"\nbind = \"any\"\n[permissions.wide.kernel]\nallow = [\"*\"]\n"
		r, events := inside(t, g, trial.Options{}, `
			printf '%s' '`+wide+`' > wide.toml
			for p in "--profile observe" "--policy wide.toml --profile wide"; do
				$R run -q $p -- sh -c 'cat .env; cat $HOME/.ssh/id_rsa; echo x > .git/hooks/new; cat ../outside/secret.txt; unshare -r true; echo done'
			done; ls .git/hooks`)
		g.KeptSecret(r)
		if r.Status != 0 || strings.Count(r.Stdout, "done") != 2 || exists(g.Workspace+"/.git/hooks/new") {
			t.Errorf("status %d: %s", r.Status, r.Text())
		}
		trial.SomeDenial(t, events, trial.Denial{Ops: []string{"open"}, Path: g.Workspace + "/.env"})
	})
}

// tried waits until a process that nobody waits for has had its try.
const tried = `for i in $(seq 300); do [ -e $TMPDIR/tried ] && break; sleep 0.1; done`

// patient leaves a process that has its try when it is told, and says that it is
// up, which up waits for.
const (
	patient = `setsid sh -c "until [ -e $TMPDIR/go ]; do sleep 0.05; done; echo x > inner; : > $TMPDIR/tried" & : > $TMPDIR/up; sleep 60`
	up      = `for i in $(seq 300); do [ -e $TMPDIR/up ] && break; sleep 0.1; done`
)

// TestNestedHoldsDescendants: what the inner session starts stays in it, whoever
// its parent becomes, and with the reeve inside killed.
func TestNestedHoldsDescendants(t *testing.T) {
	for name, script := range map[string]string{
		"daemon": `$R run -q --linger --profile read-only -- sh -c 'setsid sh -c "(sleep 0.2; echo x > inner; : > $TMPDIR/tried) &" & exit 0'; ` + tried,
		"killed": `$R run -q --profile read-only -- sh -c '` + patient + `' & p=$!; ` + up + `; kill -9 $p; : > $TMPDIR/go; ` + tried,
		"nested": `$R run -q --profile read-only -- $R run -q --profile workspace-edit-no-net -- $R run -q --profile observe -- sh -c 'echo x > inner'`,
		"no environment": `$R run -q --profile read-only -- env -i $R run -q --profile observe -- /bin/sh -c 'echo x > inner'
			env -i $R run -q --profile read-only -- /bin/sh -c 'echo x > inner'`,
		"mark": `$R run -q --profile read-only -- bash -c 'ulimit -Hx unlimited; ulimit -Sx 5; ulimit -x 7; echo x > inner'`,
		"subreaper outside": `/usr/bin/python3 -c 'import ctypes, os, subprocess, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
tmp = os.environ["TMPDIR"]
def wait(name):
    for _ in range(300):
        if os.path.exists(tmp + name): return
        time.sleep(0.1)
p = subprocess.Popen([os.environ["R"], "run", "-q", "--profile", "read-only", "--", "sh", "-c", """` + patient + `"""])
wait("/up")
p.kill(); p.wait()
open(tmp + "/go", "w").close()
wait("/tried")'`,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "killed" && trial.Sampled() {
				trial.Skip(t, "long", "of these one in an emulated machine (set REEVE_LONG=1 for all)")
			}
			if strings.Contains(script, "python3") {
				trial.NeedProgram(t, "python3")
			}
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				r, events := inside(t, g, trial.Options{}, script+"\necho x > outer")
				if exists(g.Workspace+"/inner") || !exists(g.Workspace+"/outer") {
					t.Errorf("inner %v, outer %v: %s", exists(g.Workspace+"/inner"), exists(g.Workspace+"/outer"), r.Text())
				}
				trial.SomeDenial(t, events, trial.Denial{Ops: []string{"create"}, Path: g.Workspace + "/inner"})
			})
		})
	}
}

// TestNestedLeavesOthers: an inner session reaches no task of the outer one.
func TestNestedLeavesOthers(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r, _ := inside(t, g, trial.Options{}, `
			sleep 30 & p=$!
			$R run -q --profile workspace-edit-no-net -- sh -c "kill -9 $p; cat /proc/$p/environ >/dev/null || echo closed"
			kill -0 $p && echo alive; kill -9 $p
			$R run -q --profile read-only -- sh -c 'kill -9 $PPID && echo killed; exit 4'; echo $?`)
		if !strings.Contains(r.Stdout, "closed\nalive\n4\n") {
			t.Errorf("the outer session's task was reached: %s", r.Text())
		}
	})
}

// TestNestedEndsWhatItLeft: like any session, the inner one ends what its command
// left running.
func TestNestedEndsWhatItLeft(t *testing.T) {
	g := trial.NewGround(t, false)
	r, _ := inside(t, g, trial.Options{}, `$R run -q -- sh -c 'setsid sleep 100 & echo $! > pid'; p=$(cat pid); sleep 0.1; kill -0 $p 2>/dev/null && echo alive; echo over`)
	if r.Stdout != "over\n" {
		t.Errorf("got %s", r.Text())
	}
}

// TestNestedUnderHooks: where the session outside leaves everything to the kernel's
// hooks, those of the one inside hold its policy, and count by its limit.
func TestNestedUnderHooks(t *testing.T) {
	if trial.Engine() != "lsm" {
		trial.Skip(t, "lsm", "is about the engine lsm: REEVE_ENGINE=lsm tries it")
	}
	g := trial.NewGround(t, false)
	r, events := inside(t, g, trial.Options{Profile: "observe"}, `
		$R run -q -- sh -c 'cat ok.txt; echo x > new; cat .env; mv new moved; exit 3'; echo "status $?"
		$R run -q --profile read-only -- sh -c 'echo x > inner'; cat .env >/dev/null && echo outside
		mkdir many; for i in $(seq 80); do echo kept > many/f$i; done
		$R run -q -- sh -c 'for i in $(seq 30); do echo x > many/f$i; done; rm -f many/f3? many/f4? many/f5? many/f6?; for i in 71 72; do echo x > many/f$i; done'
		cat many/* | grep -c kept; for i in $(seq 80); do echo x > many/f$i; done; cat many/* | grep -c kept`)
	if want := "ordinary\nstatus 3\noutside\n30\n0\n"; r.Stdout != want {
		t.Errorf("got %s, want %s", r.Text(), want)
	}
	held := 0
	for _, e := range trial.Denials(events) {
		if e.Rule == "commands.bulk: more than 50 files in 10s" {
			held++
		}
	}
	if held != 21 { // of 71, of which 50 may be lost
		t.Errorf("%d are held by the inner limit", held)
	}
	if !exists(g.Workspace+"/moved") || exists(g.Workspace+"/inner") {
		t.Error("what may be made was not, or what may not was")
	}
	for _, d := range []trial.Denial{{Ops: []string{"open"}, Path: g.Workspace + "/.env"}, {Ops: []string{"create"}, Path: g.Workspace + "/inner"}} {
		trial.SomeDenial(t, events, d)
	}
}

func TestNestedRefusals(t *testing.T) {
	g := trial.NewGround(t, false)
	for script, want := range map[string]string{
		`$R run --store sqlite:///x -- true`:                            "--store: this is inside session",
		`$R run --profile nonesuch -- true`:                             `there is no profile "nonesuch"`,
		`echo '[permissions' > bad.toml; $R run --policy bad.toml -- x`: "bad.toml:1",
		`$R run -- nonesuch`:                                            "nonesuch",
		`$R run --workspace gone -- true`:                               "open workspace gone",
		`$R run -q -- sh -c 'exit 9'`:                                   "",
	} {
		r, _ := inside(t, g, trial.Options{}, script)
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("%s: %q", script, r.Stderr)
		}
		if status := map[bool]int{true: 125, false: 9}[want != ""]; r.Status != status && !strings.Contains(script, "-- nonesuch") {
			t.Errorf("%s: status %d", script, r.Status)
		}
	}
	// Outside a session a leftover variable is no way around the policy.
	t.Setenv("REEVE_ENGINE", "") // which is the outer session's to choose
	r := g.Native(trial.Options{Env: []string{"REEVE_SESSION=01XX"}}, g.Command(trial.Options{}, "true")...)
	if r.Status != 125 || !strings.Contains(r.Stderr, "cannot be reached") {
		t.Errorf("status %d: %s", r.Status, r.Stderr)
	}
}

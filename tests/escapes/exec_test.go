package escapes_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// execAttempts is how often a race of execve is run, n times or more: each is a
// process, and takes 0.1 s in an emulated machine. The whole number of attempts takes
// minutes.
func execAttempts(n int) string {
	if trial.Sampled() {
		return "60"
	}
	if os.Getenv("REEVE_LONG") != "" {
		return trial.Attempts(most)
	}
	return trial.Attempts(n)
}

// execControl is how often its control is run at first.
const execControl = 60

// TestExecRaces: the denied program never runs, be it another file by then (X01, X14)
// or the same one with another content. What a name leads to is denied by that; a
// script by its own name, for its interpreter.
func TestExecRaces(t *testing.T) {
	const good, bad, script = "{ws}/p1/x/tool", "{ws}/p2/x/tool", "{ws}/run"
	for _, r := range []struct {
		id, name string
		n        int
		argv     []string
		denied   string
	}{
		{"X01", "path", 4000, []string{"exec-flip", attempts, good, bad}, bad},
		{"X14", "name renamed over", 4000, []string{"exec-swap", attempts, script, good, bad}, bad},
		{"X14", "content written over", 1000, []string{"exec-rewrite", attempts, "pwrite", script, good, bad}, script},
		{"X14", "content mapped", 1000, []string{"exec-rewrite", attempts, "map", script, good, bad}, script},
	} {
		t.Run(r.id+"/"+r.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				o := trial.Options{Policy: true, Timeout: 10 * time.Minute}
				argv := append([]string{"{victim}"}, r.argv...)
				c := trial.NewGround(t, nobody)
				trial.Won(t, "control: the denied program runs", execControl, func(n string) (bool, *trial.Result) {
					os.Remove(c.Expand(script)) // what X14 made
					r := c.Native(o, raced(argv, n)...)
					return won(r), r
				})
				g := trial.NewGround(t, nobody)
				got := g.Supervised(o, raced(argv, execAttempts(r.n))...)
				n, ran, reached := scores(t, got)
				t.Logf("%s%v", got.Stdout, got.Took.Round(time.Millisecond))
				// Without a witness the floor cannot tell programs apart below a
				// writable directory: then the session must say so.
				held := reached == 0 || (nobody || os.Geteuid() != 0) && strings.Contains(manifest(got), "is kept from running by")
				if !held || ran == 0 {
					t.Errorf("%d attempts, %d ran, %d ran the denied program: %s", n, ran, reached, got.Text())
				}
				exec := trial.Denial{Ops: []string{"exec"}, Path: g.Expand(r.denied), Errno: "*"}
				trial.SomeDenial(t, got.Events, exec)
				// What would have run is named: by its path, if that could still be
				// asked for, else by what the interpreter was told.
				named := func(e trial.Event) bool {
					return e.Object.Path == g.Expand(bad) || e.By == "witness" && len(e.Task.Argv) > 0 && e.Task.Argv[0] == g.Expand(bad)
				}
				if !strings.Contains(got.Stdout, "killed=0") && !slices.ContainsFunc(trial.Denials(got.Events), named) {
					t.Errorf("what was killed is not named: %v", trial.Denials(got.Events))
				}
			})
		})
	}
}

// TestExecPair: of two threads that exec at once each is held to what was judged of
// its own, and none is killed for the other's.
func TestExecPair(t *testing.T) {
	for name, second := range map[string]string{"both allowed": "{ws}/p1/x/tool", "one denied": "{ws}/p2/x/tool"} {
		t.Run(name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				o := trial.Options{Policy: true, Timeout: 2 * time.Minute}
				argv := []string{"{victim}", "exec-pair", attempts, "{ws}/p1/x/tool", second}
				c := trial.NewGround(t, nobody)
				trial.Won(t, "control: either program runs", execControl, func(n string) (bool, *trial.Result) {
					r := c.Native(o, raced(argv, n)...)
					if !strings.Contains(r.Stdout, "killed=0 failed=0") {
						t.Fatalf("control: %s", r.Text())
					}
					return won(r) || name == "both allowed", r
				})
				r := trial.NewGround(t, nobody).Supervised(o, raced(argv, trial.Attempts(600))...)
				t.Logf("%s%v", r.Stdout, r.Took.Round(time.Millisecond))
				n, ran, reached := scores(t, r)
				if ran != n || reached != 0 || !strings.Contains(r.Stdout, "killed=0 failed=0") {
					t.Errorf("status %d: %s", r.Status, r.Text())
				}
			})
		})
	}
}

// manifest is the manifest in the session's first record.
func manifest(r *trial.Result) string {
	for _, e := range r.Events {
		if e.Op == "start" {
			return e.Detail
		}
	}
	return ""
}

// TestArgv: what is recorded is what the program was given, whatever another
// thread wrote there in between (X02). The witness sees it, so root only.
func TestArgv(t *testing.T) {
	trial.NeedRoot(t)
	g := trial.NewGround(t, false)
	n := trial.Attempts(300)
	if trial.Sampled() {
		n = "100" // programs are dear there, and this is no race that is to be won
	}
	r := g.Supervised(trial.Options{}, "{victim}", "argv-flip", n, "{victim}")
	recorded := map[string]string{}
	for _, e := range r.Events {
		if e.Op == "exec" && e.Kind == "fact" && len(e.Task.Argv) == 3 {
			recorded[fmt.Sprint(e.Task.PID)] = e.Task.Argv[2]
		}
	}
	ran := regexp.MustCompile(`ran pid=(\d+) word=(\w*)`).FindAllStringSubmatch(r.Stdout, -1)
	words := map[string]int{}
	for _, m := range ran {
		words[m[2]]++
		if got, ok := recorded[m[1]]; !ok || got != m[2] {
			t.Errorf("pid %s ran with %q, recorded is %q (%v)", m[1], m[2], got, ok)
		}
	}
	if tried, _, _ := scores(t, r); len(ran) != tried || len(words) < 2 {
		t.Errorf("control: %d programs ran with words %v, want %d with several (status %d: %s)", len(ran), words, tried, r.Status, r.Stderr)
		for i, e := range r.Events {
			if e.Op == "exec" && e.Action == "deny" || e.Op == "lost" || i == len(r.Events)-1 {
				t.Logf("%v %s", &e, e.Detail)
			}
		}
	}
}

// ran requires that a program ran without reeve, by its exit status, and not under it.
func ran(want int) func(*testing.T, *trial.Ground, *trial.Result, bool) {
	return func(t *testing.T, _ *trial.Ground, r *trial.Result, supervised bool) {
		if !supervised && r.Status != want {
			t.Fatalf("control: status %d, want %d: %s", r.Status, want, r.Text())
		}
		if supervised && (r.Status == 10 || r.Status == 20) {
			t.Errorf("the program ran: status %d", r.Status)
		}
	}
}

// TestPrograms: a denied program by every way to run it.
func TestPrograms(t *testing.T) {
	policy := trial.Options{Policy: true}
	denied := &trial.Denial{Ops: []string{"exec"}, Path: "{ws}/p2/x/tool"}
	const loader = "/lib64/ld-linux-x86-64.so.2"
	run(t, []row{
		{id: "X03", name: "execveat of descriptor", opt: policy, argv: []string{"exec-fd", "empty", "{ws}/p2/x/tool"}, native: `^$`,
			want: `ret=-1`, deny: &trial.Denial{Path: "{ws}/p2/x/tool"}, after: ran(20)},
		{id: "X03", name: "fexecve", opt: policy, argv: []string{"exec-fd", "proc", "{ws}/p2/x/tool"}, native: `^$`,
			want: `ret=-1`, deny: &trial.Denial{Path: "{ws}/p2/x/tool"}, after: ran(20)},
		{id: "X03", name: "outside", argv: []string{"exec-fd", "empty", "{outside}/tool"}, native: `^$`,
			want: `ret=-1`, deny: &trial.Denial{Path: "{outside}/tool"}, after: ran(10)},
		{id: "X06", name: "loader", opt: policy, argv: []string{loader, "{ws}/p2/x/linked", "ran"}, native: `^$|.`, want: `.`,
			deny: &trial.Denial{Ops: []string{"open", "exec"}, Path: "{ws}/p2/x/linked"}, after: func(t *testing.T, g *trial.Ground, r *trial.Result, supervised bool) {
				ran(10)(t, g, r, supervised) // /proc/self/exe is the loader
			}},
		{id: "X06", name: "shell", opt: policy, argv: []string{"/bin/sh", "-c", "exec {ws}/p2/x/tool ran"}, native: `^$`, want: `.`,
			deny: denied, after: ran(20)},
		{id: "X06", name: "env", opt: policy, argv: []string{"/usr/bin/env", "{ws}/p2/x/tool", "ran"}, native: `^$`, want: `.`,
			deny: denied, after: ran(20)},
		{id: "X06", name: "symlink", opt: policy, prepare: symlink("{ws}/p2/x/tool", "{ws}/t"), argv: []string{"/bin/sh", "-c", "exec ./t ran"},
			native: `^$`, want: `.`, deny: denied, after: ran(20)},
		{id: "X06", name: "interpreter line", opt: policy, prepare: script("#!{ws}/p2/x/tool ran\n"), argv: []string{"/bin/sh", "-c", "./s; exit $?"},
			native: `^$|.`, want: `.`, many: true, deny: &trial.Denial{Ops: []string{"exec"}, Errno: "*"}, after: func(t *testing.T, g *trial.Ground, r *trial.Result, supervised bool) {
				ran(20)(t, g, r, supervised)
			}},
		{id: "X16", name: "denied file as code", opt: policy, argv: []string{"map-code", "mmap", "{ws}/p2/x/tool"}, native: `code: ret=0`,
			want: `open: ` + refused, deny: openDenied("{ws}/p2/x/tool")},
		{id: "X16", name: "mprotect", argv: []string{"map-code", "mprotect", "{outside}/tool"}, native: `code: ret=0`,
			want: `open: ` + refused, deny: openDenied("{outside}/tool")},
		{id: "X16", name: "allowed file, written", argv: []string{"map-code", "written", "{victim}"}, native: `code: ret=0`, want: `code: ret=0`},
		{id: "X16", name: "memory", argv: []string{"map-code", "memory"}, native: `code: ret=0`, want: `code: ret=0`}, // nobody holds it, see doctor
		{id: "X17", name: "library by a rule", root: true, opt: policy, prepare: denyingLibrary, argv: preload("{ws}/lib.so"),
			native: `r-xp[^\n]*lib\.so`, want: `cannot be preloaded`, deny: openDenied("{ws}/lib.so")},
		{id: "X17", name: "library allowed", opt: policy, prepare: library("{ws}/p2/lib.so"), argv: preload("{ws}/p2/lib.so"),
			native: `r-xp[^\n]*lib\.so`, want: `r-xp[^\n]*lib\.so`},
		{id: "X12", name: "vfork open", argv: []string{"vfork", "open", "{secret}"}, deny: openDenied("{secret}")},
	})
	// Named by the launch itself: reeve says 126, and runs nothing.
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r := g.Supervised(policy, "{ws}/p2/x/tool", "ran")
		if r.Status != 126 {
			t.Errorf("launch of a denied program: status %d, want 126: %s", r.Status, r.Text())
		}
	})
}

// library puts a copy of one of the system's onto the ground.
func library(to string) func(*testing.T, *trial.Ground) {
	return func(t *testing.T, g *trial.Ground) {
		t.Helper()
		b, err := os.ReadFile("/lib/x86_64-linux-gnu/libc.so.6")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(g.Expand(to), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// denyingLibrary denies a library as a program, which its loader is then not let read.
func denyingLibrary(t *testing.T, g *trial.Ground) {
	library("{ws}/lib.so")(t, g)
	text := trial.TrialPolicy + "[permissions.trial.exec]\n\"" + g.Expand("{ws}/lib.so") + "\" = \"deny\"\n"
	if err := os.WriteFile(g.Expand("{base}/policy.toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// preload has a loader take a library along, and shows what is mapped then.
func preload(path string) []string {
	return []string{"/bin/sh", "-c", "LD_PRELOAD=" + path + " exec /bin/cat /proc/self/maps"}
}

func script(text string) func(*testing.T, *trial.Ground) {
	return func(t *testing.T, g *trial.Ground) {
		if err := os.WriteFile(g.Workspace+"/s", []byte(g.Expand(text)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExecRecorded: what runs by a descriptor is recorded by its name (X03).
func TestExecRecorded(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		for _, how := range []string{"empty", "proc"} {
			r := g.Supervised(trial.Options{}, "{victim}", "exec-fd", how, "{ws}/p1/x/tool")
			if r.Status != 10 {
				t.Errorf("%s: status %d: %s", how, r.Status, r.Text())
			}
			found := false
			for _, e := range r.Events {
				found = found || e.Op == "exec" && e.Object.Path == g.Workspace+"/p1/x/tool"
			}
			if !found {
				t.Errorf("%s: no exec record names the program", how)
			}
		}
	})
}

// TestStart: the first program and its loader are in the stream, with their
// parent (E12).
func TestStart(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r := g.Supervised(trial.Options{}, "{ws}/linked", "call", fmt.Sprint(unix.SYS_GETPID))
		var exec, loader bool
		for _, e := range r.Events {
			exec = exec || e.Op == "exec" && e.Object.Path == g.Workspace+"/linked" && e.Task.PPID != 0
			loader = loader || e.Op == "open" && strings.Contains(e.Object.Path, "libc.so") && e.Task.PID != 0
		}
		if !exec || !loader {
			t.Errorf("exec of the first program recorded: %v; its loader's open of libc: %v", exec, loader)
		}
		for i, e := range r.Events {
			if e.Seq != uint64(i+1) {
				t.Fatalf("seq %d at place %d: the stream has a gap", e.Seq, i+1)
			}
		}
	})
}

package escapes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// commandPolicy denies what the default profile asks about, so that the rows need
// nobody to answer.
const commandPolicy = `[permissions.cmd]
extends = ":workspace"
[permissions.cmd.commands]
destructive = "deny"
publish = "deny"
[permissions.cmd.exec]
"/usr/bin/mawk" = "deny"
`

// underCommands are the options of a run under commandPolicy.
var underCommands = trial.Options{Flags: []string{"--policy", "{base}/cmd.toml", "--profile", "cmd"}}

// shell is a row that runs a script, in which $git is git's path.
func shell(id, name, script, rule string) row {
	return row{
		id: id, name: name, opt: underCommands, argv: []string{"/bin/sh", "-c", "git=$(command -v git); " + script},
		native: `fatal|usage|Everything`, want: `.`, many: true, deny: &trial.Denial{Ops: []string{"exec"}, Errno: "*"},
		prepare: func(t *testing.T, g *trial.Ground) {
			trial.NeedProgram(t, "git")
			writeFile(t, g.Base+"/cmd.toml", commandPolicy, 0o644)
			g.Own(g.Base + "/cmd.toml")
		},
		after: func(t *testing.T, g *trial.Ground, r *trial.Result, supervised bool) {
			if supervised && (strings.Contains(strings.ReplaceAll(r.Text(), "fatal: cannot exec", ""), "fatal") || !hasRule(r, rule)) {
				t.Errorf("no denial by %q, or it ran: %s", rule, r.Text())
			}
		},
	}
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func hasRule(r *trial.Result, rule string) bool {
	for _, e := range trial.Denials(r.Events) {
		if e.Rule == rule {
			return true
		}
	}
	return false
}

// TestCommands: what a command means is judged where it runs, whatever wraps it
// (X08), loads it (X06), what it is called (X19), and where its file lies (X21).
func TestCommands(t *testing.T) {
	const force, push = "commands.destructive: git push --force", "commands.publish: git push"
	run(t, []row{
		shell("X08", "shell", `$git push --force`, force),
		shell("X08", "sh -c", `sh -c 'git push --force'`, force),
		shell("X08", "variable", `x=pu; $git ${x}sh --for""ce`, force),
		shell("X08", "env", `env A=b git push --force`, force),
		shell("X08", "nice and timeout", `nice -n 1 timeout 9 git push --force`, force),
		shell("X08", "xargs", `echo --force | xargs git push`, force),
		shell("X08", "find -exec", `find ok.txt -exec git push --force \;`, force),
		shell("X08", "git alias", `$git -c alias.x='push --force' x`, force),
		shell("X08", "git alias of a shell", `$git -c alias.x='!git push --force' x`, force),
		shell("X08", "awk", `awk 'BEGIN { system("git push --force") }' || perl -e 'system("git push --force")'`, force),
		shell("X08", "script", `printf '#!/bin/sh\ngit push --force\n' > s; chmod +x s; ./s`, force),
		shell("X08", "interpreter line", `printf '#!%s push\n' $git > s; chmod +x s; ./s --force || $git push`, force),
		shell("X06", "loader", `/lib64/ld-linux-x86-64.so.2 $git push --force`, force),
		shell("X06", "loader with options", `/lib64/ld-linux-x86-64.so.2 --argv0 ls $git push --force`, force),
		shell("X06", "loader by a link", `ln -s $git x; /lib64/ld-linux-x86-64.so.2 ./x push --force`, force),
		shell("X06", "loader of a copy", `cp $git x; /lib64/ld-linux-x86-64.so.2 ./x push --force`, force),
		shell("X19", "argv[0]", `bash -c "exec -a ls $git push --force"`, force),
		shell("X19", "dashed argv[0]", `bash -c "exec -a git-push $git --force"`, force),
		shell("X21", "copy", `cp $git x; ./x push --force`, force),
		shell("X21", "renamed copy", `cp $git x; mv x y; ./y push --force`, force),
		shell("X21", "symlink", `ln -s $git x; ./x push --force`, force),
		shell("X21", "symlink of a copy", `cp $git x; ln -s x y; ./y push --force`, force),
		shell("X21", "hard link of a copy", `cp $git x; ln x y; rm x; ./y push --force`, force),
		shell("X21", "unreadable copy", `cp $git x; chmod 111 x; ./x push --force`, force),
		shell("X21", "written anew", `cat $git > x; chmod +x x; ./x push --force`, force),
		shell("X02", "long arguments", `$git push --push-option=$(head -c 100000 /dev/zero | tr '\0' a) --force`, force),
		shell("X02", "many arguments", `$git push $(yes -- -v | head -n 20000) --force`, force),
		shell("X08", "publish", `$git push`, push),
	})
}

// TestCommandControls: what looks alike runs.
func TestCommandControls(t *testing.T) {
	git := trial.NeedProgram(t, "git")
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		writeFile(t, g.Base+"/cmd.toml", commandPolicy, 0o644)
		writeFile(t, g.Workspace+"/stood", "x", 0o644)
		for _, script := range []string{
			`echo "git push --force"`, git + ` config --get-all push.force-x || true`, `mkdir -p src && rm -rf build && find . -name '*.pyc' -delete`,
			`rm -rf gone stood "conf*" && test ! -e stood && ! find gone -delete`, // no tree is there
			`cp ` + git + ` x && echo >> x && ./x version`,                        // a changed byte is another program
			`/lib64/ld-linux-x86-64.so.2 --verify ` + git,
			`/lib64/ld-linux-x86-64.so.2 ` + git + ` version`,
			`printf '#!/bin/sh\nexit 0\n' > ok && chmod +x ok && ./ok --force`,
		} {
			r := g.Supervised(underCommands, "/bin/sh", "-c", script)
			if r.Status != 0 || len(trial.Denials(r.Events)) != 0 {
				t.Errorf("%s: status %d: %s %v", script, r.Status, r.Text(), trial.Denials(r.Events))
			}
		}
	})
}

// TestSetuid: a set-user-ID program is privileged by its mode, whatever it is
// (X10).
func TestSetuid(t *testing.T) {
	trial.NeedRoot(t)
	prepare := func(t *testing.T, g *trial.Ground) {
		if err := os.Chmod(g.Workspace+"/linked", os.ModeSetuid|0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := row{id: "X10", name: "set-user-ID", argv: []string{"/bin/sh", "-c", "{ws}/linked call 107"}, native: `ret=\d+`, want: `denied`,
		prepare: prepare, deny: &trial.Denial{Ops: []string{"exec"}, Path: "{ws}/linked"}}
	t.Run("root", func(t *testing.T) { r.try(t, false) })
	t.Run("user", func(t *testing.T) { r.try(t, true) })
	t.Run("root's", func(t *testing.T) {
		g := trial.NewGround(t, true)
		if err := os.Chown(g.Workspace+"/linked", 0, 0); err != nil {
			t.Fatal(err)
		}
		prepare(t, g)
		// The control: natively it is root; allowed in a session it is not.
		if c := g.Native(trial.Options{}, "{ws}/linked", "call", "107"); !strings.Contains(c.Stdout, "ret=0") {
			t.Fatalf("control: geteuid: %s", c.Text())
		}
		if got := g.Supervised(trial.Options{Profile: "observe"}, "{ws}/linked", "call", "107"); strings.Contains(got.Stdout, "ret=0") {
			t.Errorf("it is root in a session: %s", got.Text())
		}
	})
}

// TestNamedPrograms: a rule about a program's path holds for what the path leads
// to, and for copies that stood there before (X21).
func TestNamedPrograms(t *testing.T) {
	mawk := trial.NeedProgram(t, "mawk")
	if real, err := filepath.EvalSymlinks(mawk); err != nil || real != "/usr/bin/mawk" {
		trial.Skip(t, "mawk", "mawk is elsewhere")
	}
	copied := func(t *testing.T, g *trial.Ground) {
		writeFile(t, g.Base+"/cmd.toml", commandPolicy, 0o644)
		text, err := os.ReadFile(mawk)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, g.Workspace+"/m", string(text), 0o755)
		g.Own(g.Workspace + "/m")
	}
	var rows []row
	awk, _ := exec.LookPath("awk")
	awk, _ = filepath.EvalSymlinks(awk)
	for name, command := range map[string]string{
		"path": mawk, "alternatives": "awk", "copy": "./m", "copy elsewhere": "cp m n; ./n", "loader": "/lib64/ld-linux-x86-64.so.2 ./m",
	} {
		if _, err := exec.LookPath(command); err != nil && !strings.Contains(command, " ") && command != "./m" || command == "awk" && awk != mawk {
			continue
		}
		rows = append(rows, row{id: "X21", name: name, opt: underCommands, argv: []string{"/bin/sh", "-c", command + ` 'BEGIN { print 6 * 7 }'`},
			native: `^42`, want: `denied`, many: true, deny: &trial.Denial{Ops: []string{"exec"}, Errno: "*"}, prepare: copied})
	}
	run(t, rows)
}

// TestBusybox: a program that is many is judged by what it is called as (X19).
func TestBusybox(t *testing.T) {
	busybox := trial.NeedProgram(t, "busybox")
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		text, err := os.ReadFile(busybox)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, g.Workspace+"/bb", string(text), 0o755)
		writeFile(t, g.Base+"/cmd.toml", commandPolicy, 0o644)
		for script, rule := range map[string]string{
			busybox + " rm -rf p1":                             "commands.destructive: rm -r",
			"exec bash -c 'exec -a rm " + busybox + " -rf p1'": "commands.destructive: rm -r",
			"bash -c 'exec -a busybox ./bb rm -rf p1'":         "commands.destructive: rm -r",
			"ln -sf bb rm; ./rm -rf p1":                        "commands.destructive: rm -r",
			"ln -sf bb rm; " + busybox + " env ./rm -rf p1":    "commands.destructive: rm -r",
			busybox + " su":                                    "commands.privileged: su",
		} {
			r := g.Supervised(underCommands, "/bin/sh", "-c", script)
			if _, err := os.Stat(g.Workspace + "/p1/x/f"); err != nil || !hasRule(r, rule) {
				t.Errorf("%s: no denial by %q (%v): %s", script, rule, err, r.Text())
			}
		}
		if r := g.Supervised(underCommands, busybox, "ls"); r.Status != 0 || !strings.Contains(r.Stdout, "ok.txt") {
			t.Errorf("control: busybox ls: %s", r.Text())
		}
	})
}

// TestWordsRace: a thread that rewrites the words of an exec after they were judged
// does not get the program told what was denied (X02). As root the kernel compares
// before the program's first instruction; as a user a dynamically linked one is
// compared before its own code runs.
func TestWordsRace(t *testing.T) {
	const rules = `[permissions.words]
extends = ":workspace"
[[permissions.words.commands.rule]]
program = ["linked", "victim"]
sub = "argv-show perilous"
action = "deny"
`
	tiers(t, false, func(t *testing.T, nobody bool) {
		t.Run("dynamic", func(t *testing.T) { wordsRace(t, nobody, 1000, rules, "argv-flip", attempts, "{ws}/linked") })
		t.Run("script", func(t *testing.T) {
			wordsRace(t, nobody, 400, rules, "script-flip", attempts, "{ws}/shown", "{ws}/linked")
		})
		if !nobody {
			t.Run("static", func(t *testing.T) { wordsRace(t, nobody, 1000, rules, "argv-flip", attempts, "{ws}/victim") })
		}
	})
}

func wordsRace(t *testing.T, nobody bool, most int, rules string, technique ...string) {
	prepare := func() *trial.Ground {
		g := trial.NewGround(t, nobody)
		writeFile(t, g.Base+"/words.toml", rules, 0o644)
		writeFile(t, g.Workspace+"/shown", "#!"+g.Workspace+"/linked argv-show\n", 0o755)
		g.Own(g.Workspace)
		g.Rebase()
		return g
	}
	opt := trial.Options{Flags: []string{"--policy", "{base}/words.toml", "--profile", "words"}, Timeout: 3 * time.Minute}
	argv := append([]string{"{victim}"}, technique...)
	fair := regexp.MustCompile(`word=(harmless|\S*/shown)`)
	c := prepare()
	trial.Won(t, "control: told one and the other", trial.ControlAttempts(400), func(n string) (bool, *trial.Result) {
		r := c.Native(opt, raced(argv, n)...)
		return strings.Contains(r.Stdout, "word=perilous") && fair.MatchString(r.Stdout), r
	})
	r := prepare().Supervised(opt, raced(argv, trial.Attempts(most))...)
	if n := strings.Count(r.Stdout, "word=perilous"); n != 0 || !fair.MatchString(r.Stdout) {
		t.Errorf("told what was denied %d times: %.300s", n, r.Text())
	}
	judged, killed, begun := 0, 0, 0
	for _, e := range trial.Denials(r.Events) {
		switch {
		case strings.Contains(e.Reason, "other words than were judged"):
			killed++
			if !strings.Contains(e.Reason, "before its first instruction") {
				begun++
			}
		case strings.HasSuffix(e.Rule, "argv-show perilous"):
			judged++
		}
	}
	t.Logf("%d denied, %d killed, %d of them after they began", judged, killed, begun)
	if judged == 0 {
		t.Error("no exec was denied")
	}
	if !nobody && (killed == 0 || begun > 0) {
		t.Errorf("%d were killed, %d of them late", killed, begun)
	}
}

// TestWordsOfFailedExecs: what an exec that failed was judged by is not held against
// the next one, and one that is told what another was judged by is ended.
func TestWordsOfFailedExecs(t *testing.T) {
	trial.NeedProgram(t, "/usr/bin/python3")
	const script = `
import os
for path, env in ("./git", os.environ), ("./lost", os.environ), ("./git", {"X": "x" * 200000}):
    try: os.execve(path, ["git", "push", "--force"], env)
    except OSError as e: print("no", e.errno, flush=True)
os.execv("/bin/echo", ["echo", "went on"])
`
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		writeFile(t, g.Workspace+"/git", "#!/nowhere/git\n", 0o755)
		writeFile(t, g.Base+"/words.toml", "[permissions.words]\nextends = \":workspace\"\n[permissions.words.commands]\ndestructive = \"allow\"\npublish = \"allow\"\nremote = \"deny\"\n", 0o644)
		g.Own(g.Workspace)
		g.Rebase()
		argv := []string{"/usr/bin/python3", "-c", script}
		want := g.Native(trial.Options{}, argv...)
		if !strings.HasSuffix(want.Stdout, "went on\n") {
			t.Fatalf("control: %s", want.Text())
		}
		r := g.Supervised(trial.Options{Flags: []string{"--policy", "{base}/words.toml", "--profile", "words"}}, argv...)
		if r.Stdout != want.Stdout || r.Status != 0 {
			t.Errorf("status %d: %s, natively %s", r.Status, r.Text(), want.Text())
		}
	})
}

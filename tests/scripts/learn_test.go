package scripts_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// offLimits reads, lists, writes and runs what is outside the workspace, and
// talks to services of the host. It goes on whatever is refused.
const offLimits = `
cat {outside}/data/a.json {outside}/data/b.json {outside}/data/c.json
ls {outside}/data {outside}/many
cat {outside}/many/one {outside}/many/two.txt {outside}/many/three {home}/notes
for i in 1 2 3; do echo $i > {outside}/out/file$i; done
mkdir {outside}/out/sub && echo x > {outside}/out/sub/x && mv {outside}/out/sub/x {outside}/out/sub/y && rm -r {outside}/out/sub
{outside}/script
/usr/bin/python3 -c '
import os, socket
def reach(family, where):
    s = socket.socket(family)
    try:
        s.connect(where)
        print("reached", s.recv(5))
    except OSError as e:
        print("not reached", e.errno)
reach(socket.AF_INET, ("127.0.0.1", {port}))
reach(socket.AF_UNIX, "{outside}/app.sock")
'
echo end
`

// lay puts what offLimits wants onto the ground, and starts the services. It
// returns the script.
func lay(t *testing.T, g *trial.Ground) string {
	t.Helper()
	for name, text := range map[string]string{
		"outside/data/a.json": "{}\n", "outside/data/b.json": "{}\n", "outside/data/c.json": "{}\n", "outside/many/one": "1\n",
		"outside/many/two.txt": "2\n", "outside/many/three": "3\n", "home/notes": "notes\n", "outside/out/.keep": "",
		"outside/script": "#!" + filepath.Join(g.Outside, "interpreter") + "\n",
	} {
		put(t, filepath.Join(g.Base, name), text)
	}
	program, err := os.ReadFile("/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.Outside, "interpreter"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(g.Outside, "script"), 0o755); err != nil {
		t.Fatal(err)
	}
	port := serve(t, "tcp", "127.0.0.1:0").(*net.TCPAddr).Port
	serve(t, "unix", filepath.Join(g.Outside, "app.sock"))
	g.Own(g.Outside)
	g.Own(g.Home)
	return strings.ReplaceAll(offLimits, "{port}", fmt.Sprint(port))
}

// serve greets whoever connects.
func serve(t *testing.T, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	return l.Addr()
}

// asEachUser runs f as the test's own user, and as nobody when that is root.
func asEachUser(t *testing.T, f func(t *testing.T, g *trial.Ground)) {
	if os.Geteuid() != 0 {
		t.Run("user", func(t *testing.T) { f(t, trial.NewGround(t, false)) })
		return
	}
	t.Run("root", func(t *testing.T) { f(t, trial.NewGround(t, false)) })
	t.Run("user", func(t *testing.T) { f(t, trial.NewGround(t, true)) })
}

// learn writes what reeve proposes into a file, and has it checked.
func learn(t *testing.T, g *trial.Ground, args ...string) (file, text string) {
	t.Helper()
	out := g.Verb(append([]string{"policy", "learn"}, args...)...)
	if out.Status != 0 {
		t.Fatalf("learn: status %d: %s", out.Status, out.Text())
	}
	file = filepath.Join(g.Base, "learned.toml")
	if err := os.WriteFile(file, []byte(out.Stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	check := g.Verb("policy", "check", file, "--profile", "learned", "--workspace", g.Workspace)
	if check.Status != 0 || !strings.Contains(check.Stdout, "0 warnings") {
		t.Errorf("check: status %d: %s\n%s", check.Status, check.Text(), out.Stdout)
	}
	return file, out.Stdout
}

// again runs a script under a proposal and wants nothing denied.
func again(t *testing.T, g *trial.Ground, file, text, script string) *trial.Result {
	t.Helper()
	got := g.Supervised(trial.Options{Flags: []string{"--policy", file, "--profile", "learned"}}, "/bin/sh", "-c", script)
	for _, e := range trial.Denials(got.Events) {
		t.Errorf("denied: %v", &e)
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
	return got
}

// whatIf is what `replay --json` says of a session decided anew.
type whatIf struct {
	Requests, Changed, Unchanged, Unasked, Open int
	Kinds                                       map[string]int
}

func redecide(t *testing.T, g *trial.Ground, status int, args ...string) (w whatIf) {
	t.Helper()
	out := g.Verb(append([]string{"replay", "--json"}, args...)...)
	if out.Status != status {
		t.Errorf("replay %v: status %d, want %d: %s", args, out.Status, status, out.Text())
	}
	if err := json.Unmarshal([]byte(out.Stdout), &w); err != nil {
		t.Fatalf("replay %v: %v: %s", args, err, out.Text())
	}
	return w
}

func TestLearnFromDenials(t *testing.T) {
	trial.NeedProgram(t, "/usr/bin/python3")
	asEachUser(t, func(t *testing.T, g *trial.Ground) {
		script := lay(t, g)
		first := g.Supervised(trial.Options{}, "/bin/sh", "-c", script)
		denied := trial.Denials(first.Events)
		if len(denied) < 13 || !strings.Contains(first.Stdout, "not reached") || !strings.Contains(first.Stdout, "end") {
			t.Fatalf("control: %d denials, output %s", len(denied), first.Text())
		}
		file, text := learn(t, g, "last")
		for _, want := range []string{
			"extends = \":workspace-edit-no-net\"", "/data/*.json\" = \"read\"", "/many\" = \"read\"", "/out/file*\" = \"write\"", "/out/sub\" = \"write\"", "/script\" = \"read\"",
			"\"~/notes\" = \"read\"", "app.sock\" = \"allow\"", "\"127.0.0.1:",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the proposal lacks %s\n%s", want, text)
			}
		}
		id := first.Events[0].Session
		w := redecide(t, g, 1, id, "--policy", file, "--profile", "learned")
		if w.Changed != len(denied) || w.Kinds["deny -> allow"] != len(denied) || w.Open != 0 {
			t.Errorf("decided anew under the proposal: %+v, want %d denials allowed", w, len(denied))
		}
		elsewhere(t, g, id, len(denied))
		// A script that may run needs its interpreter, which nobody had got to.
		second := g.Supervised(trial.Options{Flags: []string{"--policy", file, "--profile", "learned"}}, "/bin/sh", "-c", script)
		if left := trial.Denials(second.Events); len(left) != 1 || left[0].Op != "exec" {
			t.Errorf("under the first proposal: %v", left)
		}
		file, text = learn(t, g, id, second.Events[0].Session, "--base", "workspace-edit-no-net")
		if !strings.Contains(text, "/interpreter\" = \"read\"") {
			t.Errorf("the second proposal lacks the interpreter\n%s", text)
		}
		got := again(t, g, file, text, script)
		if n := strings.Count(got.Stdout, "reached b'hello'"); n != 2 || !strings.Contains(got.Stdout, "notes") {
			t.Errorf("under the proposal: %s", got.Text())
		}
	})
}

// elsewhere replays a session from a file where nothing else of it is.
func elsewhere(t *testing.T, g *trial.Ground, id string, denied int) {
	t.Helper()
	file := filepath.Join(g.Base, "s.reeve")
	if out := g.Verb("sessions", "export", id, "-o", file); out.Status != 0 {
		t.Fatalf("export: %s", out.Text())
	}
	other := *g
	other.State = filepath.Join(g.Base, "other-state")
	if w := redecide(t, &other, 0, file, "--redecide"); w.Requests == 0 || w.Unchanged == 0 {
		t.Errorf("decided anew from a file: %+v", w)
	}
	w := redecide(t, &other, 1, file, "--profile", "observe")
	if w.Kinds["deny -> allow"] != denied {
		t.Errorf("decided anew from a file, under observe: %+v", w)
	}
	if _, err := os.Stat(other.State); err == nil {
		t.Errorf("the replay of a file made a state directory")
	}
}

func TestLearnFromObserving(t *testing.T) {
	trial.NeedProgram(t, "/usr/bin/python3")
	asEachUser(t, func(t *testing.T, g *trial.Ground) {
		script := lay(t, g)
		seen := g.Supervised(trial.Options{Profile: "observe"}, "/bin/sh", "-c", script)
		if strings.Count(seen.Stdout, "reached b'hello'") != 2 {
			t.Fatalf("control: %s", seen.Text())
		}
		if out := g.Verb("policy", "learn", "last"); out.Status != 1 || !strings.Contains(out.Stderr, "--base") {
			t.Errorf("learned over observe: status %d: %s", out.Status, out.Text())
		}
		file, text := learn(t, g, "last", "--base", "read-only", "--why")
		if !strings.Contains(text, "extends = \":read-only\"") || !strings.Contains(text, "by /usr/bin/") {
			t.Errorf("the proposal: %s", text)
		}
		got := again(t, g, file, text, script)
		if strings.Count(got.Stdout, "reached b'hello'") != 2 {
			t.Errorf("under the proposal: %s", got.Text())
		}
	})
}

func TestLearnLeavesOutWhatIsClosed(t *testing.T) {
	asEachUser(t, func(t *testing.T, g *trial.Ground) {
		const script = `cat {home}/.ssh/id_rsa {secret} {ws}/p2/x/f {state}/reeve.db; echo x >> {ws}/.git/hooks/pre-commit; cat {outside}/secret.txt; echo end`
		first := g.Supervised(trial.Options{Policy: true}, "/bin/sh", "-c", script)
		if len(trial.Denials(first.Events)) < 5 {
			t.Fatalf("control: %s", first.Text())
		}
		_, text := learn(t, g, "last")
		for _, never := range []string{"id_rsa\" =", ".env\" = \"read\"", "f\" =", "pre-commit\" =", "reeve.db\" =", ".secrets", ".protected"} {
			if strings.Contains(text[strings.Index(text, "# Proposed"):], never) {
				t.Errorf("the proposal holds %s\n%s", never, text)
			}
		}
		file, text := learn(t, g, "last", "--include-sensitive")
		if strings.Contains(text, "reeve.db\" =") || !strings.Contains(text, "extends = \"trial\"") {
			t.Errorf("the proposal with what is sensitive:\n%s", text)
		}
		got := g.Supervised(trial.Options{Flags: []string{"--policy", file, "--profile", "learned"}}, "/bin/sh", "-c", script)
		denied := trial.Denials(got.Events)
		if len(denied) != 1 || !strings.HasSuffix(denied[0].Object.Path, "reeve.db") {
			t.Errorf("with the exceptions %d denials: %v\n%s", len(denied), denied, text)
		}
		if n := strings.Count(got.Stdout, g.Token); n != 4 {
			t.Errorf("read %d of 4 secrets: %s", n, got.Stderr)
		}
	})
}

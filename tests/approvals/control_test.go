package approvals_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/tests/trial"
)

func TestMain(m *testing.M) { trial.Main(m) }

// asking is the user's own policy file on a ground.
const asking = `# mine
default_permissions = "mine"

[permissions.mine]
extends = ":workspace"
[permissions.mine.filesystem]
"{outside}" = "ask"  # other people's
# the end
`

// newGround is a ground with a user's policy that asks about its outside.
func newGround(t *testing.T, nobody bool) *trial.Ground {
	t.Helper()
	g := trial.NewGround(t, nobody)
	file := filepath.Join(g.Home, ".config/reeve/policy.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(g.Expand(asking)), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Own(filepath.Join(g.Home, ".config"))
	return g
}

// running is a session in the background.
type running struct {
	cmd    *exec.Cmd
	output bytes.Buffer
}

// start runs a command that asks.
func start(t *testing.T, g *trial.Ground, flags []string, argv ...string) *running {
	t.Helper()
	line := g.Command(trial.Options{Flags: append([]string{"--ask", "control"}, flags...)}, argv...) // the last --ask counts
	r := &running{cmd: exec.Command(line[0], line[1:]...)}
	r.cmd.Dir, r.cmd.Env = g.Workspace, g.Environ()
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.output
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: g.Cred}
	r.cmd.WaitDelay = 10 * time.Second
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill(); _ = r.cmd.Wait() })
	return r
}

// wait waits for the session's end and gives its output.
func (r *running) wait(t *testing.T) (status int, output string) {
	t.Helper()
	late := time.AfterFunc(60*time.Second, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	err := r.cmd.Wait()
	return trial.ExitStatus(err), r.output.String()
}

// pending waits until n questions are listed.
func pending(t *testing.T, g *trial.Ground, n int) []approval.Question {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		r := g.Verb("asks", "--json")
		if r.Status != 0 {
			t.Fatalf("asks: status %d: %s", r.Status, r.Stderr)
		}
		var list []approval.Question
		for line := range strings.Lines(r.Stdout) {
			var q approval.Question
			if err := json.Unmarshal([]byte(line), &q); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			list = append(list, q)
		}
		if len(list) == n {
			return list
		}
	}
	t.Fatalf("there never were %d questions", n)
	return nil
}

func tiers(t *testing.T, f func(t *testing.T, nobody bool)) {
	t.Run("own", func(t *testing.T) { f(t, false) })
	if os.Geteuid() == 0 {
		t.Run("user", func(t *testing.T) { f(t, true) })
	}
}

func TestAllow(t *testing.T) {
	tiers(t, func(t *testing.T, nobody bool) {
		g := newGround(t, nobody)
		if r := g.Verb("asks"); r.Status != 0 || r.Stdout != "nothing is asked\n" {
			t.Errorf("without sessions: %d %q %q", r.Status, r.Stdout, r.Stderr)
		}
		r := start(t, g, nil, "sh", "-c", "cat {outside}/secret.txt; true")
		q := pending(t, g, 1)[0]
		text := g.Verb("asks").Stdout
		for _, want := range []string{
			q.ID + "  open read " + g.Outside + "/secret.txt  (", "left, session " + q.Session + ")",
			"rule '" + g.Outside + "' of mine", "sh -c", "cat " + g.Outside,
		} {
			if !strings.Contains(text, strings.ReplaceAll(want, "'", "")) && !strings.Contains(text, want) {
				t.Errorf("%q is not in:\n%s", want, text)
			}
		}
		got := g.Verb("asks", "allow", strings.ToLower(q.ID[:1]+q.ID[4:]), "--reason", "a test")
		if want := q.ID + " allowed once: open read " + g.Outside + "/secret.txt\n"; got.Status != 0 || got.Stdout != want {
			t.Errorf("allow: %d %q %q, want %q", got.Status, got.Stdout, got.Stderr, want)
		}
		if status, out := r.wait(t); status != 0 || !strings.Contains(out, g.Token) {
			t.Errorf("status %d, output %q", status, out)
		}
		late := g.Verb("asks", "deny", q.ID)
		if late.Status != 3 || !strings.Contains(late.Stderr, "session "+q.Session+" is over") {
			t.Errorf("late: %d %q", late.Status, late.Stderr)
		}
		var answer trial.Event
		for _, e := range g.Events("--session", "last") {
			if e.Op == "answer" {
				answer = e
			}
		}
		if answer.Action != "allow" || answer.Reason != "a test" || !regexp.MustCompile(`^approver:uid \d+ by reeve asks$`).MatchString(answer.By) {
			t.Errorf("recorded %v", &answer)
		}
	})
}

func TestDeny(t *testing.T) {
	g := newGround(t, false)
	r := start(t, g, nil, "sh", "-c", "cat {outside}/secret.txt; cat {outside}/secret.txt")
	q := pending(t, g, 1)[0]
	if got := g.Verb("asks", "deny", q.ID, "--scope", "session", "--reason", "not here"); got.Status != 0 {
		t.Errorf("deny: %d %q", got.Status, got.Stderr)
	}
	status, out := r.wait(t)
	if status != 1 || strings.Count(out, "Permission denied") != 2 || strings.Contains(out, g.Token) {
		t.Errorf("status %d, output %q", status, out)
	}
	// One question, whose answer was for both.
	asks := slices.DeleteFunc(g.Events("--session", "last"), func(e trial.Event) bool { return e.Op != "ask" })
	if len(asks) != 1 {
		t.Errorf("%d questions", len(asks))
	}
}

func TestAlways(t *testing.T) {
	tiers(t, func(t *testing.T, nobody bool) {
		g := newGround(t, nobody)
		file := filepath.Join(g.Home, ".config/reeve/policy.toml")
		two := []*running{start(t, g, nil, "cat", "{outside}/secret.txt"), start(t, g, nil, "cat", "{outside}/secret.txt")}
		list := pending(t, g, 2)
		rule := `"` + g.Outside + `/secret.txt" = "read"`
		first := g.Verb("asks", "allow", list[0].ID, "--scope", "always")
		if want := file + " gets:\n  [permissions.mine.filesystem]\n  " + rule + "\n" + list[0].ID + " allowed always"; first.Status != 0 || !strings.HasPrefix(first.Stdout, want) {
			t.Errorf("always: %d %q %q, want %q", first.Status, first.Stdout, first.Stderr, want)
		}
		second := g.Verb("asks", "allow", list[1].ID, "--scope", "always")
		if second.Status != 0 || !strings.HasPrefix(second.Stdout, file+" allows it already\n") {
			t.Errorf("a second time: %d %q %q", second.Status, second.Stdout, second.Stderr)
		}
		for _, r := range two {
			if status, out := r.wait(t); status != 0 || !strings.Contains(out, g.Token) {
				t.Errorf("status %d, output %q", status, out)
			}
		}
		text, err := os.ReadFile(file)
		want := strings.Replace(g.Expand(asking), "people's\n", "people's\n"+rule+"\n", 1)
		if err != nil || string(text) != want {
			t.Errorf("the file is\n%s\nwant\n%s", text, want)
		}
		// The next session asks nobody, and nothing beside it came in.
		r := g.Supervised(trial.Options{Flags: []string{"--ask", "deny"}}, "cat", "{outside}/secret.txt", "{outside}/tool")
		if !strings.Contains(r.Stdout, g.Token) || !strings.Contains(r.Stderr, "tool: Permission denied") {
			t.Errorf("the next session: %q %q", r.Stdout, r.Stderr)
		}
	})
}

// TestAlwaysCommand: always, said of a command that a class asks about, is a rule
// about that very command in that directory.
func TestAlwaysCommand(t *testing.T) {
	tiers(t, func(t *testing.T, nobody bool) {
		g := newGround(t, nobody)
		g.Native(trial.Options{}, "sh", "-c", "git init -q --bare there.git && git init -q here && cd here && git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m a && git remote add there ../there.git")
		g.Own(g.Workspace)
		push := func(branch string) []string {
			return []string{"sh", "-c", "cd here && git push -q --force there HEAD:" + branch}
		}
		r := start(t, g, nil, push("a")...)
		q := pending(t, g, 1)[0]
		got := g.Verb("asks", "allow", q.ID, "--scope", "always")
		rule := "[[permissions.mine.commands.rule]]\nprogram = \"/usr/bin/git\"\nargv = [\"git\", \"push\", \"-q\", \"--force\", \"there\", \"HEAD:a\"]\ncwd = \"" + g.Workspace + "/here\"\naction = \"allow\"\n"
		if shown := "  " + strings.ReplaceAll(strings.TrimSpace(rule), "\n", "\n  ") + "\n"; got.Status != 0 || !strings.Contains(got.Stdout, shown) {
			t.Errorf("always: %d %q %q, want %q", got.Status, got.Stdout, got.Stderr, shown)
		}
		if status, out := r.wait(t); status != 0 {
			t.Fatalf("the first push: %d %q", status, out)
		}
		text, err := os.ReadFile(filepath.Join(g.Home, ".config/reeve/policy.toml"))
		if err != nil || !strings.HasSuffix(string(text), rule) {
			t.Errorf("the file is\n%s\nwant at its end\n%s", text, rule)
		}
		again := g.Supervised(trial.Options{Flags: []string{"--ask", "deny"}}, push("a")...)
		if again.Status != 0 {
			t.Errorf("the same again: %d %q", again.Status, again.Stderr)
		}
		beside := g.Supervised(trial.Options{Flags: []string{"--ask", "deny"}}, push("b")...)
		if beside.Status == 0 {
			t.Errorf("another branch was pushed: %q", beside.Stdout)
		}
	})
}

// TestAgentCannotAnswer: `reeve asks` inside a session answers nothing.
func TestAgentCannotAnswer(t *testing.T) {
	tiers(t, func(t *testing.T, nobody bool) {
		g := newGround(t, nobody)
		program, err := os.ReadFile(g.Reeve)
		if err == nil {
			err = os.WriteFile(filepath.Join(g.Workspace, "reeve"), program, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		g.Own(g.Workspace)
		g.Rebase()
		script := `cat {outside}/secret.txt & sleep 0.5
			./reeve asks; ./reeve asks allow A; env -u REEVE_SESSION ./reeve asks --state {state}; env -u REEVE_SESSION ./reeve asks allow A --state {state}; wait; true`
		r := start(t, g, nil, "sh", "-c", script)
		q := pending(t, g, 1)[0]
		time.Sleep(3 * time.Second)
		if got := g.Verb("asks", "deny", q.ID); got.Status != 0 {
			t.Errorf("the question did not wait for us: %d %q", got.Status, got.Stderr)
		}
		_, out := r.wait(t)
		if strings.Contains(out, g.Token) || strings.Count(out, "cannot answer questions") != 4 {
			t.Errorf("output:\n%s", out)
		}
	})
}

func TestStatuses(t *testing.T) {
	g := newGround(t, false)
	r := start(t, g, nil, "sh", "-c", "cat {outside}/secret.txt & cat {outside}/tool >/dev/null & wait")
	list := pending(t, g, 2)
	prefix, _, _ := strings.Cut(list[0].ID, "-")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"allow", prefix}, 2, "is not the ID of a question"},
		{[]string{"allow", prefix + "-"}, 2, "is not the ID of a question"},
		{[]string{"allow", "3"}, 3, "no such question"},
		{[]string{"allow", list[0].Session + "-3"}, 3, "no such question"},
		{[]string{"allow", prefix + "-99"}, 3, "no such question"},
		{[]string{"allow", "NONE-1"}, 3, "no such question"},
		{[]string{"allow"}, 2, "the question's ID is missing"},
		{[]string{"allow", "a", "b"}, 2, "unexpected argument"},
		{[]string{"allow", list[0].ID, "--scope", "ever"}, 2, "expected once, session or always"},
		{[]string{"deny", list[0].ID, "--scope", "always"}, 2, "once or session"},
		{[]string{"drop"}, 2, "no such verb of asks"},
		{[]string{"allow", list[0].ID, "--reason", strings.Repeat("x", 2000)}, 1, "1024 bytes"},
	} {
		got := g.Verb(append([]string{"asks"}, c.args...)...)
		if got.Status != c.status || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%.60q: %d %q, want %d %q", c.args, got.Status, got.Stderr, c.status, c.want)
		}
	}
	complete := g.Verb("__complete", "asks", "allow", "")
	for _, q := range pending(t, g, 2) {
		if got := g.Verb("asks", "allow", q.ID); got.Status != 0 {
			t.Errorf("allow %s: %q", q.ID, got.Stderr)
		}
		_ = complete // of the default state, which is another
		again := g.Verb("asks", "deny", q.ID)
		if over := strings.Contains(again.Stderr, "is over"); again.Status != 3 || !over && !strings.Contains(again.Stderr, "answered already: allowed once by uid") {
			t.Errorf("again: %d %q", again.Status, again.Stderr)
		}
	}
	if status, out := r.wait(t); status != 0 || !strings.Contains(out, g.Token) {
		t.Errorf("status %d, output %q", status, out)
	}
}

// TestNumbersMeanThemselves: what is pending is never taken for another question
// that begins alike, nor for one of another session.
func TestNumbersMeanThemselves(t *testing.T) {
	g := newGround(t, false)
	for i := range 11 {
		if err := os.WriteFile(filepath.Join(g.Outside, "n"+strconv.Itoa(i+1)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, g, nil, "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11; do cat {outside}/n$i & done; wait")
	list := pending(t, g, 11)
	for _, q := range list[:9] {
		if got := g.Verb("asks", "deny", q.ID); got.Status != 0 {
			t.Fatal(got.Stderr)
		}
	}
	if got := g.Verb("asks", "allow", "1"); got.Status != 3 || !strings.Contains(got.Stderr, "is answered already: denied once") {
		t.Errorf("1, of 10 and 11: %d %q", got.Status, got.Stderr)
	}
	other := start(t, g, nil, "cat", "{outside}/secret.txt")
	pending(t, g, 3)
	if got := g.Verb("asks", "allow", "10"); got.Status != 2 || !strings.Contains(got.Stderr, "could be of session") || !strings.Contains(got.Stderr, list[0].Session) {
		t.Errorf("10, of two sessions: %d %q", got.Status, got.Stderr)
	}
	for _, q := range pending(t, g, 3) {
		if got := g.Verb("asks", "deny", q.Session+"-"+strings.Split(q.ID, "-")[1]); got.Status != 0 {
			t.Errorf("in full: %d %q", got.Status, got.Stderr)
		}
	}
	r.wait(t)
	other.wait(t)
}

// TestFollow: what comes and goes is told, of a session that begins later too;
// and a follower that is killed changes nothing.
func TestFollow(t *testing.T) {
	g := newGround(t, false)
	cmd := exec.Command(g.Reeve, "asks", "--follow", "--state", g.State)
	cmd.Env = g.Environ()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	await := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("%q never came: %v", want, lines.Err())
	}
	r := start(t, g, nil, "sh", "-c", "cat {outside}/secret.txt; cat {outside}/tool >/dev/null")
	await("open read " + g.Outside + "/secret.txt")
	if got := g.Verb("asks", "allow", pending(t, g, 1)[0].ID); got.Status != 0 {
		t.Fatal(got.Stderr)
	}
	await("allowed once by uid")
	await("open read " + g.Outside + "/tool")
	_ = cmd.Process.Kill()
	if got := g.Verb("asks", "allow", pending(t, g, 1)[0].ID); got.Status != 0 {
		t.Fatal(got.Stderr)
	}
	if status, out := r.wait(t); status != 0 {
		t.Errorf("status %d, output %q", status, out)
	}
}

// TestDeadline: nobody answers.
func TestDeadline(t *testing.T) {
	g := newGround(t, false)
	r := start(t, g, []string{"--ask-timeout", "300ms"}, "cat", "{outside}/secret.txt")
	if status, out := r.wait(t); status != 1 || !strings.Contains(out, "Permission denied") {
		t.Errorf("status %d, output %q", status, out)
	}
}

// TestOtherSessionCannotAnswer: nor does another session's task, under a policy
// that knows nothing of the first one's state and allows everything.
func TestOtherSessionCannotAnswer(t *testing.T) {
	const python = "/usr/bin/python3" // one that every user may run
	if _, err := os.Stat(python); err != nil {
		trial.Skip(t, "python3", err.Error())
	}
	tiers(t, func(t *testing.T, nobody bool) {
		g := newGround(t, nobody)
		r := start(t, g, nil, "cat", "{outside}/secret.txt")
		q := pending(t, g, 1)[0]
		script := `import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try: s.sendall(b'{"v":1,"do":"allow","id":"` + q.ID + `"}\n')
except BrokenPipeError: pass # it is refused before it has asked
print(s.makefile().readline())`
		socket := filepath.Join(g.State, "sessions", q.Session, "asks.sock")
		other := filepath.Join(g.Home, "other")
		line := []string{g.Reeve, "run", "-q", "--state", other, "--workspace", g.Workspace, "--profile", "observe", "--", python, "-c", script, socket}
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = g.Workspace, g.Environ(), &syscall.SysProcAttr{Credential: g.Cred}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"status":"refused"`) || !strings.Contains(string(out), "supervised itself") {
			t.Errorf("the other session: %v, %s", err, out)
		}
		// Control: the same from no session.
		cmd = exec.Command(python, "-c", script, socket)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: g.Cred}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `"status":"accepted"`) {
			t.Errorf("control: %v, %s", err, out)
		}
		if status, out := r.wait(t); status != 0 || !strings.Contains(out, g.Token) {
			t.Errorf("status %d, output %q", status, out)
		}
	})
}

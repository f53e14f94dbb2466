package escapes_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

var update = flag.Bool("update", false, "write the recorded screens anew")

// A window is a terminal that shows what is on it, as a person would see it: one of
// tmux's.
type window struct {
	t      *testing.T
	g      *trial.Ground
	tmux   string
	record strings.Builder
}

const windowPolicy = `default_permissions = "trial"
[permissions.trial]
description = "A workspace where some files ask."
extends = ":workspace"
[permissions.trial.filesystem]
":minimal" = "read"
[permissions.trial.filesystem.":workspace_roots"]
"." = "write"
"asked*" = "ask"
`

const windowRows = 20

// openWindow runs a shell in a window of 140 columns.
func openWindow(t *testing.T, g *trial.Ground) *window {
	t.Helper()
	w := &window{t: t, g: g, tmux: trial.NeedProgram(t, "tmux")}
	files := map[string]string{
		"policy-ask.toml": windowPolicy, "ws/asked.txt": "was asked for\n", "ws/asked2.txt": "asked as well\n",
		"ws/text": strings.Repeat("a line of text\n", 100),
	}
	for name, text := range files {
		w.write(filepath.Join(g.Base, name), text)
	}
	w.run("-f", "/dev/null", "new-session", "-d", "-x", "140", "-y", strconv.Itoa(windowRows), "-c", g.Workspace, "env PS1='> ' sh")
	t.Cleanup(func() { _ = w.command("kill-server").Run() })
	w.shows(`(?m)^>$`)
	return w
}

// write makes a file that is the user's.
func (w *window) write(path, text string) {
	w.t.Helper()
	err := os.WriteFile(path, []byte(text), 0o755)
	if err == nil && w.g.Cred != nil {
		err = os.Chown(path, w.g.UID(), w.g.GID())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *window) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.tmux, append([]string{"-S", filepath.Join(w.g.Base, "tmux")}, args...)...)
	cmd.Dir, cmd.Env = w.g.Workspace, w.g.Environ("NO_COLOR=1", "SHELL=/bin/sh")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.g.Cred}
	return cmd
}

func (w *window) run(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// supervise types the command line that runs a shell script under reeve.
func (w *window) supervise(script string) {
	w.t.Helper()
	w.write(w.g.Workspace+"/script", script)
	line := w.g.Command(trial.Options{Flags: []string{"--policy", "{base}/policy-ask.toml", "--ask", "tty"}}, "/bin/sh", "script")
	w.keys("clear; "+strings.Join(line, " "), "Enter")
}

// keys types words; those that tmux has a name for are keys.
func (w *window) keys(words ...string) {
	w.t.Helper()
	w.run(append([]string{"send-keys"}, words...)...)
}

// answer types a key once it is taken for an answer.
func (w *window) answer(key string) {
	w.t.Helper()
	time.Sleep(500 * time.Millisecond)
	w.keys(key)
}

func (w *window) screen() string {
	w.t.Helper()
	return strings.TrimRight(w.run("capture-pane", "-p"), "\n") + "\n"
}

// shows waits until the screen matches a pattern, and returns it.
func (w *window) shows(pattern string) (screen string) {
	w.t.Helper()
	re := regexp.MustCompile(pattern)
	if !waitFor(w.t, 20*time.Second, func() bool { screen = w.screen(); return re.MatchString(screen) }) {
		w.t.Fatalf("the screen never matched %q; it is\n%s", pattern, screen)
	}
	return screen
}

var variable = regexp.MustCompile(`\d+:\d\d left|\b\d{2,7} (/bin/sh|sh|cat|vim?|less)\b`)

// keep adds what a screen shows to the record, without what differs between runs.
func (w *window) keep(title, screen string) {
	screen = strings.ReplaceAll(screen, w.g.Base, "{base}")
	screen = variable.ReplaceAllStringFunc(screen, func(s string) string {
		if strings.HasSuffix(s, "left") {
			return "M:SS left"
		}
		_, name, _ := strings.Cut(s, " ")
		return "PID " + name
	})
	w.record.WriteString("--- " + title + "\n" + screen)
}

func (w *window) golden(name string) {
	w.t.Helper()
	file := filepath.Join("testdata", name+".screens")
	got := w.record.String()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	if got != string(want) {
		w.t.Errorf("%s differs (-update writes it anew); got:\n%s", file, got)
	}
}

// TestAskOverProgram: a question while a full-screen program runs covers it and
// leaves it as it was. Recorded.
func TestAskOverProgram(t *testing.T) {
	for _, c := range []struct{ name, command, ready, quit string }{
		{"vim", "vim -u NONE -N text", `^(a line of text\n){19}"text" 100L`, ":q"},
		{"less", "less text", `^(a line of text\n){19}text\n`, "q"},
		{"less-X", "less -X text", `^(a line of text\n){19}text\n`, "q"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				trial.NeedProgram(t, strings.Fields(c.command)[0])
				w := openWindow(t, trial.NewGround(t, nobody))
				w.supervise("(while ! [ -e go ]; do sleep 0.1; done; cat asked.txt > got) &\n" + c.command + "\ncat got\n")
				before := w.shows(c.ready)
				w.write(w.g.Workspace+"/go", "")
				question := w.shows(`question 1 of 1[^$]*N no, this session`)
				w.answer("y")
				var after string
				if !waitFor(t, 10*time.Second, func() bool { after = w.screen(); return text(after) == text(before) }) {
					t.Errorf("the screen was\n%sand after the question it is\n%s", before, after)
				}
				w.keys(c.quit, "Enter")
				end := w.shows("was asked for\n>")
				w.keep(c.name, before)
				w.keep("question", question)
				w.keep("answered", text(after))
				if c.name == "vim" {
					w.keep("left", end[strings.Index(end, "was asked"):])
				}
				w.golden("ask-" + c.name)
				answered(t, w.g, "allow")
			})
		})
	}
}

// text is a screen without its last row, in which programs say other things when
// they have drawn it anew.
func text(screen string) string {
	rows := strings.Split(screen, "\n")
	return strings.Join(rows[:min(len(rows), windowRows-1)], "\n") + "\n"
}

// answered: the record has the question, and the answer of somebody on the terminal.
func answered(t *testing.T, g *trial.Ground, action string) {
	t.Helper()
	for _, e := range g.Events("--session", "last") {
		if e.Op == "answer" && e.Action == action && strings.HasSuffix(e.By, "on the terminal") {
			return
		}
	}
	t.Errorf("no answer %q by somebody on the terminal is recorded", action)
}

// TestAskTwo: two questions wait at once, one is answered no and one yes, and the
// rest of the tree runs on meanwhile. Recorded.
func TestAskTwo(t *testing.T) {
	w := openWindow(t, trial.NewGround(t, false))
	w.supervise(`(sleep 0.3; echo on > ran) & (sleep 0.6; cat asked2.txt) & cat asked.txt; wait; cat ran` + "\n")
	w.keep("two questions", w.shows(`question 1 of 2[^$]*N no, this session`))
	if !waitFor(t, 5*time.Second, func() bool { _, err := os.Stat(w.g.Workspace + "/ran"); return err == nil }) {
		t.Error("the rest of the tree waits as well")
	}
	w.answer("n")
	w.keep("the second", w.shows(`question 2 of 2[^$]*N no, this session`))
	w.answer("y")
	end := w.shows("asked as well\n(.*\n)*on\n>")
	w.keep("answered", end[strings.Index(end, "cat: asked"):])
	w.golden("ask-two")
	answered(t, w.g, "deny")
}

// TestAskInterrupt: ^C at the question denies, and interrupts the command as ^C
// always does. What ran reeve ends as well.
func TestAskInterrupt(t *testing.T) {
	w := openWindow(t, trial.NewGround(t, false))
	w.supervise("cat asked.txt; echo not here\n")
	w.shows("question 1 of 1")
	w.answer("C-c")
	w.shows(`>\n$`)
	w.keys("echo status=$?", "Enter")
	if screen := w.shows(`status=\d+`); !strings.Contains(screen, "status=130") || strings.Contains(screen, "not here") {
		t.Errorf("after ^C:\n%s", screen)
	}
}

// TestAskTimeout: a question nobody answers denies itself.
func TestAskTimeout(t *testing.T) {
	w := openWindow(t, trial.NewGround(t, false))
	line := w.g.Command(trial.Options{Flags: []string{"--policy", "{base}/policy-ask.toml", "--ask-timeout", "2s"}}, "/bin/cat", "asked.txt")
	w.keys(strings.Join(line, " "), "Enter")
	w.shows("question 1 of 1")
	w.shows("Permission denied")
}

// TestAskStop: ^Z at the question stops the command and reeve, the shell has the
// terminal back, and fg asks again.
func TestAskStop(t *testing.T) {
	w := openWindow(t, trial.NewGround(t, false))
	w.run("respawn-pane", "-k", "-c", w.g.Workspace, "env PS1='> ' bash --norc --noprofile -i")
	w.shows(`(?m)^>$`)
	w.supervise("cat asked.txt\n")
	w.shows("question 1 of 1")
	w.answer("C-z")
	w.shows("Stopped")
	w.keys("stty -a | grep -o ' icanon'; echo she''ll", "Enter")
	w.shows(`icanon\nshell`)
	w.keys("fg", "Enter")
	w.shows("question 1 of 1")
	w.answer("y")
	w.shows("was asked for")
}

// TestAskBackground: a question of a job in the background is announced, and asked
// when the job is in the foreground.
func TestAskBackground(t *testing.T) {
	w := openWindow(t, trial.NewGround(t, false))
	w.run("respawn-pane", "-k", "-c", w.g.Workspace, "env PS1='> ' bash --norc --noprofile -i")
	w.shows(`(?m)^>$`)
	line := w.g.Command(trial.Options{Flags: []string{"--policy", "{base}/policy-ask.toml", "--ask", "tty"}}, "/bin/cat", "asked.txt")
	w.keys(strings.Join(line, " ")+" &", "Enter")
	w.shows("reeve: a question waits for an answer")
	w.keys("echo she''ll", "Enter")
	w.shows(`(?m)^shell$`)
	w.keys("fg", "Enter")
	w.shows("question 1 of 1")
	w.answer("y")
	w.shows("was asked for")
}

// TestAskResize: the question fits a window of another size, and so does the
// program below it.
func TestAskResize(t *testing.T) {
	trial.NeedProgram(t, "vim")
	w := openWindow(t, trial.NewGround(t, false))
	w.supervise("(while ! [ -e go ]; do sleep 0.1; done; cat asked.txt > got) &\nvim -u NONE -N text\nstty size\n")
	w.shows(`"text" 100L`)
	w.write(w.g.Workspace+"/go", "")
	w.shows("question 1 of 1")
	w.run("resize-window", "-x", "60", "-y", "12")
	w.shows("(?m)^y once")
	w.answer("n")
	w.shows(`^(a line of text\n){11}`)
	time.Sleep(500 * time.Millisecond) // until the window has its size again
	w.keys(":q", "Enter")
	w.shows("12 60")
}

// TestAskHangup: a terminal that is closed denies, and ends the command.
func TestAskHangup(t *testing.T) {
	w := openWindow(t, trial.NewGround(t, false))
	w.supervise("cat asked.txt > got 2>&1\nsleep 100\n")
	w.shows("question 1 of 1")
	w.run("kill-server")
	if !waitFor(t, 15*time.Second, func() bool { return len(w.g.Processes()) == 0 }) {
		t.Errorf("still running: %v", w.g.Processes())
	}
	for _, e := range w.g.Events("--session", "last") {
		if e.Op == "answer" && e.Action == "deny" {
			return
		}
	}
	t.Error("no denial is recorded")
}

// TestAskEscapes: names and arguments cannot paint over the question (Y08).
func TestAskEscapes(t *testing.T) {
	w := openWindow(t, trial.NewGround(t, false))
	w.write(w.g.Workspace+"/asked\x1b[2J\x1b[H\x1b]0;owned\a\r\nopen read harmless\u009b1m", "painted\n")
	w.supervise("cat asked?*harmless*\n")
	screen := w.shows("question 1 of 1[^$]*N no, this session")
	if !strings.Contains(screen, `asked\x1b[2J\x1b[H\x1b]0;owned\x07\x0d\nopen read harmless\u{9b}1m`) {
		t.Errorf("not escaped:\n%s", screen)
	}
	w.answer("n")
	w.shows("Permission denied")
}

// TestAskKilled: when reeve is killed at a question, the command dies with it and
// the shell has a terminal that works.
func TestAskKilled(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		w := openWindow(t, trial.NewGround(t, nobody))
		w.supervise("cat asked.txt\n")
		w.shows("question 1 of 1")
		for _, pid := range w.running(w.g.Reeve + "\x00run") {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if !waitFor(t, 5*time.Second, func() bool { return len(w.running("cat\x00asked.txt"))+len(w.running("reeve-init")) == 0 }) {
			t.Error("the command or its init still runs")
		}
		w.keys("clear; stty -a | grep -o ' icanon'", "Enter")
		w.shows("(?m)^ icanon")
	})
}

// running are the processes on the ground whose command line begins so.
func (w *window) running(line string) (pids []int) {
	for _, pid := range w.g.Processes() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.HasPrefix(string(text), line) {
			pids = append(pids, pid)
		}
	}
	return pids
}

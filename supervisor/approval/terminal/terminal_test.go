package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// TestTwoQuestions: they queue visibly, each key means its answer, and the screen
// comes back. Recorded.
func TestTwoQuestions(t *testing.T) {
	p := startFlow(t, `stty -echo; echo ready; read line; echo "got $line"`)
	p.expect("ready")
	p.ask("/ws/a")
	p.expect("question 1 of 1")
	p.ask("/ws/b")
	p.expect("question 1 of 2")
	p.press("y")
	p.want("/ws/a", true, approval.Once)
	p.expect("question 2 of 2")
	p.press("N")
	p.want("/ws/b", false, approval.Session)
	p.expect("\x1b[?1049l")
	p.write("text\r")
	p.expect("got text")
	p.end()
	golden(t, "two-questions", p.recorded())
}

// TestAlways: the rule is shown before it is written. Recorded.
func TestAlways(t *testing.T) {
	p := startFlow(t, `stty -echo; echo ready; read line`)
	p.expect("ready")
	p.ask("/ws/a")
	p.expect("open read /ws/a")
	p.press("a")
	p.expect("write this rule?")
	p.expect("policy.toml")
	p.press("x") // back to the question
	p.expect("open read /ws/a")
	p.press("a")
	p.expect("write this rule?")
	p.press("y")
	p.want("/ws/a", true, approval.Always)
	p.expect("\x1b[?1049l")
	p.write("\r")
	p.end()
	golden(t, "always", p.recorded())
}

// TestInterrupt: ^C at the question is no, and reaches the command. Recorded.
func TestInterrupt(t *testing.T) {
	p := startFlow(t, `trap 'echo interrupted; exit' INT; stty -echo; echo ready; while :; do sleep 0.1; done`)
	p.expect("ready")
	p.ask("/ws/a")
	p.expect("question 1 of 1")
	p.press("\x03")
	p.want("/ws/a", false, approval.Once)
	p.expect("\x1b[?1049l")
	p.expect("interrupted")
	p.end()
	golden(t, "interrupt", p.recorded())
}

// TestWithdrawn: a question that is out of time, or whose task is gone, goes away
// by itself, and the next one is shown.
func TestWithdrawn(t *testing.T) {
	p := startFlow(t, `stty -echo; echo ready; read line`)
	p.expect("ready")
	p.order(order{Path: "/ws/a", Timeout: 700 * time.Millisecond})
	p.ask("/ws/b")
	p.expect("open read /ws/a")
	p.expect("open read /ws/b")
	if o := p.answer(); o.Path != "/ws/a" || o.Answer.Allow {
		t.Errorf("%+v", o)
	}
	p.order(order{Withdraw: "/ws/b"})
	p.expect("\x1b[?1049l")
	if o := p.answer(); o.Path != "/ws/b" || o.Answer.Allow {
		t.Errorf("%+v", o)
	}
	p.write("\r")
	p.end()
}

// TestKeysAreNoAnswers: what was typed to the command, pastes, bursts and other
// keys.
func TestKeysAreNoAnswers(t *testing.T) {
	p := startFlow(t, `stty -echo; echo ready; read line; echo "got $line"`)
	p.expect("ready")
	p.write("ahead")
	p.ask("/ws/a")
	p.expect("question 1 of 1")
	const typed = 25
	for range typed { // somebody types on, and has not seen the question
		p.write("y")
		time.Sleep(2 * quiet / typed)
	}
	for _, keys := range []string{"yn", "\x1b[200~yyy\x1b[201~", "\x1b", "\r", "\x1b[A", "\x1by", "\x1b[<0;3;3M", "\x1b]11;y\x07", "z"} {
		p.press(keys)
	}
	p.write("\x1b[?2026;2$") // a reply in two parts
	time.Sleep(time.Second)
	p.write("y")
	time.Sleep(200 * time.Millisecond)
	select {
	case o := <-p.outcomes:
		t.Fatalf("answered: %+v", o)
	default:
	}
	p.press("s")
	p.want("/ws/a", true, approval.Session)
	p.expect("\x1b[?1049l")
	p.write("\r")
	p.expect("got ahead" + strings.Repeat("y", typed) + "\x1b]11;y\x07") // the terminal's reply is the command's
	p.end()
}

// TestReplies: what the terminal says to the command reaches it during a question.
func TestReplies(t *testing.T) {
	p := startFlow(t, `stty raw -echo; echo ready; dd bs=1 count=6 2>/dev/null | od -An -c; read line`)
	p.expect("ready")
	p.ask("/ws/a")
	p.expect("question 1 of 1")
	p.press("\x1b[5;7R")
	p.press("n")
	p.want("/ws/a", false, approval.Once)
	p.expect(`033   [   5   ;   7   R`)
	p.write("\n")
	p.end()
}

// TestFullScreen: a question over a program on the alternate screen, in the middle
// of a sequence; the program is made to draw anew.
func TestFullScreen(t *testing.T) {
	p := startFlow(t, `trap 'stty size' WINCH; stty -echo
printf '\033[?1049h\033[?1000h\033[?25lready'; sleep 0.4; printf '\033[3'; sleep 1; printf '1mred'; while sleep 0.05; do :; done`)
	p.expect("ready")
	time.Sleep(600 * time.Millisecond)
	p.ask("/ws/a")
	p.expect("\x1b7")
	p.expect("\x1b[?1000l")
	p.expect("question 1 of 1")
	mark := len(p.screen())
	time.Sleep(time.Second)
	if seen := p.screen()[mark:]; strings.Contains(seen, "red") {
		t.Errorf("output of the command in the question: %q", seen)
	}
	p.press("y")
	p.want("/ws/a", true, approval.Once)
	p.expect("\x1b[?1000h")
	p.expect("\x1b[?25l")
	p.expect("\x1b8")
	p.expect("11 60")
	p.expect("12 60")
	if strings.Contains(p.screen(), "\x1b[?1049l") {
		t.Errorf("left the alternate screen: %q", p.screen())
	}
	p.cmd.Process.Signal(syscall.SIGKILL)
}

// TestUnfinished: a sequence that the command does not end holds no question up;
// it is ended, and sent again afterwards.
func TestUnfinished(t *testing.T) {
	p := startFlow(t, `stty -echo; printf 'ready\033]0;evil'; read line; printf ' title\a\nend\n'`)
	p.expect("ready")
	p.ask("/ws/a")
	p.expect("\x18\x1b\\")
	p.expect("question 1 of 1")
	p.press("y")
	p.want("/ws/a", true, approval.Once)
	p.expect("\x1b[?1049l\x1b]0;evil")
	p.write("\r")
	p.expect(" title\a\r\nend")
	p.end()
}

// TestFlood: output waits while a question is shown, all of it comes afterwards,
// and none is lost at the end.
func TestFlood(t *testing.T) {
	const lines = 60000
	p := startFlow(t, fmt.Sprintf(`stty -echo; echo ready; read line; seq 1 %d`, lines))
	p.expect("ready")
	p.write("\r")
	p.expect("\r\n500\r\n")
	p.ask("/ws/a")
	p.expect("question 1 of 1")
	time.Sleep(200 * time.Millisecond)
	before := clockShown.ReplaceAllString(p.screen(), "")
	time.Sleep(500 * time.Millisecond)
	if after := clockShown.ReplaceAllString(p.screen(), ""); len(after)-len(before) > 2000 { // a second's frame
		t.Errorf("%d bytes came while the question was shown", len(after)-len(before))
	}
	p.press("y")
	p.want("/ws/a", true, approval.Once)
	p.end()
	time.Sleep(100 * time.Millisecond)
	text := p.screen()
	for cut := strings.Index(text, "\x1b[?1049h"); cut >= 0; cut = strings.Index(text, "\x1b[?1049h") {
		text = text[:cut] + text[strings.Index(text, "\x1b[?1049l")+len("\x1b[?1049l"):]
	}
	var want bytes.Buffer
	want.WriteString("ready\r\n")
	for i := range lines {
		fmt.Fprintf(&want, "%d\r\n", i+1)
	}
	if text != want.String() {
		t.Errorf("%d bytes of output, want %d", len(text), want.Len())
	}
}

// TestResize: the question fits the new window, and the command learns its size.
func TestResize(t *testing.T) {
	p := startFlow(t, `stty -echo; echo ready; read line; stty size`)
	p.expect("ready")
	p.ask("/ws/a")
	p.expect("\x1b[12;1H")
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 5, Cols: 30}); err != nil {
		t.Fatal(err)
	}
	p.expect("\x1b[2J")
	p.expect("\x1b[5;1Hy/s/a/n/N v?")
	p.press("y")
	p.want("/ws/a", true, approval.Once)
	p.expect("\x1b[?1049l")
	p.write("\r")
	p.expect("5 30")
	p.end()
}

// TestHangup: a terminal that is closed denies, and hangs up the command.
func TestHangup(t *testing.T) {
	p := startFlow(t, `trap 'echo hup > "$FLOW_FILE"; exit' HUP; echo ready; while :; do sleep 0.1; done`, "FLOW_FILE="+t.TempDir()+"/hup")
	p.expect("ready")
	p.ask("/ws/a")
	p.ask("/ws/b")
	p.expect("of 2")
	p.slave.Close()
	p.tty.Close()
	for range 2 {
		if o := p.answer(); o.Answer.Allow || o.Answer.By != "the terminal" {
			t.Errorf("%+v", o)
		}
	}
	_ = p.cmd.Wait() // it may die of the hangup itself
}

// TestInjection: nothing that a command chose reaches the terminal raw (Y08).
func TestInjection(t *testing.T) {
	p := startFlow(t, `stty -echo; echo ready; read line`)
	p.expect("ready")
	p.ask("/ws/\x1b[2J\x1b]0;owned\x07\u009b31m\u202e\n\r\x08x")
	p.expect(`open read /ws/\x1b[2J\x1b]0;owned\x07`)
	p.press("n")
	p.answer()
	p.expect("\x1b[?1049l")
	p.write("\r")
	p.end()
	if s := p.screen(); strings.Contains(s, "\x1b]0;owned") || strings.ContainsAny(s, "\u009b\u202e\x07\x08") {
		t.Errorf("raw: %q", s)
	}
}

// TestInline: terminals without a second screen, and those that take no sequence.
func TestInline(t *testing.T) {
	for _, term := range []string{"dumb", "linux"} {
		t.Run(term, func(t *testing.T) {
			p := startFlow(t, `stty -echo; echo ready; read line; echo "got $line"`, "TERM="+term, "LC_ALL=C")
			p.expect("ready")
			p.ask("/ws/a\u00e9")
			p.expect("question 1 of 1")
			p.expect("open read /ws/a\\u{e9}\r\n")
			p.press("y")
			if o := p.answer(); !o.Answer.Allow {
				t.Errorf("%+v", o)
			}
			p.write("text\r")
			p.expect("got text")
			p.end()
			if s := p.screen(); term == "dumb" && strings.Contains(s, "\x1b") {
				t.Errorf("a sequence for a dumb terminal: %q", s)
			}
			golden(t, "inline-"+term, p.recorded())
		})
	}
}

// TestRestored: the terminal is as it was, also when the command changed its own,
// and what was typed ahead is there.
func TestRestored(t *testing.T) {
	p := startFlow(t, `stty raw -echo; echo ready; sleep 1`)
	p.expect("ready")
	raw, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil || raw.Lflag&unix.ICANON != 0 {
		t.Errorf("not raw while the command runs: %v", err)
	}
	p.write("ahead\r")
	p.end()
	after, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil || *after != p.modes {
		t.Errorf("modes %+v, before %+v: %v", after, p.modes, err)
	}
	n, err := unix.IoctlGetInt(int(p.slave.Fd()), unix.TIOCINQ)
	if allowed := mayPutBack(t); err != nil || allowed && n != len("ahead\n") {
		t.Errorf("%d bytes typed ahead: %v", n, err)
	}
}

// mayPutBack says whether the kernel lets us put input into a terminal's queue.
func mayPutBack(t *testing.T) bool {
	t.Helper()
	legacy, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti")
	return unix.Geteuid() == 0 || err != nil || strings.TrimSpace(string(legacy)) == "1"
}

// TestResizeBeforeKeys: what is typed after the window changed is read by a command
// whose window has changed.
func TestResizeBeforeKeys(t *testing.T) {
	p := startFlow(t, `stty -echo; echo ready; while read line; do stty size; done`)
	p.expect("ready")
	for i := range 200 {
		if err := pty.Setsize(p.tty, &pty.Winsize{Rows: uint16(20 + i%2), Cols: uint16(100 + i)}); err != nil {
			t.Fatal(err)
		}
		p.write("\r")
		p.expect(fmt.Sprintf("%d %d\r\n", 20+i%2, 100+i))
	}
	p.write("\x04")
	p.end()
}

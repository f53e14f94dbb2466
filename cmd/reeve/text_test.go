package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/creack/pty"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"/plain/path": "/plain/path", "naïve—ß": "naïve—ß", "a b": "a b",
		"\x1b[2J": `\x1b[2J`, "a\nb\tc": `a\nb\tc`, "\x7f\x80": `\x7f\x80`, "bad\xffutf": `bad\xffutf`,
		"rtl\u202egnp.exe": `rtl\u{202e}gnp.exe`, "\u200bzero": `\u{200b}zero`, `C:\x`: `C:\\x`,
		"a\u3164b\u115f\u1160\uffa0": `a\u{3164}b\u{115f}\u{1160}\u{ffa0}`, "e\u0301": "e\u0301",
		"a" + strings.Repeat("\u0301", 6) + "e\u0301": "a" + strings.Repeat("\u0301", 4) + `\u{301}\u{301}` + "e\u0301",
		"\u009b31m": `\u{9b}31m`, "\ufffd": "\ufffd",
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %s, want %s", in, got, want)
		}
	}
}

// Whatever a path is made of, what is shown has only printable characters, and
// two different paths never look the same.
func FuzzEscape(f *testing.F) {
	f.Add("a\x1b]0;x\x07", `a\x1b`)
	f.Add("\xff", `\xff`)
	f.Add("\u202e", `\u{202e}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		ea, eb := escape(a), escape(b)
		for _, r := range ea {
			if !unicode.IsPrint(r) {
				t.Errorf("escape(%q) shows %U", a, r)
			}
		}
		if !utf8.ValidString(ea) {
			t.Errorf("escape(%q) is not UTF-8", a)
		}
		if (a == b) != (ea == eb) {
			t.Errorf("%q and %q look alike: %s", a, b, ea)
		}
	})
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"": "''", "plain": "plain", "/a/b.c": "/a/b.c", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "a\nb": `'a\nb'`,
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"nothing", nil, 0, ""},
		{"plain", errors.New("open store: no such file"), 1, "reeve: open store: no such file\n"},
		{"status only", exitStatus(2), 2, ""},
		{"wrapped status", fmt.Errorf("x: %w", failWith(126, errors.New("denied"))), 126, "reeve: x: denied\n"},
		{"hint", withHint(errors.New("a"), "do b"), 1, "reeve: a\nhint: do b\n"},
		{"several lines", errors.Join(errors.New("a"), errors.New("b")), 1, "reeve: a; b\n"},
		{"escape sequences", errors.New("open \x1b[2J: no"), 1, "reeve: open \\x1b[2J: no\n"},
		{"backslash", errors.New(`open "a\x00"`), 1, "reeve: open \"a\\x00\"\n"},
	} {
		var out bytes.Buffer
		if got := report(&out, tc.err); got != tc.status || out.String() != tc.want {
			t.Errorf("%s: status %d, %q; want %d, %q", tc.name, got, out.String(), tc.status, tc.want)
		}
	}
}

func TestInkIsOffWithoutTerminal(t *testing.T) {
	if got := inkFor(&bytes.Buffer{}).paint(red, "x"); got != "x" {
		t.Errorf("coloured without a terminal: %q", got)
	}
	if got := ink(true).paint(red, "x"); !strings.Contains(got, "\x1b[31m") {
		t.Errorf("control: not coloured on a terminal: %q", got)
	}
}

func TestInkOnTerminal(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	for _, tc := range []struct {
		noColor, term string
		want          ink
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", tc.noColor)
		t.Setenv("TERM", tc.term)
		if got := inkFor(tty); got != tc.want {
			t.Errorf("NO_COLOR=%q TERM=%q: coloured %v, want %v", tc.noColor, tc.term, got, tc.want)
		}
	}
}

func TestHang(t *testing.T) {
	for _, c := range []struct {
		text          string
		indent, width int
		want          string
	}{
		{"", 4, 80, ""},
		{"one two", 4, 80, "one two"},
		{"a line of exactly thirty signs", 2, 32, "a line of exactly thirty signs"},
		{"a line of exactly thirty signs!", 2, 32, "a line of exactly thirty\n  signs!"},
		{"ä line öf exactly thirty signs", 2, 32, "ä line öf exactly thirty signs"},
		{"a page too narrow for its indent has some", 40, 20, "a page too narrow for its\n" + strings.Repeat(" ", 40) + "indent has some"},
		{"a /path/that/is/much/longer/than/a/line/of/thirty b", 1, 31, "a\n /path/that/is/much/longer/than/a/line/of/thirty\n b"},
	} {
		if got := hang(c.text, c.indent, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

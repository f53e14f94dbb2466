package terminal

import (
	"strings"
	"testing"
)

// TestScreen: the modes that a program's output leaves, however it is cut into
// pieces, and what takes the terminal and gives it back.
func TestScreen(t *testing.T) {
	for _, c := range []struct{ name, output, modes, back string }{
		{"nothing", "hello\r\n", "", "\x1b[?1049l"},
		{"alternate", "\x1b[?1049h\x1b[2J", "alternate", "\x1b8"},
		{"alternate and back", "\x1b[?1049h\x1b[?1049l", "", "\x1b[?1049l"},
		{"old alternate", "\x1b[?47h", "alternate", "\x1b8"},
		{"several in one", "\x1b[?1047;25l\x1b[?1000;1006;2004h", "mouse paste nocursor", "\x1b[?1006h"},
		{"mouse off again", "\x1b[?1002h\x1b[?1002l", "", "\x1b[?1049l"},
		{"region", "\x1b[5;20r", "region", "\x1b[5;20r"},
		{"region gone", "\x1b[5;20r\x1b[r", "", "\x1b[?1049l"},
		{"restored modes are no region", "\x1b[?7r", "", "\x1b[?1049l"},
		{"insert", "\x1b[4h", "insert", "\x1b[4h"},
		{"margins", "\x1b[?69h\x1b[1;40s", "margins", "\x1b[?69h\x1b[1;40s"},
		{"margins off", "\x1b[?69h\x1b[1;40s\x1b[?69l", "", "\x1b[?1049l"},
		{"a saved cursor", "\x1b[s", "", "\x1b[?1049l"},
		{"palette", "\x1b]4;15;#000000\a", "coloured", "\x1b[?1049l"},
		{"background", "\x1b]011;#000\x1b\\", "coloured", "\x1b[?1049l"},
		{"colours and a reset", "\u009d5;0;#000\a\x1bc", "coloured", "\x1b[?1049l"},
		{"console's palette", "\x1b]P0ffffff\a", "coloured", "\x1b[?1049l"},
		{"no colours", "\x1b]0;4;x\a\x1b]8;;http://x\a\x1b]133;A\a\x1b]40;1\a\x1b]777;4;1\a", "", "\x1b[?1049l"},
		{"reset", "\x1b[?1049h\x1b[4h\x1b[?1000h\x1bc", "", "\x1b[?1049l"},
		{"soft reset", "\x1b[?1049h\x1b[4h\x1b[?25l\x1b[!p", "alternate", "\x1b8"},
		{"in a string", "\x1b]0;\x1b[?1049h\a", "alternate", "\x1b8"}, // ESC ends a string
		{"text of a string", "\x1b]0;[?1049h\a", "", "\x1b[?1049l"},
		{"cancelled", "\x1b[?1049\x18h", "", "\x1b[?1049l"},
		{"control within", "\x1b[?10\r49h", "alternate", "\x1b8"},
		{"C1 in UTF-8", "\u009b?1049h", "alternate", "\x1b8"},
		{"after a character", "é世\x1b[?1049h", "alternate", "\x1b8"},
		{"after a broken one", "\xe4\x1b[?1049h", "alternate", "\x1b8"},
		{"kitty", "\x1b[>1u", "", "\x1b[<u"},
		{"other keys", "\x1b[>4;2m", "", "\x1b[>4;2m"},
		{"too long", "\x1b[?" + strings.Repeat("0", 200) + "1049h", "", "\x1b[?1049l"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for at := range len(c.output) + 1 {
				var s screen
				s.feed([]byte(c.output[:at]), false)
				s.feed([]byte(c.output[at:]), false)
				if s.state != ground || len(s.part) != 0 {
					t.Fatalf("cut at %d: ends in state %d with %q", at, s.state, s.part)
				}
				if got := describe(&s); got != c.modes {
					t.Fatalf("cut at %d: modes %q, want %q", at, got, c.modes)
				}
				if got := string(s.giveBack(false)); !strings.Contains(got, c.back) {
					t.Fatalf("gives back by %q, want %q in it", got, c.back)
				}
			}
		})
	}
}

func describe(s *screen) string {
	var words []string
	for _, w := range []struct {
		word string
		on   bool
	}{
		{"alternate", s.alternate()}, {"mouse", s.is(1000) || s.is(1002)}, {"paste", s.is(modePaste)},
		{"nocursor", !s.is(modeCursor)}, {"region", s.region != ""}, {"insert", s.insert},
		{"margins", s.is(modeMargins) && s.margins != ""}, {"coloured", s.coloured},
	} {
		if w.on {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, " ")
}

// TestTake: what the terminal is put through, whole.
func TestTake(t *testing.T) {
	var s screen
	s.feed([]byte("\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[?25l\x1b[2;9r"), false)
	const neutral = "\x1b[?69l\x1b[r\x1b[?6l\x1b[4l\x1b(B\x0f\x1b[0m\x1b[?1000l\x1b[?1006l\x1b[?2004h\x1b[?7l\x1b[?25l"
	if got, want := string(s.take(false)), "\x1b[?1049h"+neutral; got != want {
		t.Errorf("take\n got %q\nwant %q", got, want)
	}
	const back = "\x1b[0m\x1b[2J\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[?7h\x1b[?25l\x1b[2;9r"
	if got, want := string(s.giveBack(false)), back+"\x1b[?1049l"; got != want {
		t.Errorf("give back\n got %q\nwant %q", got, want)
	}
	s.feed([]byte("\x1b]11;#000\a"), false)
	if got := string(s.take(false)); !strings.Contains(got, "\x1b]104\x1b\\") || !strings.Contains(got, "\x1b]111\x1b\\") {
		t.Errorf("colours stay: %q", got)
	}
	s.feed([]byte("\x1b[?1049h"), false)
	if got, want := string(s.take(false)), "\x1b7"+neutral; got != want {
		t.Errorf("take the alternate screen\n got %q\nwant %q", got, want)
	}
	if got, want := string(s.giveBack(false)), back+"\x1b8"; got != want {
		t.Errorf("give the alternate screen back\n got %q\nwant %q", got, want)
	}
}

// TestStop: where a question may come in.
func TestStop(t *testing.T) {
	for _, c := range []struct {
		begun, rest string
		want        int
	}{
		{"", "text", 1}, {"\x1b", "[31mred", 4}, {"\x1b[3", "1mred", 2}, {"\x1b]0;ti", "tle\a$", 4},
		{"\x1b]0;title\x1b", "\\$", 1}, {"\xe4", "\xb8\x96!", 2}, {"\x1b(", "B", 1}, {"\x1bP", "never ending", 12},
	} {
		var s screen
		s.feed([]byte(c.begun), false)
		if got := s.feed([]byte(c.rest), true); got != c.want {
			t.Errorf("%q then %q: stops after %d, want %d", c.begun, c.rest, got, c.want)
		}
	}
}

// FuzzScreen: no output can upset the parser, pieces make no difference, and what
// is kept stays small.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b]0;x\a\xe4\xb8\x96\x1b[1;2r\x1bP\x1b\\"), 3)
	f.Add([]byte("\xc2\x9b?25l\x18\x1b[\x1b["), 2)
	f.Fuzz(func(t *testing.T, p []byte, at int) {
		at = min(max(at, 0), len(p))
		var whole, parts screen
		whole.feed(p, false)
		parts.feed(p[:at], false)
		parts.feed(p[at:], false)
		if whole.state != parts.state || describe(&whole) != describe(&parts) || string(whole.part) != string(parts.part) {
			t.Fatalf("%q in one: %d %q, in two: %d %q", p, whole.state, whole.part, parts.state, parts.part)
		}
		if len(whole.part) > longestPart || len(whole.seq) > longest {
			t.Fatalf("keeps %d and %d bytes", len(whole.part), len(whole.seq))
		}
	})
}

package terminal

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it anew); got:\n%s", file, got)
	}
}

func exampleSheet() *sheet {
	return &sheet{
		able: ability{unicode: true}, number: 2, of: 3, left: 42 * time.Second,
		lines: []string{
			"exec /usr/bin/git",
			"  why       publish: would change what others see  (rule 'git push --force' of workspace-edit-net-allowlist)",
			"  in        /home/someone/src/project",
			"  by        4711 bash -c 'make release && git push --force-with-lease origin HEAD:refs/heads/release/2026-11'",
			"              4720 make release",
			"                4733 git push --force-with-lease origin HEAD:refs/heads/release/2026-11",
		},
	}
}

// TestSheet: one question in windows of all sizes.
func TestSheet(t *testing.T) {
	var b strings.Builder
	for _, size := range [][2]int{{100, 14}, {80, 24}, {80, 8}, {40, 10}, {30, 6}, {40, 3}, {25, 2}, {60, 1}, {8, 1}, {1, 1}, {3, 5}} {
		s := exampleSheet()
		fmt.Fprintf(&b, "--- %d x %d\n", size[0], size[1])
		for _, row := range s.rows(size[0], size[1]) {
			fmt.Fprintf(&b, "|%s|\n", row)
		}
	}
	s := exampleSheet()
	s.whole, s.offset = true, 2
	fmt.Fprintf(&b, "--- whole, 40 x 9, from row 2\n|%s|\n", strings.Join(s.rows(40, 9), "|\n|"))
	s = exampleSheet()
	s.able = ability{}
	fmt.Fprintf(&b, "--- ASCII, 50 x 12\n|%s|\n", strings.Join(s.rows(50, 12), "|\n|"))
	s.confirm, s.status = true, " not written: the disk is full"
	s.lines = []string{"always allow: these lines go into /home/someone/.config/reeve/policy.toml", "", `  "/ws/a" = "write"`}
	fmt.Fprintf(&b, "--- a rule, 80 x 8\n|%s|\n", strings.Join(s.rows(80, 8), "|\n|"))
	s = exampleSheet()
	s.able = abilityOf(func(string) string { return "" })
	fmt.Fprintf(&b, "--- inline\n%s\n", strings.ReplaceAll(string(s.print()), "\r\n", "\n"))
	golden(t, "sheet", b.String())
}

// TestScroll: every line can be seen whole, in any window of two rows and more.
func TestScroll(t *testing.T) {
	for _, size := range [][2]int{{20, 2}, {20, 3}, {30, 5}, {80, 6}, {12, 4}} {
		s := exampleSheet()
		s.whole = true
		var seen strings.Builder
		for s.offset = 0; s.offset < 200; s.offset++ {
			for _, row := range s.rows(size[0], size[1]) {
				seen.WriteString(strings.TrimRight(strings.TrimPrefix(row, s.mark()), " ") + "\n")
			}
			if at := s.offset; at < 200 && seen.Len() > 1<<20 {
				break
			}
		}
		text := seen.String()
		for _, part := range []string{"exec", "publish", "release/2026-11", "4720 make"} {
			for _, r := range part {
				if !strings.ContainsRune(text, r) {
					t.Errorf("%v: %q of %q never shows", size, r, part)
				}
			}
		}
	}
}

// FuzzSheet: whatever a command chose, a question stays in its window and on its
// rows, and nothing but styles is a control character.
func FuzzSheet(f *testing.F) {
	f.Add("open read /ws/\x1b[2J\x1b]0;x\a", 40, 10, true, true)
	f.Add("世界\u202e\u0301\u200b\xff\n\r", 7, 3, false, true)
	f.Add("", 1, 1, false, false)
	f.Fuzz(func(t *testing.T, line string, width, height int, whole, style bool) {
		width, height = min(max(width, 1), 300), min(max(height, 1), 100)
		for _, able := range []ability{{unicode: true, style: style}, {style: style}} {
			text := printable(line, !able.unicode)
			s := &sheet{able: able, number: 1, of: 1, whole: whole, lines: []string{text, text}, status: text}
			rows := s.rows(width, height)
			if len(rows) > height {
				t.Fatalf("%d rows in %d", len(rows), height)
			}
			for _, row := range rows {
				bare := strings.NewReplacer(reverse, "", boldOn, "", plain, "").Replace(row)
				if n := cells(bare); n > width {
					t.Fatalf("row %q has %d cells of %d", bare, n, width)
				}
				for _, r := range bare {
					if !unicode.IsPrint(r) || !able.unicode && r > 0x7e {
						t.Fatalf("row %q has %q", bare, r)
					}
				}
			}
		}
	})
}

func TestAbility(t *testing.T) {
	for _, c := range []struct {
		env  string
		want ability
	}{
		{"", ability{inline: true, dumb: true}},
		{"TERM=dumb LANG=C.UTF-8", ability{inline: true, dumb: true, unicode: true}},
		{"TERM=xterm-256color LC_ALL=en_GB.utf8", ability{style: true, unicode: true}},
		{"TERM=xterm LC_ALL=C LANG=de_DE.UTF-8", ability{style: true}},
		{"TERM=linux NO_COLOR=1", ability{inline: true}},
		{"TERM=screen-256color STY=1.x", ability{inline: true, style: true}},
		{"TERM=tmux-256color LANG=C.UTF-8", ability{style: true, unicode: true}},
	} {
		env := map[string]string{}
		for _, e := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(e, "=")
			env[name] = value
		}
		if got := abilityOf(func(n string) string { return env[n] }); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.env, got, c.want)
		}
	}
}

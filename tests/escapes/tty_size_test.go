package escapes_test

import (
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestWindowSize: a new size arrives with its signal (Y05).
func TestWindowSize(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				argv := []string{g.Workspace + "/victim", "winch"}
				if mode != "native" {
					argv = g.Command(trial.Options{Flags: []string{"--ask", mode}}, argv...)
				}
				s := open(t, g, argv...)
				s.expect("size 80x24")
				if err := pty.Setsize(s.tty, &pty.Winsize{Cols: 101, Rows: 33}); err != nil {
					t.Fatal(err)
				}
				s.expect("resized 101x33")
				if got := s.wait(); got != 0 {
					t.Errorf("status %d", got)
				}
				if mode != "native" {
					recordedSizes(t, g)
				}
			})
		})
	}
}

// recordedSizes requires that the record of the one session has the size that the
// terminal had at first, and the one that it had at last in one record.
func recordedSizes(t *testing.T, g *trial.Ground) {
	t.Helper()
	var sizes []string
	for _, e := range g.Events("--session", "last", "--op", "start,resize") {
		if e.Kind != "session" {
			t.Errorf("a record of kind %s: %s", e.Kind, &e)
		}
		sizes = append(sizes, e.Detail)
	}
	const first, last = `"terminal":{"rows":24,"columns":80}`, `{"rows":33,"columns":101}`
	if len(sizes) != 2 || !strings.Contains(sizes[0], first) || sizes[1] != last {
		t.Errorf("records of the terminal's size: %q", sizes)
	}
	if shown := g.Verb("events", "--session", "last", "--op", "resize"); !strings.Contains(shown.Stdout, "101x33") {
		t.Errorf("the size is not shown: %s", shown.Text())
	}
}

// TestManySizes: a window that is dragged gets few records, and its last size is one
// of them; also where a shell's job has the terminal, and the signal (Y05).
func TestManySizes(t *testing.T) {
	for _, mode := range modes[1:] {
		t.Run(mode, func(t *testing.T) {
			const script = "set -m; sh -c 'echo be''gan; read line; stty size'; echo en''d"
			g := trial.NewGround(t, false)
			s := open(t, g, g.Command(trial.Options{Flags: []string{"--ask", mode}}, "/bin/sh", "-c", script)...)
			s.expect("began")
			for i := range 300 {
				if err := pty.Setsize(s.tty, &pty.Winsize{Cols: uint16(100 + i%7), Rows: uint16(1 + i)}); err != nil {
					t.Fatal(err)
				}
			}
			s.write("\n")
			s.expect("300 105") // of 299%7
			s.expect("end")
			s.wait()
			got := g.Events("--session", "last", "--op", "resize")
			if len(got) == 0 || len(got) > 100 || got[len(got)-1].Detail != `{"rows":300,"columns":105}` {
				t.Errorf("%d records of sizes, the last: %v", len(got), got[max(len(got)-1, 0):])
			}
		})
	}
}

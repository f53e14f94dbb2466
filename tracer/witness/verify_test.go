package witness

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestVerify(t *testing.T) {
	touch, other := resolve(t, "touch"), resolve(t, "true")
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!"+resolve(t, "sh")+"\n: > \"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		verify  bool
		program string
		expect  []string
		want    Exec // the flags
		runs    bool
	}{
		{"right", true, touch, []string{touch}, Exec{}, true},
		{"right, in the last place", true, touch, []string{other, other, other, touch}, Exec{}, true},
		{"wrong", true, touch, []string{other}, Exec{Mismatch: true, Killed: true}, false},
		{"four wrong", true, touch, []string{other, other, other, other}, Exec{Mismatch: true, Killed: true}, false},
		{"nothing announced", true, touch, nil, Exec{Mismatch: true, Unexpected: true, Killed: true}, false},
		{"not verified", false, touch, []string{other}, Exec{}, true},
		{"script by its interpreter", true, script, []string{script, resolve(t, "sh")}, Exec{}, true},
		{"script without its interpreter", true, script, []string{script}, Exec{Mismatch: true, Killed: true}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, Config{Verify: tt.verify}, false)
			out := filepath.Join(t.TempDir(), "out")
			cmd := become("exec", tt.program, out)
			release := s.adopt(cmd)
			var files []Inode
			for _, p := range tt.expect {
				files = append(files, inodeOf(t, p))
			}
			if files != nil {
				if _, err := s.Expect(cmd.Process.Pid, files, nil); err != nil {
					t.Fatal(err)
				}
			}
			release()
			err := cmd.Wait()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if _, statErr := os.Stat(out); (statErr == nil) != tt.runs {
				t.Errorf("ran: %v, want %v", statErr == nil, tt.runs)
			}
			if tt.runs && err != nil || !tt.runs && status.Signal() != syscall.SIGKILL {
				t.Errorf("ended with %v", err)
			}
			records := s.all()
			execs, exits := only[Exec](records), only[Exit](records)
			if len(execs) != 1 || len(exits) != 1 || exits[0].Status != status {
				t.Fatalf("records %+v", records)
			}
			e := execs[0]
			got := Exec{Mismatch: e.Mismatch, Unexpected: e.Unexpected, Killed: e.Killed}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("exec %+v, want %+v", e, tt.want)
			}
		})
	}
}

// TestTold: a program that is told other words than were judged does not begin.
func TestTold(t *testing.T) {
	touch := resolve(t, "touch")
	long := strings.Repeat("x", 250) // a file's name
	var many []string
	for n := 0; n < MaxTold; n += len(long) + 1 {
		many = append(many, long)
	}
	dir := t.TempDir()
	most := []string{strings.Repeat("y", MaxTold-len(touch)-len(dir)-len("/000")-3-1) + "z"}
	tests := []struct {
		name string
		// gives is what the program is given behind its file, expect what is announced
		// behind it, or nil.
		gives, expect []string
		held, runs    bool
	}{
		{"the same", nil, []string{}, true, true},
		{"the same, several", []string{"a", "", "b"}, []string{"a", "", "b"}, true, true},
		{"as long as may be", most, most, true, true},
		{"as long as may be, the last letter", most, []string{strings.TrimSuffix(most[0], "z") + "y"}, true, false},
		{"a word more", []string{"a"}, []string{}, true, false},
		{"an empty word more", []string{""}, []string{}, true, false},
		{"a word less", nil, []string{"a"}, true, false},
		{"another letter", []string{"a", "b", "c"}, []string{"a", "d", "c"}, true, false},
		{"the last letter", []string{strings.Repeat("a", 200) + "b"}, []string{strings.Repeat("a", 200) + "c"}, true, false},
		{"words parted otherwise", []string{"a", "b"}, []string{"a\x00b"}, true, true}, // one vector in memory
		{"much longer", many, []string{"a"}, true, false},
		{"too long to be held", many, many, false, true},
		{"any", []string{"a"}, nil, false, true},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, Config{Verify: true}, false)
			out := filepath.Join(dir, fmt.Sprintf("%03d", i))
			cmd := become("exec", append([]string{touch, out}, tt.gives...)...)
			cmd.Dir = t.TempDir()
			release := s.adopt(cmd)
			var argv []string
			if tt.expect != nil {
				argv = append([]string{touch, out}, tt.expect...)
			}
			told, err := s.Expect(cmd.Process.Pid, []Inode{inodeOf(t, touch)}, argv)
			if err != nil || told != tt.held {
				t.Fatalf("held %v, want %v: %v", told, tt.held, err)
			}
			release()
			_ = cmd.Wait()
			if _, err := os.Stat(out); (err == nil) != tt.runs {
				t.Errorf("ran: %v, want %v", err == nil, tt.runs)
			}
			execs := only[Exec](s.all())
			if len(execs) != 1 {
				t.Fatalf("execs %+v", execs)
			}
			e := execs[0]
			if e.Told == tt.runs || e.Killed == tt.runs || e.Mismatch {
				t.Errorf("exec %+v", e)
			}
		})
	}
}

// TestTellings: what execs that failed have left does not use up the room for
// vectors, while execs that are under way do, and are counted.
func TestTellings(t *testing.T) {
	s := start(t, Config{Verify: true}, false)
	file := []Inode{inodeOf(t, resolve(t, "touch"))}
	for tid := 1 << 23; tid < 1<<23+600; tid++ { // no such threads
		if told, err := s.Expect(tid, file, []string{"touch"}); err != nil || !told {
			t.Fatalf("thread %d: told %v, %v", tid, told, err)
		}
	}
}

// TestAnnouncementHoldsOnce: the second exec needs its own, and Forget withdraws.
func TestAnnouncementHoldsOnce(t *testing.T) {
	env, touch := resolve(t, "env"), resolve(t, "touch")
	s := start(t, Config{Verify: true}, false)
	out := filepath.Join(t.TempDir(), "out")
	cmd := become("exec", env, touch, out)
	release := s.adopt(cmd)
	if _, err := s.Expect(cmd.Process.Pid, []Inode{inodeOf(t, env), inodeOf(t, touch)}, nil); err != nil {
		t.Fatal(err)
	}
	release()
	_ = cmd.Wait()
	if _, err := os.Stat(out); err == nil {
		t.Error("the second exec ran on the first one's announcement")
	}
	execs := only[Exec](s.all())
	if len(execs) != 2 || execs[0].Killed || !execs[1].Killed {
		t.Errorf("execs %+v", execs)
	}
	if err := s.Forget(cmd.Process.Pid); err != nil {
		t.Errorf("forget what is not there: %v", err)
	}
}

func TestExpectRefuses(t *testing.T) {
	s := start(t, Config{}, true)
	if _, err := s.Expect(1, nil, nil); err == nil {
		t.Error("nothing expected")
	}
	if _, err := s.Expect(1, make([]Inode, MaxExpected+1), nil); err == nil {
		t.Error("too many expected")
	}
	if err := s.Adopt(-1); err == nil {
		t.Error("adopted no process")
	}
}

package witness

import (
	"os"
	"path/filepath"
	"reflect"
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
				if err := s.Expect(cmd.Process.Pid, files); err != nil {
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

// TestAnnouncementHoldsOnce: the second exec needs its own, and Forget withdraws.
func TestAnnouncementHoldsOnce(t *testing.T) {
	env, touch := resolve(t, "env"), resolve(t, "touch")
	s := start(t, Config{Verify: true}, false)
	out := filepath.Join(t.TempDir(), "out")
	cmd := become("exec", env, touch, out)
	release := s.adopt(cmd)
	if err := s.Expect(cmd.Process.Pid, []Inode{inodeOf(t, env), inodeOf(t, touch)}); err != nil {
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
	if err := s.Expect(1, nil); err == nil {
		t.Error("nothing expected")
	}
	if err := s.Expect(1, make([]Inode, MaxExpected+1)); err == nil {
		t.Error("too many expected")
	}
	if err := s.Adopt(-1); err == nil {
		t.Error("adopted no process")
	}
}

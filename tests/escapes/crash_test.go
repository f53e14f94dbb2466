package escapes_test

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// nilDereference is what makes a function panic when it is called next:
// xor %eax,%eax; mov %eax,(%rax).
var nilDereference = []byte{0x31, 0xc0, 0x89, 0x00}

// plant puts code over the beginning of one of reeve's functions in a running reeve, and
// returns what takes it away. It needs root, as reeve's memory is closed to its own user.
func plant(t *testing.T, g *trial.Ground, pid int, function string, code []byte) (restore func()) {
	t.Helper()
	trial.NeedRoot(t)
	if runtime.GOARCH != "amd64" {
		trial.Skip(t, "amd64", "the code to plant is for x86-64")
	}
	program, err := elf.Open(g.Reeve)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	symbols, err := program.Symbols()
	if err != nil || program.Type != elf.ET_EXEC {
		trial.Skip(t, "symbols", fmt.Sprintf("reeve was built without symbols, or to lie anywhere: %v", err))
	}
	at := int64(0)
	for _, s := range symbols {
		if s.Name == "github.com/reeve-audit/reeve/"+function {
			at = int64(s.Value)
		}
	}
	if at == 0 {
		t.Fatalf("reeve has no function %s", function)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	was := make([]byte, len(code))
	if _, err := mem.ReadAt(was, at); err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		if _, err := mem.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	write(code)
	t.Cleanup(func() { mem.Close() })
	return func() { write(was) }
}

// TestSupervisorCrashes: a reeve that ends by a fault of its own, in the manner of a Go
// program: a dump for a signal, a panic where nothing recovers it. The tree is dead
// within a second, the secret kept, and the record whole (K17).
func TestSupervisorCrashes(t *testing.T) {
	signal := func(sig syscall.Signal) func(*testing.T, *trial.Ground, int) {
		return func(t *testing.T, _ *trial.Ground, pid int) {
			t.Helper()
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, dump string
		fault      func(*testing.T, *trial.Ground, int)
	}{
		{"SIGABRT", `(?s)^SIGABRT: abort\n.*\ngoroutine \d+`, signal(syscall.SIGABRT)},
		{"SIGSEGV", `(?s)^SIGSEGV: segmentation violation\n.*\ngoroutine \d+`, signal(syscall.SIGSEGV)},
		{"SIGTRAP", `(?s)^SIGTRAP: trace trap\n.*\ngoroutine \d+`, signal(syscall.SIGTRAP)},
		{"panic", `(?s)^panic: runtime error: invalid memory address or nil pointer dereference\n.*pipeline\.\(\*window\)\.seal`,
			func(t *testing.T, g *trial.Ground, pid int) {
				plant(t, g, pid, "pipeline.(*window).seal", nilDereference)
			}},
		// Where it is recovered it is recorded, by the same way: reeve does not hang there.
		{
			"panic in a record", `(?s)bug: a call could not be judged.*\npanic: runtime error: invalid memory address or nil pointer dereference.*pipeline\.\(\*Publisher\)\.push`,
			func(t *testing.T, g *trial.Ground, pid int) {
				plant(t, g, pid, "pipeline.(*Publisher).push", nilDereference)
			},
		},
	} {
		t.Run("K17/"+c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				said := filepath.Join(t.TempDir(), "said")
				chmod(t, filepath.Dir(said), 0o777)
				chmod(t, filepath.Dir(filepath.Dir(said)), 0o755)
				writeFile(t, said, "", 0o666)
				chmod(t, said, 0o666)
				cmd := start(t, g, append([]string{"/bin/sh", "-c", `exec "$@" 2> ` + said, "sh"},
					g.Command(trial.Options{}, "{victim}", "beat", "{ws}/notes", "{secret}")...))
				if !waitFor(t, 20*time.Second, func() bool {
					return strings.Count(read(g, "ws/notes"), "\n") > 30 && len(g.Processes()) >= 3 && len(secretDenials(g)) == 1
				}) {
					t.Fatalf("control: %d processes beat, of which %v is on record: %q", len(g.Processes()), secretDenials(g), read(g, "ws/notes"))
				}
				c.fault(t, g, cmd.Process.Pid)
				faulted := time.Now()
				if !waitFor(t, time.Second, func() bool { return len(g.Processes()) == 0 }) {
					t.Errorf("a second after the fault these live: %v", g.Processes())
				}
				took := time.Since(faulted)
				// A dump can itself fault, behind what matters of it.
				if status := trial.ExitStatus(cmd.Wait()); status != 2 && status != 128+int(syscall.SIGSEGV) {
					t.Errorf("control: status %d, want 2, that of a Go program's dump", status)
				}
				if dump, err := os.ReadFile(said); err != nil || !matches(c.dump, string(dump)) {
					t.Errorf("control: no such dump (%v): %.600s", err, dump)
				}
				if notes := read(g, "ws/notes"); strings.Contains(notes, "LEAKED") || strings.Contains(notes, "empty") {
					t.Errorf("the secret was opened: %s", notes)
				}
				denials := secretDenials(g) // which stores what it left
				if len(denials) != 1 {
					t.Errorf("denials on record: %v, want some of one session", denials)
				}
				if r := g.Verb("verify", "last"); r.Status != 0 || !strings.Contains(r.Stdout, ": whole: ") {
					t.Errorf("verify: %s", r.Text())
				}
				g.Redecided("last")
				if r := g.Verb("sessions"); r.Status != 0 || r.Stderr != "" {
					t.Errorf("sessions: %s", r.Text())
				}
				t.Logf("the tree was dead after %v; on record %v", took.Round(time.Millisecond), denials)
			})
		})
	}
}

// TestPanicDenies: a panic while a call is judged denies that call, is on record, and
// ends nothing: what is judged after it is judged as ever (K17).
func TestPanicDenies(t *testing.T) {
	if trial.Engine() == "lsm" {
		trial.Skip(t, "unotify", "the hooks judge: no call waits for the code in which the fault is planted")
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		// Words of the shell alone: while the fault lasts, no program starts. A file is
		// made, too, since that is judged under a lock.
		const script = `act() { { echo new > made$1 && echo new file || echo no file; }; read word < ok.txt && echo read $word || echo refused; }
			try() { until test -e go$1; do :; done; act $1 > did$1 2>&1; }
			try 1; exec 3> did2; until test -e go2; do :; done; act 2 >&3 2>&1; try 3`
		cmd := start(t, g, g.Command(trial.Options{}, "/bin/sh", "-c", script))
		step := func(n, word, want string) {
			t.Helper()
			writeFile(t, g.Expand("{ws}/go"+n), "", 0o644)
			if !waitFor(t, 10*time.Second, func() bool { return strings.Count(read(g, "ws/did"+n), "\n") >= 2 }) {
				t.Fatalf("step %s: nothing happens: %q", n, read(g, "ws/did"+n))
			}
			if got := read(g, "ws/did"+n); !strings.Contains(got, word) || !strings.Contains(got, want) || exists(g.Expand("{ws}/made"+n)) != (word == "new file") {
				t.Errorf("step %s: %q, want %q and %q", n, got, word, want)
			}
		}
		step("1", "new file", "read ordinary")
		if !waitFor(t, 10*time.Second, func() bool { return exists(g.Expand("{ws}/did2")) }) {
			t.Fatal("control: step 2 does not begin")
		}
		restore := plant(t, g, cmd.Process.Pid, "supervisor/policy.(*Policy).Decide", nilDereference)
		step("2", "no file", "refused")
		restore()
		step("3", "new file", "read ordinary")
		if status := trial.ExitStatus(cmd.Wait()); status != 0 {
			t.Errorf("status %d", status)
		}
		events := g.Events("--session", "last")
		whole(t, events, 5)
		denied := 0
		for _, e := range trial.Denials(events) {
			if e.Reason == "internal error" && e.By == "gate" {
				denied++
			}
		}
		if denied == 0 {
			t.Errorf("the denial is not on record: %v", trial.Denials(events))
		}
	})
}

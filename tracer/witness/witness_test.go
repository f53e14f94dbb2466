package witness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestTree sees everything of a tree that tries to get away.
func TestTree(t *testing.T) {
	s := start(t, Config{}, false)
	before := bootNow(t)
	out := filepath.Join(t.TempDir(), "out")
	cmd := s.sh(`cat /dev/null "$1"
		setsid sh -c '(exec env A=1 sleep 0.1; ) & exit 3'
		sh -c 'kill -9 $$'
		exec touch "$2"`, "/dev/null", out)
	// The daemon outlives the shell.
	eventually(t, "the daemon's end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(only[Exit](s.records)) == len(only[Fork](s.records))+1
	})
	records := s.all()

	want := map[string]int{
		"cat /dev/null /dev/null": 1, "setsid sh -c (exec env A=1 sleep 0.1; ) & exit 3": 1,
		"sh -c (exec env A=1 sleep 0.1; ) & exit 3": 1, "env A=1 sleep 0.1": 1, "sleep 0.1": 1,
		"sh -c kill -9 $$": 1, "touch " + out: 1,
	}
	got := map[string]int{}
	for _, e := range only[Exec](records) {
		got[strings.Join(e.Argv, " ")]++
		if e.Inode != inodeOf(t, e.Filename) {
			t.Errorf("exec of %s as %+v", e.Filename, e.Inode)
		}
		if e.Mismatch || e.Killed || e.ArgvLen != 0 {
			t.Errorf("exec flags: %+v", e)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("execs\ngot  %v\nwant %v", got, want)
	}
	checkFamily(t, records, Process{PID: int32(cmd.Process.Pid)}, before)

	var codes []string
	for _, e := range only[Exit](records) {
		if e.Status.Signaled() {
			codes = append(codes, e.Status.Signal().String())
		} else {
			codes = append(codes, strconv.Itoa(e.Status.ExitStatus()))
		}
	}
	slices.Sort(codes)
	if want := []string{"0", "0", "0", "3", "killed"}; !reflect.DeepEqual(codes, want) {
		t.Errorf("exits %v, want %v", codes, want)
	}
	if lost := only[Lost](records); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}

// checkFamily checks that every process comes from root, and dies once.
func checkFamily(t *testing.T, records []Record, root Process, since uint64) {
	t.Helper()
	alive := map[int32]uint64{root.PID: 0}
	for _, r := range records {
		switch r := r.(type) {
		case Fork:
			start, ok := alive[r.Parent.PID]
			if !ok || start != 0 && start != r.Parent.Start {
				t.Errorf("fork by a stranger: %+v", r)
			}
			if r.Child.Start < since || r.Unmarked {
				t.Errorf("odd child: %+v", r)
			}
			alive[r.Child.PID] = r.Child.Start
		case Exec:
			if _, ok := alive[r.Process.PID]; !ok {
				t.Errorf("exec by a stranger: %+v", r)
			}
		case Exit:
			if _, ok := alive[r.Process.PID]; !ok {
				t.Errorf("exit of a stranger, or a second one: %+v", r)
			}
			delete(alive, r.Process.PID)
		}
	}
	if len(alive) > 0 {
		t.Errorf("never ended: %v", alive)
	}
}

// TestSpawn sees a child of vfork, and how its start time names it as /proc does.
func TestSpawn(t *testing.T) {
	s := start(t, Config{}, false)
	cmd := become("spawn", resolve(t, "cat"), "/proc/self/stat")
	release := s.adopt(cmd)
	parent := procID(t, cmd.Process.Pid)
	release()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	records := s.all()
	forks, execs := only[Fork](records), only[Exec](records)
	if len(execs) != 1 {
		t.Fatalf("records %+v", records)
	}
	// The Go runtime forks once more, to try pidfds.
	i := slices.IndexFunc(forks, func(f Fork) bool { return f.Child == execs[0].Process })
	if i < 0 || forks[i].Parent.ID() != parent {
		t.Errorf("parent is %s, records %+v", parent, records)
	}
}

// procID is the process's identity from /proc.
func procID(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	return fmt.Sprintf("%d-%s", pid, fields[19])
}

// TestThreadExec has a process exec from a thread that is not its first.
func TestThreadExec(t *testing.T) {
	for _, announced := range []bool{true, false} {
		t.Run(fmt.Sprintf("announced=%v", announced), func(t *testing.T) {
			s := start(t, Config{Verify: true}, false)
			program := resolve(t, "true")
			cmd := become("thread", program, "x")
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			release := s.adopt(cmd)
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			tid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || tid == cmd.Process.Pid {
				t.Fatalf("thread %q: %v", line, err)
			}
			if announced {
				if _, err := s.Expect(tid, []Inode{inodeOf(t, program)}, nil); err != nil {
					t.Fatal(err)
				}
			}
			release()
			err = cmd.Wait()
			execs := only[Exec](s.all())
			if !announced {
				// Documented: such a thread is known by the announcement only.
				if len(execs) != 0 && !execs[0].Killed {
					t.Errorf("seen but not killed: %+v", execs)
				}
				return
			}
			if err != nil || len(execs) != 1 {
				t.Fatalf("run: %v, execs %+v", err, execs)
			}
			e := execs[0]
			if e.OldTID != int32(tid) || e.Process.PID != int32(cmd.Process.Pid) || e.Mismatch {
				t.Errorf("exec %+v, want thread %d of %d", e, tid, cmd.Process.Pid)
			}
		})
	}
}

// TestManyThreads: a process whose threads die at once ends once.
func TestManyThreads(t *testing.T) {
	s := start(t, Config{}, false)
	const n = 20
	for range n {
		cmd := become("threads")
		s.adopt(cmd)()
		_ = cmd.Wait()
	}
	seen := map[Process]bool{}
	for _, e := range only[Exit](s.all()) {
		if seen[e.Process] || e.Status.ExitStatus() != 5 {
			t.Errorf("a second end, or a wrong status: %+v", e)
		}
		seen[e.Process] = true
	}
	if len(seen) != n {
		t.Errorf("%d ends, want %d", len(seen), n)
	}
}

// TestLongArgv states what it cut.
func TestLongArgv(t *testing.T) {
	s := start(t, Config{}, false)
	long := strings.Repeat("x", 10_000)
	cmd := become("exec", resolve(t, "true"), "a", long)
	s.adopt(cmd)()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	e := only[Exec](s.all())[0]
	full := uint32(len(cmd.Args[1]) + 1 + 2 + len(long) + 1)
	if e.ArgvLen != full {
		t.Errorf("full length %d, want %d", e.ArgvLen, full)
	}
	if got := len(strings.Join(e.Argv, " ")); got != 4096 || !strings.HasPrefix(long, e.Argv[2]) {
		t.Errorf("kept %d bytes", got)
	}
}

// TestSessionsApart: two witnesses see their own trees only.
func TestSessionsApart(t *testing.T) {
	a, b := start(t, Config{}, false), start(t, Config{Verify: true}, false)
	a.sh("true; /bin/echo a >/dev/null")
	if err := exec.Command("/bin/true").Run(); err != nil { // nobody's
		t.Errorf("a process of no session: %v", err)
	}
	if n := len(only[Exec](a.all())); n != 1 {
		t.Errorf("%d execs in a, want 1", n)
	}
	if got := b.all(); len(got) != 0 {
		t.Errorf("b saw %+v", got)
	}
}

// TestOverflow: with nobody reading, records are lost and counted, to the last.
func TestOverflow(t *testing.T) {
	s := start(t, Config{RingBytes: os.Getpagesize(), Verify: true}, true)
	const n = 300
	sh := exec.Command("/bin/sh", "-c", fmt.Sprintf(
		`echo >&2; read _; i=0; while [ $i -lt %d ]; do (exec /bin/true); i=$((i+1)); done`, n))
	s.adopt(sh)()
	if err := sh.Wait(); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, r := range s.all() {
		switch r := r.(type) {
		case Lost:
			got[string(r.Cause[strings.LastIndexByte(string(r.Cause), ' ')+1:])] += r.Count
			got["lost"] += r.Count
		case Exec:
			got["exec"]++
			if !r.Killed {
				t.Errorf("a full ring weakened enforcement: %+v", r)
			}
		case Fork:
			got["fork"]++
		case Exit:
			got["exit"]++
			if r.Process.PID != int32(sh.Process.Pid) && r.Status.Signal() != syscall.SIGKILL {
				t.Errorf("an unannounced exec lived: %+v", r)
			}
		}
	}
	if got["fork"] != n || got["exec"] != n || got["exit"] != n+1 || got["lost"] < n {
		t.Errorf("records and losses %v, want %d of each, most lost", got, n)
	}
}

func BenchmarkNew(b *testing.B) {
	needRoot(b)
	for b.Loop() {
		w, err := New(Config{Verify: true})
		if err != nil {
			b.Fatal(err)
		}
		_ = w.Close()
	}
}

func BenchmarkExpect(b *testing.B) {
	s := start(b, Config{}, true)
	files := []Inode{{1, 2}}
	for b.Loop() {
		if _, err := s.Expect(1, files, nil); err != nil {
			b.Fatal(err)
		}
	}
}

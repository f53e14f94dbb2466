package escapes_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestKilledRecords: what tasks had done when reeve was killed is on record, each
// thing once, however far its record had come (K17): under engine lsm, whose hooks
// let nobody wait, as well as where each operation waits for its record. Two tasks
// tell what they have done: one opens a file, the other starts programs. Whom the
// witness has seen begin it has seen end, though reeve was dead by then.
func TestKilledRecords(t *testing.T) {
	const script = `
		i=0; while : < ok.txt; do i=$((i+1)); echo $i >> opens; done &
		j=0; while /bin/true; do j=$((j+1)); echo $j >> runs; done`
	o := trial.Options{}
	if trial.Engine() != "lsm" {
		o.Flags = []string{"--audit", "strict"}
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		// The records of an ordinary user's programs are the gate's alone.
		witness := os.Geteuid() == 0 && !nobody
		killed := map[string]bool{}
		for _, after := range []int{1, 25, 400} {
			for _, name := range []string{"ws/opens", "ws/runs"} {
				if err := os.RemoveAll(g.Expand("{base}/" + name)); err != nil {
					t.Fatal(err)
				}
			}
			if trial.Sampled() && after == 25 { // there the third is not much more
				continue
			}
			if trial.Emulated() {
				after = min(after, 60)
			}
			cmd := start(t, g, g.Command(o, "/bin/sh", "-c", script))
			if !waitFor(t, 20*time.Second, func() bool { return told(g, "ws/opens") >= after && told(g, "ws/runs") > 0 }) {
				t.Fatalf("control: nothing is done: %d opens, %d programs", told(g, "ws/opens"), told(g, "ws/runs"))
			}
			if err := syscall.Kill(cmd.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if !waitFor(t, 5*time.Second, func() bool { return len(g.Processes()) == 0 }) {
				t.Fatalf("these live: %v", g.Processes())
			}
			opens, runs := told(g, "ws/opens"), told(g, "ws/runs")
			session := ""
			for _, id := range trial.SessionIDs(g.Verb("sessions", "ls", "--json").Stdout) { // which stores it
				if !killed[id] {
					killed[id], session = true, id
				}
			}
			recorded, alive := map[string]int{}, map[string]bool{}
			recovered := 0
			for _, e := range g.Events("--session", session) {
				switch {
				case e.Action == "allow" && e.Op == "open" && e.Object.Path == g.Expand("{ok}"):
					recorded["opens"]++
				case e.Op == "fork":
					alive[e.Task.ID] = true
				case e.Op == "exit":
					delete(alive, e.Task.ID)
				case e.Kind == "fact" && e.Op == "exec" && strings.HasSuffix(e.Object.Path, "/true"):
					recorded["runs"]++
				}
				if strings.Contains(e.Detail, "recovered") {
					recovered++
				}
			}
			t.Logf("killed after %d opens and %d programs: %v on record, %d records recovered", opens, runs, recorded, recovered)
			if n := recorded["opens"]; n < opens || n > opens+1 {
				t.Errorf("%d opens were done, perhaps one more; %d are on record", opens, n)
			}
			if n := recorded["runs"]; witness && (n < runs || n > runs+1) {
				t.Errorf("%d programs were run, perhaps one more; %d are on record", runs, n)
			}
			if witness && len(alive) > 0 {
				t.Errorf("these have begun and not ended: %v", slices.Collect(maps.Keys(alive)))
			}
			g.Redecided(session)
			if r := g.Verb("verify", session); !strings.Contains(r.Stdout, ": whole: ") {
				t.Errorf("verify: %s", r.Text())
			}
		}
	})
}

// told is the last whole line of a file, a number; 0 if there is none.
func told(g *trial.Ground, name string) int {
	lines := strings.Split(read(g, name), "\n")
	if len(lines) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(lines[len(lines)-2])
	return n
}

// TestBothKilled: reeve and its init are killed in one instant, so that nobody is left to
// end the tree (K17). What survives stays under what holds it, and the next reeve ends it
// and takes away what was pinned for it.
func TestBothKilled(t *testing.T) {
	trial.NeedRoot(t)
	const pinned = "/sys/fs/bpf/reeve"
	g := trial.NewGround(t, false)
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(pinned), &st); err != nil || st.Type != unix.BPF_FS_MAGIC {
		withBPFFS(t, g)
		return
	}
	pins := func() []string {
		list, _ := filepath.Glob(pinned + "/*")
		return list
	}
	if r := g.Supervised(trial.Options{}, "/bin/true"); r.Status != 0 {
		t.Fatalf("control: %s", r.Text())
	}
	before := pins() // those of a neighbour
	cmd := start(t, g, g.Command(trial.Options{}, "{victim}", "beat", "{ws}/notes", "{secret}"))
	if !waitFor(t, 20*time.Second, func() bool { return strings.Count(read(g, "ws/notes"), "\n") > 30 && len(g.Processes()) >= 3 }) {
		t.Fatalf("control: nothing beats: %q", read(g, "ws/notes"))
	}
	reeve := cmd.Process.Pid
	init := childNamed(t, reeve, "reeve-init")
	if n := len(pins()); n != len(before)+1 {
		t.Errorf("%d sessions have pins, want %d", n, len(before)+1)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // neither learns of the other's end
		for _, pid := range []int{reeve, init} {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	time.Sleep(trial.Patience(300 * time.Millisecond))
	if len(g.Processes()) < 3 {
		t.Errorf("control: %d processes survive, want 3", len(g.Processes()))
	}
	lines := strings.Count(read(g, "ws/notes"), "\n")
	if !waitFor(t, 10*time.Second, func() bool { return strings.Count(read(g, "ws/notes"), "\n") > lines+30 }) {
		t.Error("control: the survivors do not try the secret")
	}
	if r := g.Supervised(trial.Options{}, "/bin/true"); r.Status != 0 {
		t.Errorf("the next reeve: %s", r.Text())
	}
	if left := g.Processes(); len(left) > 0 {
		t.Errorf("the next reeve leaves %v alive", left)
	}
	if notes := read(g, "ws/notes"); strings.Contains(notes, "LEAKED") || strings.Contains(notes, "empty") {
		t.Errorf("the secret was opened: %s", notes)
	}
	if after := pins(); !slices.Equal(after, before) {
		t.Errorf("pinned are %v, and were %v", after, before)
	}
}

// withBPFFS runs the calling test once more where a file system for BPF is mounted, as
// most machines have it: in a mount namespace of its own.
func withBPFFS(t *testing.T, g *trial.Ground) {
	t.Helper()
	const once = "REEVE_BPFFS"
	if os.Getenv(once) != "" {
		t.Fatal("a file system for BPF is mounted at /sys/fs/bpf, and not there")
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount -t bpf bpf /sys/fs/bpf || exit 77; exec "$0" "$@"`,
		os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), once+"=1", "REEVE="+g.Reeve, "REEVE_VICTIMS="+g.Dir)
	out, err := cmd.CombinedOutput()
	if trial.ExitStatus(err) == 77 {
		trial.Skip(t, "bpffs", "nothing can be pinned: "+string(out))
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("with a file system for BPF: %v\n%s", err, out)
	}
}

// childNamed is the child of a process whose first word is name.
func childNamed(t *testing.T, parent int, name string) int {
	t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, at := range lines {
		dir := filepath.Dir(at)
		line, _ := os.ReadFile(at)
		status, _ := os.ReadFile(dir + "/status")
		if strings.HasPrefix(string(line), name+"\x00") && strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", parent)) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			return pid
		}
	}
	t.Fatalf("control: process %d has no child %s", parent, name)
	return 0
}

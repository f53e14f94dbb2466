package escapes_test

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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

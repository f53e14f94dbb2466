package lsm

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/reeve-audit/reeve/bpf"
)

var stats = ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}

var verification = regexp.MustCompile(`(?s)verification time (\d+) usec.*processed (\d+) insns`)

// verified logs how long the verifier took for programs that were loaded with stats, and
// over how many instructions.
func verified(t *testing.T, programs map[string]*ebpf.Program) {
	t.Helper()
	var took, count int
	for name, p := range programs {
		m := verification.FindStringSubmatch(p.VerifierLog)
		if m == nil {
			t.Fatalf("%s: the verifier says %q", name, p.VerifierLog)
		}
		us, _ := strconv.Atoi(m[1])
		n, _ := strconv.Atoi(m[2])
		t.Logf("%-30s %6d instructions %6d µs", name, n, us)
		took, count = took+us, count+n
	}
	t.Logf("%d programs, %d instructions, %d µs: %.1f µs for 1,000", len(programs), count, took, 1000*float64(took)/float64(count))
}

// TestTimes says where the time of loading goes.
func TestTimes(t *testing.T) {
	needsLSM(t)
	if !testing.Verbose() {
		return // nobody listens
	}
	spec, err := bpf.LoadLsm()
	if err != nil {
		t.Fatal(err)
	}
	rules := rulesOf(t)
	cfg := Config{Rules: rules}
	var settings bpf.LsmSession
	began := time.Now()
	cells, err := settle(&settings, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := fit(spec, &cfg, &settings, cells); err != nil {
		t.Fatal(err)
	}
	settled := time.Now()
	loaded, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: stats})
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{loaded: loaded}
	ready := time.Now()
	err = e.attach(hooks(&cfg))
	attached := time.Now()
	err = errors.Join(err, e.Close())
	t.Logf("settle %v, load %v, attach %v, close %v, %v", settled.Sub(began), ready.Sub(settled), attached.Sub(ready), time.Since(attached), err)
	verified(t, loaded.Programs)
}

// TestJudgeTimes says the same of the judge, whose programs are most of the hooks' code
// and load everywhere: the verifier's speed here, over that in the machine where the
// hooks load, is what they would take here.
func TestJudgeTimes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	rules := rulesOf(t)
	began := time.Now()
	j, err := loadJudge(&rules, &ebpf.CollectionOptions{Programs: stats})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("loaded in %v", time.Since(began))
	o := &j.objects.JudgePrograms
	verified(t, map[string]*ebpf.Program{"judge": o.Judge, "opens": o.Opens, "files": o.Files, "strange": o.Strange, "lose": o.ReeveLose})
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

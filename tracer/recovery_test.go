package tracer

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/ring"
)

// noFacts is a session of whose tasks nothing is known.
func noFacts(func(event.Event, error) bool) {}

// killed records opens of /f/1 to /f/total by the hooks' own code into a kernel's
// ring, as a session that is killed: all are read, a message of each 10 is journaled,
// the first acked are acked, and then init saves what there is.
func killed(t *testing.T, total, acked int) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatal("REQUIRE=root, but this test needs root")
		}
		t.Skip("needs root: loads BPF programs")
	}
	j, err := lsm.NewJudge(&lsm.Rules{Planes: []lsm.Plane{{Need: event.AccessRead, Outcomes: []lsm.Outcome{{Read: event.ActionAllow}}}}})
	if err != nil && strings.Contains(err.Error(), "not supported") && !strings.Contains(os.Getenv("REQUIRE"), "lsm") {
		t.Skipf("needs the kernel of engine lsm: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	for n := 1; n <= total; n++ {
		if _, err := j.Ask(lsm.Question{Path: fmt.Sprintf("/f/%d", n), Need: event.AccessRead, Record: true}); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	journal := Journal(dir)
	var set ring.Set
	rec := &recorder{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	live := NewSink(decider{}, noting{rec, func(n int, first, o event.Origin) {
		if n%10 == 0 {
			if err := journal.Note(uint64(n), []event.Origin{{Ring: ringFlow, From: first.From, To: o.To}}); err != nil {
				t.Error(err)
			}
		}
		if n <= acked {
			set.Ack([]event.Origin{o})
		}
	}})
	if err := j.RecordsKept(ctx, &set, ringFlow, live); err != nil {
		t.Fatal(err)
	}
	if len(rec.events) != total {
		t.Fatalf("%d of %d records were read", len(rec.events), total)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := ring.Save(int(d.Fd()), []ring.Held{j.Held(ringFlow)}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// noting is a recorder that tells how many records there are, and where they stood.
type noting struct {
	*recorder
	note func(n int, first, last event.Origin)
}

func (n noting) Record(e event.Event) {
	n.recorder.Record(e)
	n.note(len(n.events), n.events[0].Origin, e.Origin)
}

// TestRecovery: whatever of a killed session is on the bus, what is recovered is the
// rest, in order.
func TestRecovery(t *testing.T) {
	const total = 500
	dir := killed(t, total, 120)
	for _, last := range []int{120, 130, 137, 499, 500, 510} { // before 120 the journal goes
		rec := &recorder{}
		denies := decider{deny: func(*event.Request) bool { return true }}
		if err := (Recovery{Dir: dir, Last: uint64(last), Engine: EngineLSM, Rules: denies}).Run(noFacts, rec); err != nil {
			t.Fatal(err)
		}
		first := min(last/10*10, total) + 1
		if len(rec.events) != total-first+1 {
			t.Errorf("after record %d: %d recovered, want %d", last, len(rec.events), total-first+1)
		}
		for i, e := range rec.events {
			if e.Object.Path != fmt.Sprintf("/f/%d", first+i) || e.Op != event.OpOpen || e.Action != event.ActionAllow || e.Rule != "test" || e.Detail != Recovered {
				t.Fatalf("after record %d, the %dth is %s", last, i+1, line(e))
			}
			if d := time.Since(e.Time); d < 0 || d > time.Minute {
				t.Fatalf("it happened %v ago", d)
			}
		}
	}
}

// TestRecoveryWithoutJournal: all is recorded that the ring held. What is torn is
// stated.
func TestRecoveryWithoutJournal(t *testing.T) {
	dir := killed(t, 50, 20)
	if err := os.Remove(filepath.Join(dir, ring.JournalName)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, ring.LeftoversName)
	if err := os.Truncate(file, 3000); err != nil {
		t.Fatal(err)
	}
	rec := &recorder{}
	if err := (Recovery{Dir: dir, Last: 20, Engine: EngineLSM}).Run(noFacts, rec); err != nil {
		t.Fatal(err)
	}
	n := len(rec.events)
	if n < 10 || n > 29 || rec.events[0].Object.Path != "/f/21" || rec.events[n-1].Kind != event.KindLost || rec.events[n-1].Count == 0 {
		t.Fatalf("%d records, the last %s", n, line(rec.events[n-1]))
	}
	if HasLeftovers(dir) != true || ForgetLeftovers(dir) != nil || HasLeftovers(dir) {
		t.Error("leftovers are not forgotten")
	}
}

// TestRecoveryKnowsTasks: of a task that earlier records tell of the program is
// named, and nobody looks into /proc, where its number may be another's.
func TestRecoveryKnowsTasks(t *testing.T) {
	dir := killed(t, 3, 0)
	pid := int32(os.Getpid())
	facts := func(exe string) iter.Seq2[event.Event, error] {
		return func(yield func(event.Event, error) bool) {
			yield(event.Event{Kind: event.KindFact, Op: event.OpExec, Task: event.Task{PID: pid, PPID: 7, Exe: exe}}, nil)
		}
	}
	for _, exe := range []string{"/usr/bin/known", ""} {
		rec := &recorder{}
		if err := (Recovery{Dir: dir, Engine: EngineLSM}).Run(facts(exe), rec); err != nil {
			t.Fatal(err)
		}
		if len(rec.events) != 3 || rec.events[0].Task.Exe != exe || rec.events[0].Task.PPID != 7 || rec.events[0].Task.PID != pid {
			t.Errorf("%d records, the first %+v", len(rec.events), rec.events[0].Task)
		}
	}
}

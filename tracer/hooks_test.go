package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

// hooksLoad says whether the programs load here: before Linux 6.12 some kernels have
// BPF LSM, but not all that they call.
var hooksLoad = sync.OnceValue(func() error {
	if err := lsm.Available(); err != nil {
		return err
	}
	return lsm.Loads()
})

// superviseHooked runs a shell script under the engine lsm; denied is one path
// that neither the hooks nor the decider allow.
func superviseHooked(t *testing.T, denied, script string) (Result, []event.Event) {
	t.Helper()
	plan := hookedPlan(t, denied)
	l, err := Prepare(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.LoadHooks(plan.Hooks, false); err != nil {
		t.Fatal(err)
	}
	rec := &recorder{}
	s, err := l.Start(t.Context(), hookedConfig(t, plan, denied, script, rec))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(func(unix.Signal) {})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return r, rec.events
}

// hookedPlan leaves opens to the hooks.
func hookedPlan(t *testing.T, denied string) Plan {
	t.Helper()
	if err := hooksLoad(); err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "lsm") {
			t.Fatalf("REQUIRE=lsm, but: %v", err)
		}
		t.Skipf("needs the LSM programs: %v", err)
	}
	auto, err := automaton.Compile([]automaton.Rule{{Glob: "/", Below: true}, {Glob: denied}}, automaton.Config{})
	if err != nil {
		t.Fatal(err)
	}
	allow, deny := event.ActionAllow, event.ActionDeny
	plane := lsm.Plane{Need: event.AccessRead | event.AccessWrite | event.AccessExec, Auto: auto, Outcomes: make([]lsm.Outcome, auto.NumAccepts())}
	for a := range plane.Outcomes {
		plane.Outcomes[a] = lsm.Outcome{Read: allow, Write: allow, Exec: allow, Make: allow}
		if w := auto.Winners(uint32(a)); len(w) > 0 && w[0] == 1 {
			plane.Outcomes[a] = lsm.Outcome{Read: deny, Write: deny, Exec: deny, Make: deny}
		}
	}
	h := performAll()
	h[gate.Read], h[gate.Write] = gate.Hook, gate.Hook
	return Plan{Handling: h, Hooks: &lsm.Rules{Planes: []lsm.Plane{plane}, Closed: lsm.Tree | lsm.Connect}}
}

func hookedConfig(t *testing.T, plan Plan, denied, script string, rec gate.Recorder) Config {
	return Config{
		Plan: plan, Decider: decider{deny: func(r *event.Request) bool { return r.Object.Path == denied }}, Recorder: rec,
		Order: spawn.Order{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: os.Environ(), Dir: t.TempDir()},
	}
}

// TestHookedOpens: an ordinary read or write causes no notification, but a record
// of the hooks; what is denied is denied once, with its rule; and calls that the
// supervisor makes for the task still work.
func TestHookedOpens(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, ".env")
	if err := os.WriteFile(secret, []byte("token\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, events := superviseHooked(t, secret, `cd `+dir+`; set -e
		echo a >file; echo b >>file; read x <file; mkdir d; set -C; echo excl >d/new; read y <d/new; test "$y" = excl
		mv d/new moved; rm moved; ln -s .env l
		for f in .env l; do if read z <$f; then exit 9; fi; done 2>/dev/null; exit 7`)
	if r.Failed != nil || r.Status.ExitStatus() != 7 {
		for _, e := range events {
			t.Log(line(e))
		}
		t.Fatalf("status %d, failed %v", r.Status.ExitStatus(), r.Failed)
	}
	hooked, denied, exclusive := 0, 0, 0
	for _, e := range events {
		if e.Engine != EngineLSM {
			t.Errorf("engine %q: %s", e.Engine, line(e))
		}
		switch {
		case e.Op != event.OpOpen && e.Op != event.OpCreate:
		case e.Layer == "lsm" && e.Action == event.ActionDeny:
			denied++
			if e.Object.Path != secret || e.Rule != "test" || e.Errno != int32(unix.EACCES) || e.Task.Exe == "" {
				t.Errorf("denied: %s", line(e))
			}
		case e.Layer == "lsm":
			hooked++
		case e.Object.Path == filepath.Join(dir, "d/new"):
			exclusive++
		default:
			t.Errorf("notified: %s", line(e))
		}
	}
	if hooked < 4 || denied != 2 || exclusive != 1 {
		t.Errorf("%d opens by the hooks, %d denied, %d made exclusively", hooked, denied, exclusive)
		for _, e := range events {
			t.Log(line(e))
		}
	}
}

// slow is a recorder that takes what the hooks tell only from some time on.
type slow struct {
	recorder
	from chan struct{}
}

func (s *slow) Record(e event.Event) {
	if e.Layer == "lsm" && e.Kind == event.KindRequest {
		<-s.from
	}
	s.recorder.Record(e)
}

// TestHookedLosses: where rings are too small for what is told while nobody reads
// them, the stream says by cause how many records are missing: those that are there
// and those that are lost are all.
func TestHookedLosses(t *testing.T) {
	const opens, page = 200, 4096 // some twenty records
	dir := t.TempDir()
	denied := filepath.Join(dir, "denied")
	for _, path := range []string{denied, filepath.Join(dir, "ok")} {
		if err := os.WriteFile(path, []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := func(n int) string {
		return fmt.Sprintf(`cd %s; exec 2>/dev/null; i=0; while [ $i -lt %d ]; do i=$((i+1)); { read x <ok; }; { read x <denied; }; done; : >done`, dir, n)
	}
	total := func(n int, rings lsm.Config, rec *slow, read func()) (allowed, refused uint64, lost map[string]uint64) {
		plan := hookedPlan(t, denied)
		l, err := Prepare(false)
		if err != nil {
			t.Fatal(err)
		}
		rings.Session, rings.Rules = uint64(os.Getpid()), *plan.Hooks
		if l.hooks, err = lsm.New(rings); err != nil {
			t.Fatal(err)
		}
		s, err := l.Start(t.Context(), hookedConfig(t, plan, denied, script(n), rec))
		if err != nil {
			t.Fatal(err)
		}
		read()
		if _, err := s.Wait(func(unix.Signal) {}); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		lost = map[string]uint64{}
		for _, e := range rec.events {
			switch {
			case e.Kind == event.KindLost:
				lost[e.Reason] += e.Count
			case e.Layer == "lsm" && e.Action == event.ActionDeny:
				refused++
			case e.Layer == "lsm":
				allowed++
			}
		}
		return allowed, refused, lost
	}
	quick := &slow{from: make(chan struct{})}
	close(quick.from)
	others, refused, lost := total(0, lsm.Config{}, quick, func() {})
	if refused != 0 || len(lost) > 0 || others == 0 {
		t.Fatalf("without a flood: %d allowed, %d refused, lost %v", others, refused, lost)
	}
	late := &slow{from: make(chan struct{})}
	_ = os.Remove(dir + "/done")
	allowed, refused, lost := total(opens, lsm.Config{UrgentBytes: page, FlowBytes: page}, late, func() {
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(dir + "/done"); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Error("the script does not end")
				break
			}
		}
		close(late.from)
	})
	flow, urgent := lost["lsm: "+string(lsm.CauseFlow)], lost["lsm: "+string(lsm.CauseUrgent)]
	t.Logf("%d and %d are told, lost are %v", allowed, refused, lost)
	if len(lost) != 2 || refused == 0 || urgent == 0 || refused+urgent != opens {
		t.Errorf("%d refusals are told and %d lost, of %d: %v", refused, urgent, opens, lost)
	}
	if allowed == 0 || flow == 0 || allowed+flow != others+opens {
		t.Errorf("%d allowed operations are told and %d lost, of %d", allowed, flow, others+opens)
	}
}

package tracer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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
	plan := Plan{Handling: h, Hooks: &lsm.Rules{Planes: []lsm.Plane{plane}, Closed: lsm.Tree | lsm.Connect}}
	l, err := Prepare(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.LoadHooks(plan.Hooks, false); err != nil {
		t.Fatal(err)
	}
	rec := &recorder{}
	s, err := l.Start(t.Context(), Config{
		Plan: plan, Decider: decider{deny: func(r *event.Request) bool { return r.Object.Path == denied }}, Recorder: rec,
		Order: spawn.Order{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: os.Environ(), Dir: t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(func(unix.Signal) {})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return r, rec.events
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

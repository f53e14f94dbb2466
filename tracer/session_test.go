package tracer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

// recorder keeps every event.
type recorder struct {
	mu     sync.Mutex
	events []event.Event
}

func (r *recorder) Record(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) Failing() bool { return false }

func (r *recorder) RecordAcked(_ context.Context, e event.Event) error {
	r.Record(e)
	return nil
}

// decider denies what deny says, or does what decide says, and allows the rest.
type decider struct {
	deny   func(*event.Request) bool
	decide func(*event.Request) event.Action
}

func (d decider) Decide(r *event.Request) event.Decision {
	if d.deny != nil && d.deny(r) {
		return event.Decision{Action: event.ActionDeny, Rule: "test", By: "policy:test"}
	}
	action := event.ActionAllow
	if d.decide != nil {
		action = d.decide(r)
	}
	return event.Decision{Action: action, By: "policy:test"}
}

func (d decider) CheckContent(*event.Request, []byte) event.Decision {
	return event.Decision{Action: event.ActionAllow}
}

func (d decider) CheckChange(_ *event.Request, _, _ []byte) event.Decision {
	return event.Decision{}
}

// performAll traps and performs everything that can be.
func performAll() gate.Table {
	var h gate.Table
	for c := range h {
		h[c] = gate.Perform
	}
	h[gate.Exec], h[gate.Socket], h[gate.Creds] = gate.Continue, gate.Continue, gate.Continue
	h[gate.Kernel], h[gate.Signal] = gate.Refuse, gate.Untrapped
	return h
}

// supervise runs a shell command line under d and returns its exit status.
func supervise(t *testing.T, h gate.Table, d decider, argv ...string) (Result, *recorder) {
	t.Helper()
	return superviseWith(t, h, Config{Decider: d}, argv...)
}

func superviseWith(t *testing.T, h gate.Table, cfg Config, argv ...string) (Result, *recorder) {
	t.Helper()
	rec := &recorder{}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := Prepare(false)
	if err != nil {
		t.Fatal(err)
	}
	wd, _ := os.Getwd()
	plan := Plan{Handling: h}
	plan.Floor.ScopeSignal = true
	cfg.Plan, cfg.Recorder, cfg.AllowDegraded = plan, rec, true
	cfg.Order = spawn.Order{Path: path, Argv: argv, Env: os.Environ(), Dir: wd}
	s, err := l.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(func(unix.Signal) {})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return r, rec
}

func TestCommandBehavesAsWithoutReeve(t *testing.T) {
	dir := t.TempDir()
	script := `set -e; cd ` + dir + `; umask 027; mkdir d; echo hello >d/f; ln d/f d/g; mv d/g d/h; ln -s f d/l; cat d/l;
		chmod 600 d/h; touch -d 2001-01-01 d/f; rm d/l; stat -c '%a %h %Y' d/f; cat /proc/self/status | head -1; exit 7`
	r, rec := supervise(t, performAll(), decider{}, "sh", "-c", script)
	if r.Failed != nil || r.Status.ExitStatus() != 7 {
		for _, e := range rec.events {
			if e.Errno != 0 {
				t.Log(line(e))
			}
		}
		t.Fatalf("status %v, failed %v", r.Status.ExitStatus(), r.Failed)
	}
	if st, err := os.Stat(filepath.Join(dir, "d/h")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("d/h: %v %v", st, err)
	}
	for _, e := range rec.events {
		t.Log(line(e))
	}
}

func TestDenied(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, ".env")
	if err := os.WriteFile(secret, []byte("token"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := decider{deny: func(r *event.Request) bool { return r.Object.Path == secret }}
	r, rec := supervise(t, performAll(), d, "cat", secret)
	if r.Status.ExitStatus() != 1 {
		t.Fatalf("status %d, want 1", r.Status.ExitStatus())
	}
	n := 0
	for _, e := range rec.events {
		if e.Action == event.ActionDeny {
			n++
			if e.Object.Path != secret || e.Task.Exe == "" {
				t.Errorf("denied: %s", line(e))
			}
		}
	}
	if n != 1 {
		t.Errorf("%d denials, want 1", n)
	}
}

func line(e event.Event) string {
	return fmt.Sprintf("%s %s %s %s %q -> %q %s errno=%d hold=%dus %s", e.Kind, e.Task.ID, e.Action, e.Op,
		strings.TrimSpace(e.Object.Path+" "+e.Object.Raw), e.Target.Path, e.Reason, e.Errno, e.HoldNS/1000, e.Layer)
}

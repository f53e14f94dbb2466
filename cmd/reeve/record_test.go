package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/sqlite"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
)

// tapeStart is when the recorded sessions of the scripts begin.
var tapeStart = time.Date(2026, 11, 29, 13, 0, 0, 0, time.UTC)

// tape makes the records of a session, one after another.
type tape struct {
	session string
	events  []event.Event
}

func (t *tape) add(e event.Event) {
	n := len(t.events) + 1
	e.Session, e.Seq, e.Engine = t.session, uint64(n), "unotify"
	e.Time = tapeStart.Add(time.Duration(n) * 10 * time.Millisecond)
	e.BootNS = uint64(1e9 + n*10_000_000)
	t.events = append(t.events, e)
}

func (t *tape) request(task event.Task, op event.Op, access event.Access, path string, d event.Decision) {
	t.add(event.Event{
		Kind: event.KindRequest, Op: op, Access: access, Task: task, Object: event.Object{Kind: event.ObjectFile, Path: path},
		Action: d.Action, Rule: d.Rule, Reason: d.Reason, By: d.By, Errno: d.Errno, Layer: "gate", HoldNS: 9000, Syscall: "openat", Arch: "x86_64",
	})
}

// sampleTape is a shell that reads, writes, is refused a secret, runs a child
// with a hostile name that tries to connect, and ends.
func sampleTape(id string) *tape {
	t := &tape{session: id}
	sh := event.Task{ID: "100-1", PID: 100, TID: 100, PPID: 1, Exe: "/usr/bin/dash", Argv: []string{"sh", "-c", "work"}, Cwd: "/ws"}
	evil := event.Task{ID: "101-2", PID: 101, TID: 101, PPID: 100, Exe: "/ws/e\x1b[2Jvil", Argv: []string{"./e\x1b[2Jvil", "a b"}, Cwd: "/ws"}
	allow := event.Decision{Action: event.ActionAllow, Rule: "/ws", By: "policy:workspace-edit-no-net"}
	deny := event.Decision{Action: event.ActionDeny, Rule: "/**/.env*", Reason: "secret file: environment", By: "policy:workspace-edit-no-net", Errno: 13}
	manifest, err := json.Marshal(session.Manifest{
		Version: session.ManifestVersion, Session: id, Started: tapeStart, Argv: session.Texts(sh.Argv), Cwd: "/ws",
		User: "alice", UID: 1000, Host: "box", Profile: "workspace-edit-no-net", Engine: "unotify", Gaps: []string{"stat is not trapped"},
		Basis: session.NewBasis("", nil, policy.Host{
			Home: "/home/alice", User: "alice", UID: 1000, Workspaces: []string{"/ws"}, Tmp: "/tmp/reeve-" + id, StateDir: "/home/alice/.local/state/reeve",
		}),
	})
	if err != nil {
		panic(err)
	}
	t.add(event.Event{Kind: event.KindSession, Op: event.OpStart, Detail: string(manifest)})
	t.request(sh, event.OpExec, event.AccessExec, "/usr/bin/dash", allow)
	t.add(event.Event{Kind: event.KindFact, Op: event.OpExec, Task: sh, Action: event.ActionAllow, Object: event.Object{Kind: event.ObjectFile, Path: "/usr/bin/dash"}})
	t.request(sh, event.OpOpen, event.AccessRead, "/etc/ld.so.cache", allow)
	t.request(sh, event.OpOpen, event.AccessRead, "/usr/lib/libc.so.6", allow)
	t.request(sh, event.OpOpen, event.AccessRead, "/ws/main.c", allow)
	t.request(sh, event.OpOpen, event.AccessWrite, "/ws/out\nput", allow)
	t.request(sh, event.OpOpen, event.AccessRead, "/ws/.env", deny)
	child := event.Task{ID: evil.ID, PID: evil.PID, TID: evil.TID, PPID: sh.PID, Exe: sh.Exe}
	t.add(event.Event{Kind: event.KindFact, Op: event.OpFork, Task: child, Action: event.ActionAllow, Object: event.Object{Kind: event.ObjectTask, Path: sh.ID}})
	t.request(evil, event.OpExec, event.AccessExec, "/ws/e\x1b[2Jvil", allow)
	t.add(event.Event{
		Kind: event.KindRequest, Op: event.OpConnect, Access: event.AccessConnect, Task: evil, Action: event.ActionDeny, Reason: "the network is off",
		Object: event.Object{Kind: event.ObjectAddr, Addr: "192.0.2.1", Port: 443, Family: 2, Proto: "tcp"}, Rule: "network.enabled", Errno: 13, Layer: "gate",
	})
	t.request(sh, event.OpOpen, event.AccessRead, "/ws/\xff\u202ebin", allow)
	t.add(event.Event{Kind: event.KindFact, Op: event.OpExit, Task: evil, Action: event.ActionAllow, ExitSignal: 9})
	t.add(event.Event{Kind: event.KindLost, Op: event.OpLoss, Count: 3, Reason: "ring full"})
	t.add(event.Event{Kind: event.KindFact, Op: event.OpExit, Task: sh, Action: event.ActionAllow, ExitCode: 3})
	t.add(event.Event{Kind: event.KindSession, Op: event.OpEnd})
	return t
}

// settle makes the session one of this machine and of a state, with its manifest there.
func (t *tape) settle(st *session.State) error {
	var un unix.Utsname
	if err := unix.Uname(&un); err != nil {
		return err
	}
	last := &t.events[len(t.events)-1]
	last.ExitCode = 3
	ended, status := last.Time.Add(time.Second), 3
	m := session.Manifest{
		Version: session.ManifestVersion, Session: t.session, Started: tapeStart, Host: nodeName(&un), Engine: "unotify",
		Basis: session.NewBasis("", nil, policy.Host{StateDir: st.Dir}),
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	t.events[0].Detail = string(text)
	m.Ended, m.Status = &ended, &status
	if text, err = json.Marshal(m); err != nil {
		return err
	}
	if err := os.MkdirAll(st.SessionDir(t.session), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(st.SessionDir(t.session), "manifest.json"), text, 0o600)
}

// scriptRecord is `record ID [stored|crashed|cut|here]`: it records the sample session
// into the script's state; crashed leaves it in the stream of a session whose
// reeve died, cut leaves out its end, here makes it one of this machine.
func scriptRecord(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: record ID [stored|crashed|cut|here]")
	}
	how := strings.Join(args[1:], "")
	t := sampleTape(args[0])
	st, err := session.OpenState(ts.Getenv("REEVE_STATE"))
	ts.Check(err)
	if how == "here" {
		ts.Check(t.settle(st))
	}
	if how == "cut" {
		t.events = t.events[:len(t.events)-1]
	}
	chain := event.NewChain(t.session)
	for i := range t.events {
		if _, err := chain.Next(&t.events[i]); err != nil {
			ts.Fatalf("seal: %v", err)
		}
	}
	batch := event.Batch{Session: t.session, First: 1, Last: uint64(len(t.events)), Events: t.events}
	if how == "crashed" {
		ts.Check(leaveInStream(st, &batch))
		return
	}
	store, err := sqlite.New(filepath.Join(st.Dir, "reeve.db"), sqlite.Config{})
	ts.Check(err)
	ts.Check(store.Append(context.Background(), event.Delivery{Stream: "test", First: 1, Last: 1, Batches: []event.Batch{batch}}))
	ts.Check(store.Close())
}

// leaveInStream is a session of which nothing reached the store.
func leaveInStream(st *session.State, batch *event.Batch) error {
	dir := filepath.Join(st.Dir, "sessions", batch.Session, "bus")
	ctx := context.Background()
	b, err := bus.Open(ctx, bus.Config{Dir: dir})
	if err != nil {
		return err
	}
	data, err := batch.AppendBinary(nil)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	acked := make(chan error, 1)
	var to pipeline.Bus = b
	to.Publish(batch.ID(), data, func(err error) { acked <- err })
	select {
	case err = <-acked:
	case <-time.After(10 * time.Second):
		err = fmt.Errorf("no ack")
	}
	return errors.Join(err, b.Close())
}

// tampering is what scriptTamper can do to a record; false takes it away.
var tampering = map[string]func(*event.Event) bool{
	"deny":   func(e *event.Event) bool { e.Action, e.Errno = event.ActionDeny, 13; return true },
	"allow":  func(e *event.Event) bool { e.Action, e.Errno = event.ActionAllow, 0; return true },
	"former": func(e *event.Event) bool { e.Detail = strings.ReplaceAll(e.Detail, `"basis"`, `"former"`); return true },
	"drop":   func(*event.Event) bool { return false },
}

// scriptTamper is `tamper SESSION SEQ CHANGE`: it changes a record in the script's
// store behind reeve's back, and leaves its chain value as it was.
func scriptTamper(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 || tampering[args[2]] == nil {
		ts.Fatalf("usage: tamper SESSION SEQ deny|allow|former|drop")
	}
	ctx := context.Background()
	store, err := sqlite.New(filepath.Join(ts.Getenv("REEVE_STATE"), "reeve.db"), sqlite.Config{})
	ts.Check(err)
	var d event.Delivery
	found := false
	for e, err := range store.Events(ctx, storage.Query{Session: args[0]}) {
		ts.Check(err)
		if fmt.Sprint(e.Seq) == args[1] {
			found = true
			if !tampering[args[2]](&e) {
				continue
			}
		}
		d.Batches = append(d.Batches, event.Batch{Session: e.Session, First: e.Seq, Last: e.Seq, Events: []event.Event{e}})
	}
	if !found {
		ts.Fatalf("tamper: session %s has no record %s", args[0], args[1])
	}
	ts.Check(errors.Join(store.Remove(ctx, args[0]), store.Append(ctx, d), store.Close()))
}

// scriptUnlist is `unlist SESSION`: it takes a session out of the list of the script's
// store behind reeve's back, and leaves its records.
func scriptUnlist(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: unlist SESSION")
	}
	db, err := sql.Open("sqlite", filepath.Join(ts.Getenv("REEVE_STATE"), "reeve.db"))
	ts.Check(err)
	res, err := db.Exec(`DELETE FROM sessions WHERE id = ?`, args[0])
	ts.Check(errors.Join(err, db.Close()))
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		ts.Fatalf("unlist %s: %d rows, %v", args[0], n, err)
	}
}

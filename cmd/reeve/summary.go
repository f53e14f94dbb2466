package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

// tap is the recorder of a session: it hands everything to the stream, and
// remembers why the command itself was denied, to say so.
type tap struct {
	stream *stream

	mu     sync.Mutex // guards denied
	denied *event.Event
}

func (t *tap) Record(e event.Event) {
	t.look(&e)
	t.stream.pub.Record(e)
}

func (t *tap) RecordAcked(ctx context.Context, e event.Event) error {
	t.look(&e)
	return t.stream.pub.RecordAcked(ctx, e)
}

// Failing reports that the bus refuses records at the moment.
func (t *tap) Failing() bool { return t.stream.pub.Failing() }

func (t *tap) look(e *event.Event) {
	if e.Op != event.OpExec || e.Action == event.ActionAllow {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.denied == nil {
		denied := *e
		t.denied = &denied
	}
}

// finish records the end, waits for the store, and gives the exit status. leave is
// called when nothing has to be saved any more should we die.
func (l *live) finish(tap *tap, m session.Manifest, leave func(), r tracer.Result, err error) (int, error) {
	status, startErr := l.status(tap, r)
	if err != nil {
		status = statusReeve
	}
	end := l.marker(event.OpEnd, "")
	if r.Status.Signaled() {
		end.ExitSignal = int32(r.Status.Signal())
	} else {
		end.ExitCode = int32(status)
	}
	if err != nil {
		end.Reason = err.Error()
	}
	tap.Record(end)
	totals, stored, recErr := tap.stream.end()
	leave()
	now := time.Now().UTC()
	m.Ended, m.Status = &now, &status
	recErr = errors.Join(recErr, l.session.WriteManifest(m))
	clearErr := l.session.Close(stored)
	recErr = errors.Join(recErr, tap.stream.closed())
	l.summary(totals, stored, tap.stream)
	if err = errors.Join(startErr, err); err != nil {
		return 0, failWith(status, errors.Join(err, recErr, clearErr))
	}
	if recErr != nil {
		// The command ran: its status stays, and the fault is said.
		say(os.Stderr, fmt.Errorf("the session's record: %w", recErr))
	}
	if clearErr != nil {
		say(os.Stderr, fmt.Errorf("clear up after the session: %w", clearErr))
	}
	return status, nil
}

// status is the command's, as a shell would give it; the error says why it did
// not start.
func (l *live) status(tap *tap, r tracer.Result) (int, error) {
	name := quote(l.opts.argv[0])
	switch {
	case r.Failed == nil && r.Status.Signaled():
		return 128 + int(r.Status.Signal()), nil
	case r.Failed == nil:
		return r.Status.ExitStatus(), nil
	case r.Failed.Step != spawn.StepExec:
		return statusReeve, r.Failed
	}
	tap.mu.Lock()
	denied := tap.denied
	tap.mu.Unlock()
	switch {
	case denied != nil:
		return statusDenied, withHint(fmt.Errorf("run %s: denied: %s", name, reasonAndRule(denied)),
			"`reeve policy explain exec "+askedLine(denied)+"` says which rule of which file")
	case r.Failed.Errno == unix.ENOENT:
		return statusNotFound, fmt.Errorf("run %s: %w", name, r.Failed.Errno)
	}
	return statusDenied, fmt.Errorf("run %s: %w", name, r.Failed.Errno)
}

// reasonAndRule is why something was denied, with the rule where there is one: what
// nothing names is denied by none.
func reasonAndRule(e *event.Event) string {
	if e.Rule == "" {
		return e.Reason
	}
	return e.Reason + " (rule " + quote(e.Rule) + ")"
}

// askedLine is the program of an exec with what it was told, for a person to ask
// about again.
func askedLine(e *event.Event) string {
	if len(e.Task.Argv) < 2 || e.Task.ArgvLen != 0 {
		return quote(e.Object.Path)
	}
	return commandLine(append([]string{e.Object.Path}, e.Task.Argv[1:]...))
}

// summary is the one line at the end. What did not get to where it should is said
// in any case.
func (l *live) summary(t pipeline.Totals, stored bool, s *stream) {
	if why := s.undelivered(); why != nil {
		say(os.Stderr, withHint(why, "the records stay in the state directory, and the next reeve tries again"))
	}
	if l.opts.quiet {
		return
	}
	lost := t.Lost + t.Events - t.Acked // what the bus never took is lost, too
	what := ""
	switch {
	case !stored && s.gaveUp && s.unstored == nil:
		what = "forwarded"
	case !stored:
		what = "stored"
	}
	printSummary(t.Requests, t.Denied, lost, what, l.session.ID)
}

// printSummary prints it; undone is what has not been done to all records, if anything.
func printSummary(requests, denied, lost uint64, undone, id string) {
	line := fmt.Sprintf("reeve: %d operations, %d denied, %d lost; reeve replay %s", requests, denied, lost, id)
	if undone != "" {
		line += " (not " + undone + " yet: the next reeve does it)"
	}
	fmt.Fprintln(os.Stderr, line)
}

// digest is the SHA-256 of all policy files with their layers and the profile.
func (l *live) digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", buildVersion(), l.policy.Name())
	for _, s := range l.sources {
		fmt.Fprintf(h, "%v %d %s\n", s.Layer, len(s.Text), s.Name)
		h.Write(s.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// marker is a record of the stream itself.
func (l *live) marker(op event.Op, detail string) event.Event {
	return event.Event{
		Time: time.Now().UTC(), BootNS: proc.BootNS(), Engine: l.engine,
		Kind: event.KindSession, Op: op, By: "reeve", Detail: detail,
	}
}

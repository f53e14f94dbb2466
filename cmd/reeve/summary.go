package main

import (
	"context"
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

// finish records the end, waits for the store, and gives the exit status.
func (l *live) finish(tap *tap, m session.Manifest, r tracer.Result, err error) (int, error) {
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
	now := time.Now().UTC()
	m.Ended, m.Status = &now, &status
	recErr = errors.Join(recErr, l.session.WriteManifest(m), l.session.Close(stored))
	l.summary(totals, stored)
	if err = errors.Join(startErr, err); err != nil {
		return 0, failWith(status, errors.Join(err, recErr))
	}
	if recErr != nil {
		// The command ran: its status stays, and the fault is said.
		say(os.Stderr, fmt.Errorf("the session's record: %w", recErr))
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
		return statusDenied, withHint(fmt.Errorf("run %s: denied: %s (rule %s)", name, denied.Reason, quote(denied.Rule)),
			"`reeve policy explain exec "+denied.Object.Path+"` says which rule of which file")
	case r.Failed.Errno == unix.ENOENT:
		return statusNotFound, fmt.Errorf("run %s: %w", name, r.Failed.Errno)
	}
	return statusDenied, fmt.Errorf("run %s: %w", name, r.Failed.Errno)
}

// summary is the one line at the end.
func (l *live) summary(t pipeline.Totals, stored bool) {
	if l.opts.quiet {
		return
	}
	lost := t.Lost + t.Events - t.Acked // what the bus never took is lost, too
	line := fmt.Sprintf("reeve: %d operations, %d denied, %d lost; reeve replay %s", t.Requests, t.Denied, lost, l.session.ID)
	if !stored {
		line += " (not stored yet: the next reeve does it)"
	}
	fmt.Fprintln(os.Stderr, line)
}

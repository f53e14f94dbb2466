package tracer

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/spawn"
)

// Result is how the command ended.
type Result struct {
	Status unix.WaitStatus
	// Failed is set when the command did not start.
	Failed *spawn.LaunchError
}

// Wait serves the session until its last task is gone. stopped is called when
// the command was stopped by a signal.
func (s *Session) Wait(stopped func(unix.Signal)) (r Result, err error) {
	for done := false; !done && err == nil; {
		var report spawn.Report
		if report, err = s.process.Next(); err != nil {
			break
		}
		switch report.Kind {
		case spawn.Failed:
			r.Failed, done = report.Err, true
		case spawn.Stopped:
			if !s.ending.Load() {
				stopped(report.Status.StopSignal())
			}
		case spawn.Exited:
			r.Status = report.Status
		case spawn.Empty:
			done = true
		}
	}
	// Init is to be the last that holds the hooks: detaching them takes long.
	err = errors.Join(err, s.inner.release(), s.hooks.release())
	s.cancel()
	return r, errors.Join(err, s.group.Wait(), s.pins.remove(), s.watch.close(), s.hooks.close())
}

// Leave says, after Wait, that all that was recorded is safe: init need not save
// anything and goes.
func (s *Session) Leave() {
	if s.closed == nil {
		s.closed = make(chan error, 1)
		go func() { s.closed <- s.process.Close() }()
	}
}

// Close is Leave, and waits until init is gone; it is called last, after Wait. Where
// init has hooks to detach, which takes it up to seconds and is nobody's concern any
// more, it is left to itself.
func (s *Session) Close() error {
	s.Leave()
	if s.hooks == nil {
		return <-s.closed
	}
	select {
	case err := <-s.closed:
		return err
	case <-time.After(detaching):
		return nil
	}
}

// detaching is how long Close waits for an init that has hooks to detach.
const detaching = 20 * time.Millisecond

// Signal passes a signal on to the command.
func (s *Session) Signal(sig unix.Signal) error { return s.process.Signal(sig) }

// Resume continues the command if it is still stopped.
func (s *Session) Resume() error { return s.process.Resume() }

// End kills the whole tree.
func (s *Session) End() error {
	s.ending.Store(true)
	return s.process.End()
}

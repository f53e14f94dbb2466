package spawn

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/spawn/headstart"
)

// Process is the supervisor's half of a launch: init, and through it the
// command. One goroutine at a time calls Confine, Go and Next, in that order;
// Signal, End, Hold and Drop may be called from any.
type Process struct {
	mu   sync.Mutex // guards left, and conn against being closed while it is used
	left bool
	conn conn
	init *os.Process
	// InitPID is the parent of the command and the reaper of its tree.
	InitPID int
}

// Start starts init, which waits for its orders, or takes the one that package
// headstart began. That takes milliseconds, so it is done first and the policy is
// compiled meanwhile.
func Start() (*Process, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the session's subreaper: %w", err)
	}
	h, err := headstart.Take()
	if err != nil {
		return nil, err
	}
	return &Process{conn: conn{fd: h.Socket}, init: h.Process, InitPID: h.Process.Pid}, nil
}

// LaunchError says at which step the launch failed.
type LaunchError struct {
	Step  string
	Errno unix.Errno
}

func (e *LaunchError) Error() string {
	if e.Errno == 0 {
		return e.Step
	}
	return e.Step + ": " + e.Errno.Error()
}

func (e *LaunchError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// Confine sends the order and returns the listener's descriptor. ruleset is -1 or
// a Landlock ruleset. What is in hold (descriptors of what confines the tree) init
// holds open until the tree is gone. All stay the caller's. The error is a
// *LaunchError when a step in init failed.
func (p *Process) Confine(o Order, ruleset int, hold ...int) (listener int, err error) {
	var fds []int
	if o.Landlock = ruleset >= 0; o.Landlock {
		fds = append(fds, ruleset)
	}
	if o.Terminal != nil {
		fds = append(fds, o.Terminal.Slave)
	}
	if fds = append(fds, hold...); len(fds) > maxFDs {
		return -1, fmt.Errorf("bug: %d descriptors for the session's init, %d can be sent", len(fds), maxFDs)
	}
	if err := p.conn.send(message{Kind: kindOrder, Order: &o}, fds...); err != nil {
		return -1, err
	}
	m, fds, err := p.conn.recv()
	if err != nil {
		return -1, fmt.Errorf("wait for the session's init: %w", err)
	}
	if m.Kind == kindFailed {
		return -1, &LaunchError{Step: m.Step, Errno: unix.Errno(m.Errno)}
	}
	if m.Kind != kindReady || len(fds) != 1 {
		return -1, fmt.Errorf("bug: init answered %q to its order", m.Kind)
	}
	return fds[0], nil
}

// Go lets init fork the command. The listener must be served by now: the first
// notification is the command's own execve.
func (p *Process) Go() error { return p.conn.send(message{Kind: kindGo}) }

// Report is one thing that happened to the command.
type Report struct {
	Kind   ReportKind
	PID    int
	Status unix.WaitStatus
	Err    *LaunchError // for Failed
}

// ReportKind is the kind of a Report.
type ReportKind uint8

// The kinds of reports, in the order in which they can come.
const (
	Started ReportKind = iota + 1
	Failed             // the command did not start: Err
	Stopped            // by a signal: Status
	Continued
	Exited // Status
	Empty  // no task of the session is left; the last report
)

var reports = map[kind]ReportKind{
	kindStarted: Started, kindFailed: Failed, kindStopped: Stopped,
	kindContinued: Continued, kindExited: Exited, kindEmpty: Empty,
}

// ErrInitDied says that init ended before the session did; its tree has been
// killed by the time this is returned.
var ErrInitDied = errors.New("the session's init died; its tasks were killed")

// Next waits for the next report.
func (p *Process) Next() (Report, error) {
	m, _, err := p.conn.recv()
	if err != nil {
		endTree(os.Getpid(), lifeless())
		if errors.Is(err, errClosed) {
			return Report{}, ErrInitDied
		}
		return Report{}, err
	}
	k, ok := reports[m.Kind]
	if !ok {
		return Report{}, fmt.Errorf("bug: init reported %q", m.Kind)
	}
	r := Report{Kind: k, PID: m.PID, Status: unix.WaitStatus(m.Status)}
	if k == Failed {
		r.Err = &LaunchError{Step: m.Step, Errno: unix.Errno(m.Errno)}
	}
	return r, nil
}

// Signal sends a signal to the command.
func (p *Process) Signal(s unix.Signal) error {
	return p.conn.send(message{Kind: kindSignal, Signal: int(s)})
}

// Resume continues the command if it is still stopped: the supervisor stopped
// with it, and was continued.
func (p *Process) Resume() error { return p.conn.send(message{Kind: kindResume}) }

// End kills the whole tree; the reports Exited and Empty follow.
func (p *Process) End() error { return p.conn.send(message{Kind: kindEnd}) }

// Hold has init hold more descriptors of what confines the tree, or part of it,
// until Drop with the same number or until the tree is gone. They stay the
// caller's, too.
func (p *Process) Hold(number int, fds []int) error {
	if len(fds) > maxFDs {
		return fmt.Errorf("bug: %d descriptors for the session's init, %d can be sent", len(fds), maxFDs)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return ErrInitDied
	}
	return p.conn.send(message{Kind: kindHold, PID: number}, fds...)
}

// Drop ends what Hold began, with a number that is not 0. Init closes the descriptors
// in its own time; one that is gone holds nothing.
func (p *Process) Drop(number int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return nil
	}
	err := p.conn.send(message{Kind: kindDrop, PID: number})
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// Close ends init, and with it whatever still runs, and waits for it.
func (p *Process) Close() error {
	p.mu.Lock()
	_ = p.conn.send(message{Kind: kindLeave}) // an init that is gone needs no word
	unix.Close(p.conn.fd)
	p.left = true
	p.mu.Unlock()
	if _, err := p.init.Wait(); err != nil {
		return fmt.Errorf("wait for the session's init: %w", err)
	}
	return nil
}

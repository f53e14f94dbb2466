// Package terminal is the front of the approval desk on the terminal that reeve
// was started on. It gives the command a pseudo-terminal, relays between the two,
// and shows a question when one waits.
//
// # Why a pseudo-terminal
//
// Two readers of one terminal each get some of the keys. So that an answer is
// read by reeve, and by nobody else, the command reads another terminal:
//
//	person ⇄ outer terminal ⇄ loop ⇄ master ▏slave ⇄ command
//	          raw while in          relay     as the outer
//	          the foreground                  terminal was
//
// The outer terminal only passes bytes; echo, ^C, ^Z and line editing happen in
// the inner one, which the command sets as it likes. The window's size is passed
// on. Nothing is read and no mode is changed while reeve is in the background.
//
// # A question
//
// The loop stops reading the master between two sequences of the command's output,
// so that the command waits when its terminal is full. It takes the terminal out
// of every mode that the command has set and draws the question: on the alternate
// screen, which gives back what was there, or, when the command is on that one, over
// it; the command is then made to draw anew by a window that changes its size and
// changes back. Only text without control characters is drawn.
//
// Keys that come while somebody is still typing to the command go to the command
// and are no answer. Replies of the terminal to what the command asked it go to
// the command at any time.
//
// # What ends it
//
// When the terminal is closed, the inner one hangs up as well and all questions
// are answered with no. The outer terminal's modes are put back by Suspend,
// Finish and Close, and by the session's init when reeve is killed; what was drawn
// stays then. What the command changes in its terminal's settings goes with it.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// Desk is where the questions wait; see [approval.Desk].
type Desk interface {
	Pending() []approval.Question
	Watch(ch chan<- struct{}) (stop func())
	Answer(id string, a approval.Answer) error
	Propose(id string) (approval.Proposal, error)
}

// Config is what a Terminal needs. Lines and By are required.
type Config struct {
	// Lines say all of a question, the operation first. What is not printable in
	// them is escaped once more.
	Lines func(*approval.Question) []string
	// By is who answers.
	By string
	// Getenv tells what the terminal is; nil is os.Getenv.
	Getenv func(string) string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Terminal is the terminal of a session. Run serves it; the other methods may be
// called from any goroutine.
type Terminal struct {
	cfg      Config
	outer    *outer
	inner    *inner
	wake     int // eventfd: there are requests
	requests chan request
	over     chan struct{} // closed when Run has returned
	closing  sync.Once
}

// request is something that the loop is to do; done is closed when it has.
type request struct {
	what what
	done chan struct{}
}

type what uint8

const (
	suspend what = iota
	resume
	finish
)

// ErrNoTerminal says that there is nothing to ask on.
var ErrNoTerminal = errors.New("there is no terminal to ask on")

// Open takes the controlling terminal and makes the pseudo-terminal. It changes
// nothing yet.
func Open(cfg Config) (*Terminal, error) {
	if cfg.Lines == nil || cfg.By == "" {
		return nil, errors.New("bug: a terminal needs lines and an approver")
	}
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &Terminal{cfg: cfg, wake: -1, requests: make(chan request, 4), over: make(chan struct{})}
	if err := t.open(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Terminal) open() (err error) {
	if t.outer, err = openOuter(); err != nil {
		return err
	}
	if t.inner, err = openInner(t.outer); err != nil {
		return err
	}
	if t.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("make an eventfd: %w", err)
	}
	return nil
}

// Interactive says whether a person is likely to sit at the controlling terminal:
// it is all three standard streams, and this process is in its foreground.
func Interactive() bool {
	o, err := openOuter()
	if err != nil {
		return false
	}
	defer o.close()
	return o.front() && len(o.streams()) == 3
}

// Slave is the command's end of the pseudo-terminal.
func (t *Terminal) Slave() *os.File { return t.inner.slave }

// Streams are those of 0, 1 and 2 that are the outer terminal, and so have to
// be the inner one for the command.
func (t *Terminal) Streams() []int { return t.outer.streams() }

// Modes are those of the outer terminal; nil while it is not ours.
func (t *Terminal) Modes() *unix.Termios {
	modes, err := unix.IoctlGetTermios(t.outer.fd, unix.TCGETS)
	if err != nil || !t.outer.front() {
		return nil
	}
	return modes
}

// Reset are the sequences that undo what a question or the command may have made
// of the outer terminal, where nobody knows what that was. They do not leave the
// alternate screen: on the other one that would move the cursor.
func (t *Terminal) Reset() string {
	if abilityOf(t.cfg.Getenv).dumb {
		return ""
	}
	return "\x18\x1b[!p\x1b[?7h\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?2004l"
}

// Run relays and asks until [Terminal.Finish], or until ctx ends, and leaves
// the outer terminal as it was.
func (t *Terminal) Run(ctx context.Context, desk Desk) error {
	defer close(t.over)
	defer t.outer.restore()
	l := newLoop(t, desk)
	changed, signals := make(chan struct{}, 1), make(chan os.Signal, 4)
	defer desk.Watch(changed)()
	signal.Notify(signals, unix.SIGWINCH, unix.SIGCONT)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { t.listen(ctx, changed, signals, l) })
	return l.run(ctx)
}

// Suspend shows what the command has written, puts the outer terminal back and
// leaves it alone until [Terminal.Resume].
func (t *Terminal) Suspend() { t.request(suspend) }

// Resume takes the outer terminal again.
func (t *Terminal) Resume() { t.request(resume) }

// Finish shows all that was written, once the last process of the session is
// gone, and ends Run. It waits for a terminal that is slow to show it, as the
// command itself would have.
func (t *Terminal) Finish() { t.request(finish) }

func (t *Terminal) request(w what) {
	r := request{w, make(chan struct{})}
	select {
	case t.requests <- r:
	case <-t.over:
		return
	}
	t.poke()
	select {
	case <-r.done:
	case <-t.over:
	}
}

// Close puts the outer terminal back, whatever state the rest is in. It may be
// called more than once.
func (t *Terminal) Close() {
	if t.outer != nil {
		t.outer.restore()
	}
	t.closing.Do(func() {
		if t.inner != nil {
			t.inner.close()
		}
		if t.wake >= 0 {
			unix.Close(t.wake)
		}
		if t.outer != nil {
			t.outer.close()
		}
	})
}

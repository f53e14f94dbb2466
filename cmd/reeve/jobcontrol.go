package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/cmd/reeve/early"
	"github.com/reeve-audit/reeve/supervisor/approval/terminal"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// Without questions on the terminal the command shares reeve's process group, as
// if reeve were not there: the terminal's ^C, ^\ and ^Z and its SIGWINCH reach the
// command by themselves, and reeve only has to survive them. What is sent to reeve
// alone is passed on. When the command stops, so does reeve, so that the shell
// takes the terminal back; when it is continued, init continues reeve.
//
// With questions on the terminal the command has one of its own, see package
// supervisor/approval/terminal. ^C, ^\ and ^Z are then bytes that reeve relays. What
// else was in reeve's process group (a script, a pipeline) would have had them as
// well, and gets them from reeve when the command stopped or ended by them.

// console is the controlling terminal and who had it when reeve started.
type console struct {
	fd    int // -1 without one
	group int // our process group
	front bool
	own   *terminal.Terminal // the command's; nil when it shares ours
	ran   chan struct{}      // closed when own is no longer served
	stop  context.CancelFunc // ends serving own
	told  atomic.Bool        // somebody sent a signal to end the command
}

func openConsole(own *terminal.Terminal) *console {
	c := &console{fd: -1, group: unix.Getpgrp(), own: own}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return c
	}
	c.fd = fd
	c.front = c.foreground() == c.group
	return c
}

func (c *console) foreground() int {
	pgrp, err := unix.IoctlGetInt(c.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return pgrp
}

// signalled says whether a signal that a terminal sends came from there: it then
// went to the command as well.
func (c *console) signalled() bool {
	return c.own == nil && c.fd >= 0 && c.foreground() == c.group
}

// restore gives the terminal back to our process group, if it was ours and is
// left with a group of the command's: a shell that was killed does not do that.
func (c *console) restore() {
	if c.fd < 0 {
		return
	}
	if c.front && c.foreground() != c.group {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// A background process that sets the group is stopped by SIGTTOU, unless
		// it blocks it.
		var block, old unix.Sigset_t
		block.Val[0] = 1 << (unix.SIGTTOU - 1)
		if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old) == nil {
			_ = unix.IoctlSetPointerInt(c.fd, unix.TIOCSPGRP, c.group)
			_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		}
	}
	unix.Close(c.fd)
}

// signaller is a command that signals can be passed on to.
type signaller interface{ Signal(unix.Signal) error }

// caught are the signals sent to reeve that are the command's: from before it is
// started, so that none of them ends reeve instead, until stop is called. Those that
// the Go runtime would drop are caught from reeve's own start.
type caught struct {
	ch   chan os.Signal
	done chan struct{} // nil until they are passed on
}

// catchSignals begins. What reeve was started with ignoring, by nohup(1) say, the
// command ignores as well.
func catchSignals() *caught {
	c := &caught{ch: early.Signals()}
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTERM, unix.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(c.ch, sig)
		}
	}
	return c
}

// pass passes on what was caught, and what is from now on. Of what was, the terminal
// had nobody else to send it to.
func (c *caught) pass(s signaller, term *console) {
	c.done = make(chan struct{})
	before := len(c.ch)
	go func() {
		defer close(c.done)
		for sig := range c.ch {
			before--
			switch sig {
			case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP:
				if before < 0 && term.signalled() {
					continue
				}
			}
			if sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGINT || sig == unix.SIGQUIT {
				term.told.Store(true)
			}
			_ = s.Signal(sig.(unix.Signal)) // a command that is gone needs no signal
		}
	}()
}

func (c *caught) stop() {
	signal.Stop(c.ch)
	close(c.ch)
	if c.done != nil {
		<-c.done
	}
}

// serve relays between the terminal and the command's own, and asks there.
func (c *console) serve(ctx context.Context, s *tracer.Session, desk terminal.Desk) {
	if c.own == nil {
		return
	}
	c.ran = make(chan struct{})
	ctx, c.stop = context.WithCancel(ctx)
	go func() {
		defer close(c.ran)
		if err := c.own.Run(ctx, desk); err != nil {
			fmt.Fprintf(os.Stderr, "reeve: the terminal: %s\r\n", sanitize(err.Error()))
			_ = s.End() // a command that nobody can see or stop must not go on
		}
	}()
}

// finish shows what the command wrote last and leaves the terminal as it was.
func (c *console) finish(status unix.WaitStatus) {
	if c.own != nil {
		// A terminal that takes nothing holds us no longer than somebody wants.
		ending, unwatch := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
		defer unwatch()
		defer context.AfterFunc(ending, c.stop)()
		if c.told.Load() {
			defer time.AfterFunc(patience, c.stop).Stop()
		}
		c.own.Finish()
		<-c.ran
		c.own.Close()
		c.passEnd(status)
	}
	c.restore()
}

// patience is how long a terminal that takes nothing holds up an end that somebody
// asked for.
const patience = 2 * time.Second

// passEnd sends the signal of a key that ended the command to those of our process
// group that would have had it from the terminal.
func (c *console) passEnd(status unix.WaitStatus) {
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGQUIT} {
		if status.Signaled() && status.Signal() == sig && c.fd >= 0 && c.foreground() == c.group {
			signal.Ignore(sig)
			_ = unix.Kill(0, sig)
			signal.Reset(sig)
		}
	}
}

// stopWith stops reeve as its command was stopped.
func (c *console) stopWith(s *tracer.Session) func(unix.Signal) {
	if c.own != nil {
		return func(unix.Signal) {
			c.own.Suspend()
			stopJob()
			c.own.Resume()
			_ = s.Resume()
		}
	}
	return func(unix.Signal) {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		// Continued. A shell continues the command with us; whoever continued
		// reeve alone means the command.
		time.AfterFunc(settle, func() { _ = s.Resume() })
	}
}

// settle is how long a shell may take to continue all of a job.
const settle = 50 * time.Millisecond

// stopJob stops our process group and returns when it is continued. A group that
// nobody could continue goes on, as it would at the terminal's own ^Z.
func stopJob() {
	if orphaned() {
		return
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(0, unix.SIGSTOP) == nil {
		<-continued // the signal may come to another thread first
	}
}

// orphaned says whether nobody outside of our process group, in our terminal
// session, is the parent of one in it whom we descend from (setpgid(2)).
func orphaned() bool {
	group := unix.Getpgrp()
	session, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	for parent := os.Getppid(); parent > 1; {
		sid, err := unix.Getsid(parent)
		if err != nil || sid != session {
			return true
		}
		if g, err := unix.Getpgid(parent); err != nil || g != group {
			return err != nil
		}
		var dead bool
		if parent, dead = proc.ParentState(parent); dead {
			return true
		}
	}
	return true
}

// stderr is where messages go while the command runs.
func (o *runOptions) stderr() io.Writer {
	if o.ask == askTTY {
		return rawTerminal{os.Stderr}
	}
	return os.Stderr
}

// rawTerminal begins lines where a terminal in raw mode does not.
type rawTerminal struct{ io.Writer }

func (w rawTerminal) Write(p []byte) (int, error) {
	if _, err := w.Writer.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

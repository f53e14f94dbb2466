package main

import (
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer"
)

// The command shares reeve's process group, as if reeve were not there: the
// terminal's ^C, ^\ and ^Z and its SIGWINCH reach the command by themselves, and
// reeve only has to survive them. What is sent to reeve alone is passed on. When
// the command stops, so does reeve, so that the shell takes the terminal back;
// when it is continued, init continues reeve.

// terminal is the controlling terminal and who had it when reeve started.
type terminal struct {
	fd    int // -1 without one
	group int // our process group
	front bool
}

func openTerminal() *terminal {
	t := &terminal{fd: -1, group: unix.Getpgrp()}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return t
	}
	t.fd = fd
	t.front = t.foreground() == t.group
	return t
}

func (t *terminal) foreground() int {
	pgrp, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return pgrp
}

// signalled says whether a signal that a terminal sends came from there: it then
// went to the command as well.
func (t *terminal) signalled() bool { return t.fd >= 0 && t.foreground() == t.group }

// restore gives the terminal back to our process group, if it was ours and is
// left with a group of the command's: a shell that was killed does not do that.
func (t *terminal) restore() {
	if t.fd < 0 {
		return
	}
	if t.front && t.foreground() != t.group {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// A background process that sets the group is stopped by SIGTTOU, unless
		// it blocks it.
		var block, old unix.Sigset_t
		block.Val[0] = 1 << (unix.SIGTTOU - 1)
		if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old) == nil {
			_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
			_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		}
	}
	unix.Close(t.fd)
}

// passSignals passes on what is sent to reeve until stop is called.
func passSignals(s *tracer.Session, t *terminal) (stop func()) {
	ch := make(chan os.Signal, 16)
	signal.Notify(ch, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sig := range ch {
			switch sig {
			case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP:
				if t.signalled() {
					continue
				}
			}
			_ = s.Signal(sig.(unix.Signal)) // a command that is gone needs no signal
		}
	}()
	return func() {
		signal.Stop(ch)
		close(ch)
		<-done
	}
}

// stopWith stops reeve as its command was stopped.
func stopWith(s *tracer.Session) func(unix.Signal) {
	return func(unix.Signal) {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		// Continued. A shell continues the command with us; whoever continued
		// reeve alone means the command.
		time.AfterFunc(settle, func() { _ = s.Resume() })
	}
}

// settle is how long a shell may take to continue all of a job.
const settle = 50 * time.Millisecond

package terminal

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// outer is the terminal that the person sits at.
type outer struct {
	fd    int // a file description of our own, which does not block
	group int // our process group

	mu    sync.Mutex // guards saved and fd's end
	saved *term.State
}

func openOuter() (*outer, error) {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%w (open /dev/tty: %w)", ErrNoTerminal, err)
	}
	return &outer{fd: fd, group: unix.Getpgrp()}, nil
}

// front says whether we are in the terminal's foreground.
func (o *outer) front() bool {
	pgrp, err := unix.IoctlGetInt(o.fd, unix.TIOCGPGRP)
	return err == nil && pgrp == o.group
}

// mute says whether what the background writes stops it (`stty tostop`).
func (o *outer) mute() bool {
	modes, err := unix.IoctlGetTermios(o.fd, unix.TCGETS)
	return err == nil && modes.Lflag&unix.TOSTOP != 0
}

// streams are those of our standard streams that are this terminal.
func (o *outer) streams() (fds []int) {
	device := proc.TTYDevice(proc.OwnTTY())
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == device {
			fds = append(fds, fd)
		}
	}
	return fds
}

// raw makes the terminal pass all bytes as they are. What it was is kept for
// restore.
func (o *outer) raw() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.saved != nil {
		return nil
	}
	saved, err := term.MakeRaw(o.fd)
	if err != nil {
		return fmt.Errorf("set the terminal's mode: %w", err)
	}
	o.saved = saved
	return nil
}

// forget says that the terminal's modes are somebody else's now.
func (o *outer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.saved = nil
}

// restore makes the terminal what it was before raw.
func (o *outer) restore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.saved == nil {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// If we have just lost the foreground, this must not stop us.
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old) == nil {
		_ = term.Restore(o.fd, o.saved) // a terminal that is gone has no modes
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	}
	o.saved = nil
}

// size is the window's; nil where the terminal does not know.
func (o *outer) size() *unix.Winsize {
	ws, err := unix.IoctlGetWinsize(o.fd, unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	return ws
}

func (o *outer) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	unix.Close(o.fd)
	o.fd = -1
}

package terminal

import (
	"errors"
	"fmt"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// inner is the pseudo-terminal of the command.
type inner struct {
	master *os.File
	fd     int // of the master, which does not block; -1 after a hangup
	// slave is kept open until the end: a master without one reads as ended.
	slave *os.File
	// modes are what the slave was given last.
	modes unix.Termios
}

// openInner makes a pseudo-terminal with the modes and the size of the outer one.
func openInner(o *outer) (*inner, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("make a pseudo-terminal for the command: %w", err)
	}
	// Fd takes a file out of Go's poller and lets it block. The slave must: its
	// description is the one that the command gets.
	i := &inner{master: master, fd: int(master.Fd()), slave: slave}
	err = i.copyModes(o)
	if err == nil {
		err = unix.SetNonblock(i.fd, true)
	}
	if err != nil {
		i.close()
		return nil, fmt.Errorf("give the command's terminal the modes of ours: %w", err)
	}
	i.resize(o.size())
	return i, nil
}

// copyModes makes the slave's modes those of the outer terminal. While that one is
// somebody else's, a shell that edits a line has its own modes on it: then they are
// made usual.
func (i *inner) copyModes(o *outer) error {
	fd := int(i.slave.Fd())
	modes, err := unix.IoctlGetTermios(o.fd, unix.TCGETS)
	if err != nil {
		return err
	}
	if !o.front() {
		modes.Iflag |= unix.ICRNL
		modes.Oflag |= unix.OPOST | unix.ONLCR
		modes.Lflag |= unix.ISIG | unix.ICANON | unix.IEXTEN | unix.ECHO | unix.ECHOE | unix.ECHOK
	}
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, modes); err != nil {
		return err
	}
	now, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err == nil {
		i.modes = *now
	}
	return err
}

// adopt copies the modes anew if nobody has changed the slave's meanwhile: the
// terminal has become ours.
func (i *inner) adopt(o *outer) {
	now, err := unix.IoctlGetTermios(int(i.slave.Fd()), unix.TCGETS)
	if err == nil && *now == i.modes {
		_ = i.copyModes(o) // as good without
	}
}

// resize tells the command the window's size; the kernel sends SIGWINCH if it is
// another one.
func (i *inner) resize(ws *unix.Winsize) {
	if ws != nil && i.fd >= 0 {
		_ = unix.IoctlSetWinsize(i.fd, unix.TIOCSWINSZ, ws)
	}
}

// read reads what the command has written. ended says that no more will come.
func (i *inner) read(p []byte) (n int, ended bool) {
	n, err := unix.Read(i.fd, p)
	switch {
	case err == nil:
		return n, n == 0
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, false
	}
	return 0, true // EIO: nobody has the slave open, and all was read
}

// write types p to the command, as much as there is room for.
func (i *inner) write(p []byte) int {
	n, err := unix.Write(i.fd, p)
	if err != nil {
		return 0
	}
	return n
}

// interrupt does what the terminal does with a typed ^C, but at once: a key passes
// through a queue of the kernel's. It reports false where the command has ^C mean
// something else.
func (i *inner) interrupt() bool {
	fd := int(i.slave.Fd())
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil || modes.Lflag&unix.ISIG == 0 || modes.Cc[unix.VINTR] != interrupt {
		return false
	}
	if modes.Lflag&unix.NOFLSH == 0 {
		_ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) // what was typed before is forgotten
	}
	return unix.IoctlSetInt(i.fd, unix.TIOCSIG, int(unix.SIGINT)) == nil
}

// inputQueue is how much a terminal keeps for its reader (N_TTY_BUF_SIZE).
const inputQueue = 4096

// unread takes what was typed and nobody has read.
func (i *inner) unread() []byte {
	fd := int(i.slave.Fd())
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil
	}
	// Without lines all is readable, and without a least number a read returns.
	modes.Lflag &^= unix.ICANON | unix.ECHO
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 0, 0
	if unix.IoctlSetTermios(fd, unix.TCSETS, modes) != nil {
		return nil
	}
	p := make([]byte, inputQueue)
	n, err := unix.Read(fd, p)
	if err != nil {
		return nil
	}
	return p[:n]
}

// release gives up our own hold of the slave.
func (i *inner) release() { i.slave.Close() }

// hangUp closes the master: the kernel sends SIGHUP to the terminal's foreground
// and ends what is open on it.
func (i *inner) hangUp() {
	i.fd = -1
	i.master.Close()
}

func (i *inner) close() {
	i.hangUp()
	i.release()
}

package terminal

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// How much may wait on its way, in bytes: beyond it, the side that writes waits.
const (
	outputRoom = 32 << 10
	inputRoom  = 64 << 10
	readSize   = 8 << 10
)

// wait sleeps until a descriptor is ready or a time has come, and moves bytes.
func (l *loop) wait() error {
	fds := []unix.PollFd{{Fd: int32(l.wake), Events: unix.POLLIN}, {Fd: int32(l.outer.fd)}, {Fd: int32(l.inner.fd)}}
	outer, inner := &fds[1], &fds[2]
	if l.front && (l.mode == shown || len(l.in) < inputRoom) && l.finished == nil {
		outer.Events |= unix.POLLIN
	}
	if len(l.out) > 0 && !l.mute {
		outer.Events |= unix.POLLOUT
	}
	if l.mayRead() {
		inner.Events |= unix.POLLIN
	}
	if len(l.in) > 0 {
		inner.Events |= unix.POLLOUT
	}
	if l.hung || l.away {
		outer.Fd = -1
	}
	if l.ended || inner.Events == 0 {
		inner.Fd = -1
	}
	_, err := unix.Poll(fds, l.timeout(l.cfg.Now()))
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for the terminal: %w", err)
	}
	var count [8]byte
	_, _ = unix.Read(l.wake, count[:]) // EAGAIN when nobody woke us
	if inner.Revents&unix.POLLOUT != 0 {
		l.typeIn()
	}
	if inner.Revents&(unix.POLLIN|unix.POLLHUP|unix.POLLERR) != 0 && l.mayRead() {
		l.readInner()
	}
	if outer.Revents&unix.POLLOUT != 0 {
		l.flush()
	}
	if outer.Revents&(unix.POLLIN|unix.POLLHUP|unix.POLLERR) != 0 {
		l.readOuter(outer.Revents&unix.POLLHUP != 0)
	}
	return nil
}

// typeIn types to the command what its terminal takes.
func (l *loop) typeIn() {
	n := l.inner.write(l.in)
	l.sent = append(l.sent, l.in[:n]...)
	l.sent = l.sent[max(0, len(l.sent)-inputQueue):]
	l.in = l.in[n:]
}

// mayRead says whether output of the command has a place to go to.
func (l *loop) mayRead() bool {
	return !l.ended && l.mode != shown && len(l.held) == 0 && len(l.out) < outputRoom &&
		(l.mode == relaying || l.screen.state != ground && !l.broken)
}

func (l *loop) readInner() {
	n, ended := l.inner.read(l.buf)
	l.ended = l.ended || ended
	if n > 0 {
		l.quietFrom = l.cfg.Now()
		l.show(l.buf[:n])
	}
}

// show passes output on. While a question waits, what comes after the next place
// to stop is held.
func (l *loop) show(p []byte) {
	if l.drop {
		n := l.screen.feed(p, true)
		l.drop = l.screen.state != ground
		p = p[n:]
	}
	n := l.screen.feed(p, l.mode == pausing)
	l.out = append(l.out, p[:n]...)
	l.held = append(l.held, p[n:]...)
}

// flush writes what the outer terminal takes.
func (l *loop) flush() {
	if l.hung {
		l.out = nil
	}
	for len(l.out) > 0 {
		n, err := unix.Write(l.outer.fd, l.out)
		switch err {
		case nil:
			l.out = l.out[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return
		default: // EIO: it is gone, or refuses what comes from the background
			l.out = nil
		}
	}
}

// readOuter takes keys. closed says that the terminal hung up.
func (l *loop) readOuter(closed bool) {
	if !l.front && !closed {
		return
	}
	n := 0
	if l.front && l.outer.front() {
		var err error
		n, err = unix.Read(l.outer.fd, l.buf)
		closed = closed || err == nil && n == 0 || err == unix.EIO
	}
	// Keys may come before the signal of a window that changed before they were pressed.
	if ws := l.outer.size(); n > 0 && ws != nil && *ws != l.window {
		l.resize()
	}
	switch {
	case n > 0 && l.mode == shown:
		l.keys(l.buf[:n], l.cfg.Now())
	case n > 0:
		l.in = append(l.in, l.buf[:n]...)
	case closed:
		l.hangUp()
	}
}

// hangUp does to the command what was done to us, and answers all with no.
func (l *loop) hangUp() {
	l.hung, l.ended, l.front, l.mode = true, true, false, relaying
	l.in, l.out, l.held = nil, nil, nil
	l.outer.forget()
	l.inner.hangUp()
	l.deny()
}

func (l *loop) deny() {
	for _, q := range l.desk.Pending() {
		// Another front may have been quicker.
		_ = l.desk.Answer(q.ID, approval.Answer{By: "the terminal", Reason: "the terminal was closed"})
	}
}

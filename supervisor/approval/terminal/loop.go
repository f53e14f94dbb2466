package terminal

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

const (
	// unfinished is how long a question waits for the end of a sequence that the
	// command has begun.
	unfinished = 100 * time.Millisecond
	// backgroundCheck is how often we look whether the terminal is ours now.
	backgroundCheck = 250 * time.Millisecond
	// resizeHold is how long the window looks changed at least for the command to
	// see it, and resizeLongest how long at most.
	resizeHold    = 150 * time.Millisecond
	resizeLongest = time.Second
	reaction      = 30 * time.Millisecond
	// settled is how long the command's terminal is silent when what it wrote
	// before it stopped has come through, and lastWait the longest wait for that.
	settled  = 20 * time.Millisecond
	lastWait = 500 * time.Millisecond
	// orphaned is how long a terminal that should have ended may stay open.
	orphaned = 2 * time.Second
)

// loop moves the bytes. Only Run's goroutine touches it.
type loop struct {
	*Terminal
	desk   Desk
	able   ability
	screen screen
	in     []byte // for the command
	sent   []byte // the last that went to the command
	out    []byte // for the outer terminal
	held   []byte // read from the command, and shown after the question
	broken bool   // a sequence of the command's was ended, for a question
	drop   bool   // the rest of it follows, and is not shown
	buf    []byte

	mode       mode
	since      time.Time // mode is what it is
	asking     asking
	pending    []approval.Question
	window     unix.Winsize // as the command was told last
	redrawFrom time.Time
	told       bool      // a question was announced in the background
	redrawAt   time.Time // the window is to have its size again, since redrawFrom
	front      bool
	mute       bool // the background may not write
	hung       bool
	ended      bool // no more comes from the command
	away       bool // suspended
	suspended  *request
	finished   *request
	ahead      []byte    // typed to the command, which has not read it
	quietFrom  time.Time // the command wrote last, or has come to its end
	waitUntil  time.Time // suspended waits for output no longer

	deskChanged, windowChanged atomic.Bool // set by listen
}

type mode uint8

const (
	relaying mode = iota
	pausing       // a question waits for the output to come to a good place
	shown
)

func newLoop(t *Terminal, desk Desk) *loop {
	l := &loop{Terminal: t, desk: desk, able: abilityOf(t.cfg.Getenv), buf: make([]byte, readSize)}
	l.deskChanged.Store(true)
	return l
}

// listen wakes the loop for what is no descriptor.
func (t *Terminal) listen(ctx context.Context, changed <-chan struct{}, signals <-chan os.Signal, l *loop) {
	for {
		select {
		case <-ctx.Done():
			t.poke()
			return
		case <-changed:
			l.deskChanged.Store(true)
		case <-signals:
			l.windowChanged.Store(true)
		}
		t.poke()
	}
}

// poke wakes the loop.
func (t *Terminal) poke() { _, _ = unix.Write(t.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (l *loop) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.update(l.cfg.Now()); err != nil {
			return err
		}
		if l.finished != nil && l.ended && (len(l.out) == 0 || l.hung) {
			if l.front && l.outer.front() {
				l.outer.putBack(l.ahead)
			}
			l.outer.restore()
			close(l.finished.done)
			return nil
		}
		if err := l.wait(); err != nil {
			return err
		}
	}
	l.leave(l.cfg.Now())
	l.flush()
	return nil
}

// update brings everything up to the present.
func (l *loop) update(now time.Time) error {
	l.obey(now)
	if err := l.checkFront(); err != nil {
		return err
	}
	if l.windowChanged.Swap(false) {
		l.resize()
	}
	l.endRedraw(now)
	if l.deskChanged.Swap(false) {
		l.pending = l.desk.Pending()
	}
	l.advance(now)
	l.endWaits(now)
	return nil
}

// resize tells the command the size of the window.
func (l *loop) resize() {
	if ws := l.outer.size(); ws != nil {
		l.window = *ws
		l.inner.resize(ws)
	}
	l.asking.drawn = ""
}

// obey takes the requests of other goroutines.
func (l *loop) obey(now time.Time) {
	for {
		select {
		case r := <-l.requests:
			switch r.what {
			case suspend:
				l.leave(now)
				l.suspended, l.quietFrom, l.waitUntil = &r, now, now.Add(lastWait)
			case resume:
				l.away, l.front = false, false
				l.outer.forget()
				l.windowChanged.Store(true)
				close(r.done)
			case finish:
				l.leave(now)
				l.ahead = typedAhead(l.sent, l.inner.unread(), l.in)
				l.inner.release()
				l.finished, l.quietFrom, l.in = &r, now, nil
			}
		default:
			return
		}
	}
}

// checkFront takes the terminal when it is ours, and lets go of it when not.
func (l *loop) checkFront() error {
	was := l.front
	l.front = !l.away && !l.hung && l.outer.front()
	l.mute = !l.front && !l.away && !l.hung && l.outer.mute()
	switch {
	case l.front && !was:
		l.windowChanged.Store(true)
		l.inner.adopt(l.outer)
		if err := l.outer.raw(); err != nil && !errors.Is(err, unix.EIO) {
			return err
		}
	case was && !l.front && !l.away:
		l.outer.forget()
	}
	return nil
}

// endWaits lets go of those who wait for the last output.
func (l *loop) endWaits(now time.Time) {
	calm := len(l.out) == 0 && now.Sub(l.quietFrom) >= settled
	if r := l.suspended; r != nil && (calm || l.hung || now.After(l.waitUntil)) {
		l.outer.restore()
		l.suspended, l.away, l.front = nil, true, false
		close(r.done)
	}
	if l.finished != nil && !l.ended && now.Sub(l.quietFrom) >= orphaned {
		l.ended = true
	}
}

// timeout is how many milliseconds may pass until something is due; -1 without end.
func (l *loop) timeout(now time.Time) int {
	next := time.Time{}
	at := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if l.mode == pausing && l.screen.state != ground && !l.broken {
		at(l.since.Add(unfinished))
	}
	if l.mode == shown {
		at(l.asking.nextTick(now))
	}
	if !l.redrawAt.IsZero() && !l.away {
		at(l.redrawAt)
	}
	if l.suspended != nil {
		at(l.quietFrom.Add(settled))
		at(l.waitUntil)
	}
	if l.finished != nil {
		at(l.quietFrom.Add(orphaned))
	}
	if !l.front && !l.hung && !l.away {
		at(now.Add(backgroundCheck))
	}
	if next.IsZero() {
		return -1
	}
	return max(0, int((next.Sub(now)+time.Millisecond-1)/time.Millisecond))
}

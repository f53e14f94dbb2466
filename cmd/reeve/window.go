package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
)

// The size of the session's terminal is in its manifest, and every other size that it
// gets is a record: what a full-screen program did is read by what it could show.

const (
	// still is how long a window must keep its size to have it recorded: one that
	// is dragged has many.
	still = 100 * time.Millisecond
	// glance is how often the size is looked at where its signal does not come:
	// it goes to the foreground job of a shell in the session.
	glance = time.Second
)

// window is the size of the controlling terminal, nil without one.
func window() *session.Window {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return windowOf(fd)
}

func windowOf(fd int) *session.Window {
	size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	return &session.Window{Rows: size.Row, Columns: size.Col}
}

// watch hands each size that the terminal has for a while to record, which is not
// called at once with itself, until stop, which looks a last time. was is the first one.
func (c *console) watch(was *session.Window, record func(session.Window)) (stop func()) {
	if c.fd < 0 || was == nil {
		return func() {}
	}
	changed, done, over := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(changed, unix.SIGWINCH)
	last := *was
	look := func() {
		if now := windowOf(c.fd); now != nil && *now != last {
			last = *now
			record(last)
		}
	}
	go func() {
		defer close(over)
		defer signal.Stop(changed)
		timer := time.NewTimer(glance)
		defer timer.Stop()
		for {
			select {
			case <-changed:
				timer.Reset(still)
				continue
			case <-timer.C:
			case <-done:
				look()
				return
			}
			look()
			if c.own == nil {
				timer.Reset(glance)
			}
		}
	}()
	return func() {
		close(done)
		<-over
	}
}

// resized is the record of a size.
func (l *live) resized(w session.Window) event.Event {
	text, err := json.Marshal(w)
	if err != nil {
		panic("bug: encode a window's size: " + err.Error())
	}
	return l.marker(event.OpResize, string(text))
}

// windowText is a size as stty(1) and others state it, columns first.
func windowText(e *event.Event) string {
	var w session.Window
	if err := json.Unmarshal([]byte(e.Detail), &w); err != nil {
		return escape(e.Detail)
	}
	return fmt.Sprintf("%dx%d", w.Columns, w.Rows)
}

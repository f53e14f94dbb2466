package spawn

import (
	"sync"

	"golang.org/x/sys/unix"
)

// early keeps the signals that are for a command which is not there yet.
type early struct {
	mu   sync.Mutex // guards the rest
	pid  int        // 0 before there is a command
	list []unix.Signal
}

// maxEarly bounds them: more come from nobody who waits for what one does.
const maxEarly = 64

// deliver sends the command what came before it, and what comes later at once.
func (e *early) deliver(pid int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pid = pid
	for _, sig := range e.list {
		_ = unix.Kill(pid, sig) // gone is as good
	}
	e.list = nil
}

// send sends the command a signal, or keeps it.
func (e *early) send(sig unix.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.pid > 0:
		_ = unix.Kill(e.pid, sig) // gone is as good
	case len(e.list) < maxEarly:
		e.list = append(e.list, sig)
	}
}

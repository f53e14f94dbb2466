package bus

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
)

// serverLog takes the embedded server's log: what a person could act on goes
// to our logger, the rest is dropped, and the last complaint is kept to explain
// errors with.
type serverLog struct {
	log *slog.Logger
	// owner is told when the store cannot be written any more. The server then
	// answers nothing, not even with an error.
	owner atomic.Pointer[Bus]

	mu   sync.Mutex // guards said
	said string
}

func (l *serverLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said
}

func (l *serverLog) keep(format string, v []any) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = fmt.Sprintf(format, v...)
	return l.said
}

// Errorf takes an error of the server.
func (l *serverLog) Errorf(format string, v ...any) {
	said := l.keep(format, v)
	l.log.Error("embedded bus", "msg", said)
	b := l.owner.Load()
	if b != nil && (strings.Contains(said, "critical write error") || strings.Contains(said, "out of resources")) {
		b.fail(fmt.Errorf("the session's messages cannot be written: %s", said))
	}
}

// Fatalf takes an error that the server cannot go on after. It returns; Open
// sees that the server is not ready.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error("embedded bus", "msg", l.keep(format, v))
}

// Warnf takes a warning.
func (l *serverLog) Warnf(format string, v ...any) {
	l.log.Warn("embedded bus", "msg", fmt.Sprintf(format, v...))
}

// Noticef drops what is of interest to operators of servers.
func (l *serverLog) Noticef(string, ...any) {}

// Debugf drops debugging output.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef drops traces.
func (l *serverLog) Tracef(string, ...any) {}

// Package early is what this program does before it is set up: of a `reeve run` it
// catches the signals that would else be lost, and starts the session's init, which
// comes up while the libraries' tables are made.
// It may import nothing that is slow to set up, or it is not early.
package early

import (
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/spawn/headstart"
)

// SessionVariable tells a task the session that it is in, where there is no init to
// start.
const SessionVariable = "REEVE_SESSION"

const stateIs = "--state="

func init() {
	runtime.MemProfileRate = 0 // nobody asks for it, and a start pays for its tables
	if !isRun(os.Args) {
		return
	}
	caught.Store(catch())
	if os.Getenv(SessionVariable) == "" {
		headstart.Begin()
	}
}

// maxCaught bounds the signals that wait: more come from nobody who waits for what
// one does.
const maxCaught = 16

// caught has what came since the start, until somebody takes it.
var caught atomic.Pointer[chan os.Signal]

// catch catches the signals that end a program which does not know them, but which
// the Go runtime takes and drops (os/signal, "Default behavior of signals in Go
// programs"). What ends reeve by default may do so until there is a command.
func catch() *chan os.Signal {
	ch := make(chan os.Signal, maxCaught)
	for _, sig := range []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
	return &ch
}

// Signals gives the caller the channel in which SIGUSR1, SIGUSR2 and SIGALRM are:
// those that came since this program began as a `reeve run`, else since this call,
// and all that come. The caller stops it.
func Signals() chan os.Signal {
	if ch := caught.Swap(nil); ch != nil {
		return *ch
	}
	return *catch()
}

// isRun says of a command line whether it is that of a run. It may be mistaken:
// an init that is not needed is dropped, one that is missing is started later.
func isRun(args []string) bool {
	if len(args) == 0 || args[0] == headstart.InitName {
		return false
	}
	for args = args[1:]; len(args) > 0; args = args[1:] {
		switch word := args[0]; {
		case word == "run":
			return true
		case word == "--state" && len(args) > 1:
			args = args[1:]
		case len(word) < len(stateIs) || word[:len(stateIs)] != stateIs:
			return false
		}
	}
	return false
}

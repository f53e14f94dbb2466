// Package early is what this program does before it is set up: of a `reeve run` it
// starts the session's init, which comes up while the libraries' tables are made.
// It may import nothing that is slow to set up, or it is not early.
package early

import (
	"os"

	"github.com/reeve-audit/reeve/tracer/spawn/headstart"
)

// SessionVariable tells a task the session that it is in, where there is no init to
// start.
const SessionVariable = "REEVE_SESSION"

const stateIs = "--state="

func init() {
	if isRun(os.Args) && os.Getenv(SessionVariable) == "" {
		headstart.Begin()
	}
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

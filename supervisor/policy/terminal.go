package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

const (
	terminalRule   = "terminals"
	reasonTerminal = "another terminal"
)

// strangeTerminal reports whether an object is a terminal that is not the
// session's own. Reading one takes what a person types elsewhere, and writing one
// shows there what the person has not asked for.
func (p *Policy) strangeTerminal(obj *event.Object) bool {
	return !obj.Own && obj.Kind != event.ObjectMissing && !p.recordOnly && isTerminal(obj.Path)
}

// isTerminal reports whether a path is one certain terminal: /dev/tty is each
// task's own, and /dev/ptmx makes a new one.
func isTerminal(path string) bool {
	name, ok := strings.CutPrefix(path, "/dev/")
	if !ok {
		return false
	}
	if pts, ok := strings.CutPrefix(name, "pts/"); ok {
		return pts != "" && pts != "ptmx"
	}
	if n, ok := strings.CutPrefix(name, "tty"); ok {
		return n != "" && (n[0] == 'S' || n[0] >= '0' && n[0] <= '9')
	}
	return name == "console" || strings.HasPrefix(name, "vcs") || strings.HasPrefix(name, "hvc")
}

// aboveTerminals reports whether a directory that is granted in whole would give
// away terminals as well.
func aboveTerminals(dir string) bool {
	return isBelow("/dev/pts", dir) || isBelow(dir, "/dev/pts") || isTerminal(dir)
}

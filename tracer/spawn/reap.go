package spawn

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// reap waits for every descendant until none is left. The command's own stops
// and its end are told to the supervisor; the end ends the rest.
func (i *initProcess) reap() {
	command := int(i.pid.Load())
	if i.conn.send(message{Kind: kindStarted, PID: command}) != nil {
		i.end()
	}
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WUNTRACED|unix.WCONTINUED|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil { // ECHILD: the session is over
			return
		}
		if pid != command {
			continue
		}
		m := message{Status: uint32(ws), PID: pid}
		switch {
		case ws.Stopped():
			if i.ending.Load() {
				continue
			}
			i.stopped.Store(true)
			m.Kind, m.Signal = kindStopped, int(ws.StopSignal())
		case ws.Continued():
			i.stopped.Store(false)
			m.Kind = kindContinued
			go i.wakeSupervisor()
		default:
			m.Kind = kindExited
		}
		if i.conn.send(m) != nil || (m.Kind == kindExited && !i.order.Linger && !childless()) {
			go i.end()
		}
	}
}

// settle is how long whoever continues a job may take to continue all of it.
const settle = 50 * time.Millisecond

// wakeSupervisor continues the supervisor, which stopped with the command, when
// somebody continued the command alone. A shell continues both, and a signal too
// many could undo the next stop.
func (i *initProcess) wakeSupervisor() {
	time.Sleep(settle)
	if i.stopped.Load() {
		return
	}
	if parent := os.Getppid(); proc.Stopped(parent) {
		_ = unix.Kill(parent, unix.SIGCONT)
	}
}

// end ends the tree. That the command is stopped for it is nobody's news: the
// supervisor would stop, too.
func (i *initProcess) end() {
	i.ending.Store(true)
	endTree(os.Getpid(), childless)
}

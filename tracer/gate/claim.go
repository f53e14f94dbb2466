package gate

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// claim says of an object whether it is the session's own: an entry of /proc
// about one of its tasks, a socket file that it bound. Of addresses and terminals
// that is said where they are looked up.
func (w *worker) claim(o *event.Object) {
	if o.Kind == event.ObjectSocket {
		o.Own = w.g.sockets.made(o, w.made)
		return
	}
	if pid, ok := proc.PathPID(o.Path); ok {
		o.Own = pid == w.th.TGID || w.owns(pid)
	}
}

// terminals are those that the session may open by name: those that it was
// started on, and the slaves of pseudo-terminals that it made.
type terminals struct {
	start []uint64        // device numbers
	mu    sync.Mutex      // guards ptys
	ptys  map[uint64]bool // device numbers of slaves whose master was opened here
}

// ownTerminal says whether a device is a terminal of the session's.
func (w *worker) ownTerminal(rdev uint64) bool {
	t := &w.g.terminals
	if slices.Contains(t.start, rdev) || rdev == proc.TTYDevice(w.th.TTY()) {
		return true
	}
	t.mu.Lock()
	made := t.ptys[rdev]
	t.mu.Unlock()
	// The number is another's once the session has closed the master.
	return made && w.g.holdsMaster(unix.Minor(rdev))
}

// holdsMaster says whether a task of the session has the master of a
// pseudo-terminal open.
func (g *Gate) holdsMaster(index uint32) bool {
	pids, err := proc.Descendants(g.cfg.Init)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(pids, func(pid int) bool { return proc.HoldsMaster(pid, index) })
}

// ptmx are the devices that make a pseudo-terminal: /dev/ptmx and its kin.
var ptmx = unix.Mkdev(5, 2)

const ptsMajor = 136 // UNIX98_PTY_SLAVE_MAJOR

func (w *worker) openedPty(rdev uint64, fd int) {
	if rdev != ptmx {
		return
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return
	}
	t := &w.g.terminals
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ptys == nil {
		t.ptys = map[uint64]bool{}
	}
	t.ptys[unix.Mkdev(ptsMajor, uint32(n))] = true
}

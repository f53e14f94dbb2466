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
// that is said where they are looked up, of files by claimFile.
func (w *worker) claim(o *event.Object) {
	if o.Kind == event.ObjectSocket {
		o.Own = w.g.sockets.made(o, w.made)
		return
	}
	if pid, ok := proc.PathPID(o.Path); ok {
		o.Own = pid == w.th.TGID || w.owns(pid)
	}
}

// claimFile says of an object whether it is a file that the session made, or of what
// is not there whether one would be known again that it made.
func (w *worker) claimFile(o *event.Object) {
	if o.Kind == event.ObjectMissing {
		o.Own = w.ownHooks() != nil || tellsFiles(parentDir(o.Path))
		return
	}
	id := FileID{o.Dev, o.Ino}
	f, known := w.g.creations.known(id)
	known = known && w.made(f.by)
	hooks := w.ownHooks()
	local, seen := w.g.local.Load(o.Dev)
	switch {
	case o.Kind != event.ObjectFile, !known && hooks == nil:
		return
	case w.inline && (!seen || !local.(bool)): // its server may not answer
		return
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, o.Path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !known {
		var st unix.Stat_t
		o.Own = unix.Fstat(fd, &st) == nil && id == FileID{st.Dev, st.Ino} && hooks.Created(fd)
		return
	}
	now, s, changed, ok := stampOf(fd)
	switch {
	case ok && now != id: // another file
	case !ok, s != f.stamp, changed.After(f.changed.Add(ownLasts)):
		w.g.creations.forget(id)
	default:
		o.Own = true
	}
}

// ownHooks are the hooks of the very session that the task is of, nil without.
func (w *worker) ownHooks() Injector {
	if w.m != w.g.members.main() {
		if w.m.Holder == nil {
			return nil
		}
		return w.m.Holder
	}
	return w.g.cfg.Injector
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

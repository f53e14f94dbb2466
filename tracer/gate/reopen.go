package gate

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// reopen opens a pinned object for the task.
func (w *worker) reopen(p *proc.Pinned, flags int) answer {
	dir, name := proc.Self(p.FD)
	if p.Stat.Mode&unix.S_IFMT == unix.S_IFCHR && p.Stat.Rdev == unix.Mkdev(5, 0) {
		tty, errno := w.terminal()
		if errno != 0 {
			return answer{errno: errno}
		}
		dir, name = unix.AT_FDCWD, tty
	}
	if p.Kind() == event.ObjectFIFO && openAccess(flags)&event.AccessWrite != 0 {
		w.g.pending.settle(w.g.cfg.Listener)
	}
	waitsFor := p.Kind() == event.ObjectFIFO && flags&unix.O_NONBLOCK == 0
	if waitsFor && openAccess(flags) == event.AccessRead {
		return w.reopenWaiting(dir, name, flags) // for a writer
	}
	if (p.Regular() || p.Dir()) && !w.quick(p) {
		return w.reopenWaiting(dir, name, flags) // for the file system's server
	}
	fd, err := perform.ReopenNow(dir, name, flags)
	switch {
	case err == unix.EWOULDBLOCK && flags&unix.O_NONBLOCK == 0 && w.inline:
		return answer{again: true, wait: true} // a lease is being broken
	case err == unix.EWOULDBLOCK && flags&unix.O_NONBLOCK == 0:
		return w.reopenLeased(dir, name, flags)
	case err == unix.ENXIO && waitsFor:
		return w.reopenWaiting(dir, name, flags)
	}
	return opened(fd, err, flags)
}

// maxLeased is how many opens may wait for leases at once. The kernel compares every
// one with every other under a spin lock: a thousand keep all processors from others.
const maxLeased = 64

// reopenLeased opens a file of which somebody has a lease.
func (w *worker) reopenLeased(dir int, name string, flags int) answer {
	defer w.g.leased.Add(-1)
	if w.g.leased.Add(1) > maxLeased {
		return tooMany()
	}
	return w.reopenWaiting(dir, name, flags)
}

func tooMany() answer {
	return answer{errno: unix.EAGAIN, denied: &event.Decision{Action: event.ActionDeny, By: "gate", Reason: "too many opens wait already"}}
}

// reopenWaiting opens what may make the task wait for another one.
func (w *worker) reopenWaiting(dir int, name string, flags int) answer {
	defer w.g.patient.Add(-1)
	if w.g.patient.Add(1) > int64(w.g.cfg.MaxWaiters-w.g.cfg.MaxWaiters/16) {
		return tooMany()
	}
	var fd int
	err := w.block(func() (err error) {
		fd, err = perform.Reopen(dir, name, flags)
		return err
	})
	return opened(fd, err, flags)
}

// terminal is what /dev/tty means to the thread.
func (w *worker) terminal() (string, unix.Errno) {
	nr := w.th.TTY()
	if nr == 0 {
		return "", unix.ENXIO
	}
	if nr == w.g.tty {
		return "/dev/tty", 0
	}
	// tty_nr: bits 8-15 are the major number, the others the minor (proc(5)).
	major, minor := nr>>8&0xff, nr&0xff|nr>>12&0xfff00
	if major < 136 || major > 143 {
		return "", unix.ENXIO
	}
	return "/dev/pts/" + strconv.Itoa((major-136)<<8|minor), 0
}

func opened(fd int, err error, flags int) answer {
	var errno unix.Errno
	switch {
	case err == nil:
		return answer{fd: fd, hasFD: true, cloexec: flags&unix.O_CLOEXEC != 0}
	case err == unix.EMFILE, err == unix.ENFILE: // ours, not the task's
		d := event.Decision{Action: event.ActionDeny, By: "gate", Reason: "reeve has no descriptor left"}
		return answer{errno: unix.ENFILE, denied: &d}
	case errors.As(err, &errno):
		return answer{errno: errno}
	}
	return failedHere(err.Error())
}

// quick says whether opening the object, or changing a name in it, cannot wait for
// anything but a disk. The receiver does not find that out: the file system's server
// would be asked.
func (w *worker) quick(p *proc.Pinned) bool {
	if !p.Regular() && !p.Dir() {
		return false
	}
	if v, ok := w.g.local.Load(p.Stat.Dev); ok || w.inline {
		return ok && v.(bool)
	}
	local := false
	err := w.block(func() (err error) {
		local, err = perform.Local(p.FD)
		return err
	})
	if err == nil {
		w.g.local.Store(p.Stat.Dev, local)
	}
	return local
}

// entry is View.Entry of a directory in which names can be looked up and changed here.
func (w *worker) entry(dirfd int32, path string, how uint64) (proc.Name, error) {
	name, err := w.view.Entry(dirfd, path, how)
	if err == nil && w.inline && !w.quick(&name.Parent) {
		name.Close()
		return name, proc.ErrBlocks
	}
	return name, err
}

package gate

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// conclude records and answers.
func (w *worker) conclude(req *event.Request, d event.Decision, a answer) {
	if d.Action != event.ActionAllow && !a.cont && a.errno == 0 {
		a.errno = unix.EACCES
	}
	if w.quiet && d.Action == event.ActionAllow {
		w.send(a)
		return
	}
	if w.strict {
		if err := w.acked(req, d, a.errno); err != nil {
			a = answer{errno: unix.EACCES, fd: a.fd, hasFD: a.hasFD}
		}
	} else {
		w.m.Recorder.Record(w.event(req, d, a.errno))
	}
	w.deliver(req, d, a)
}

// deliver answers a call that is recorded. Where the task has no room for the
// descriptor that it was to get, a second record says that the call failed.
func (w *worker) deliver(req *event.Request, d event.Decision, a answer) {
	if errno := w.send(a); errno != 0 {
		w.m.Recorder.Record(w.event(req, d, errno))
	}
}

func (w *worker) acked(req *event.Request, d event.Decision, errno unix.Errno) error {
	err := w.m.Recorder.RecordAcked(context.Background(), w.event(req, d, errno))
	if err != nil && w.g.cfg.Strict { // else the session ends for it, which says so
		w.g.cfg.Log.Error("refused: its event was not acknowledged", "op", req.Op, "error", err)
	}
	return err
}

// send answers the call. ENOENT means that the task is gone, which is no error. failed
// is why a call fails that was to have a descriptor.
func (w *worker) send(a answer) (failed unix.Errno) {
	l, id := w.g.cfg.Listener, w.n.ID
	var err error
	switch {
	case a.hasFD && a.errno == 0:
		err = w.hand(a)
		if errno, ok := err.(unix.Errno); ok && errno != unix.ENOENT {
			failed = errno // EMFILE: the task's table is full
			err = l.Fail(id, errno)
		}
	case a.cont:
		err = l.Continue(id)
	case a.errno != 0:
		err = l.Fail(id, a.errno)
	default:
		err = l.Return(id, a.val)
	}
	if a.hasFD {
		unix.Close(a.fd)
	}
	if err != nil && err != unix.ENOENT {
		w.g.cfg.Log.Error("answer a notification", "error", err)
		_ = l.Fail(id, unix.EACCES)
	}
	return failed
}

// hand gives the task our descriptor as the result of its call.
func (w *worker) hand(a answer) error {
	l, id := w.g.cfg.Listener, w.n.ID
	for _, in := range w.injectors() {
		if err := in.Inject(int(w.n.PID)); err != nil {
			return err
		}
		defer func() {
			if err := in.Injected(int(w.n.PID)); err != nil {
				w.g.cfg.Log.Error("take back what a hook was told", "error", err)
			}
		}()
	}
	return l.ReturnFD(id, a.fd, a.cloexec)
}

// own tells the hooks of what was made for the task, or had its content replaced.
// What they are not told of they take for somebody else's, and allow less.
func (w *worker) own(fd int) {
	for _, in := range w.injectors() {
		if err := in.Own(fd); err != nil {
			w.g.cfg.Log.Debug("a hook was not told whose something is", "error", err)
		}
	}
}

// yes tells the hooks of a file that somebody was asked about and said yes to. What
// they are not told of they refuse to map as code.
func (w *worker) yes(d *event.Decision, fd int) {
	if d.Action != event.ActionAllow || !d.Answered() {
		return
	}
	for _, in := range w.injectors() {
		if err := in.Answered(fd); err != nil {
			w.g.cfg.Log.Debug("a hook was not told what was answered", "error", err)
		}
	}
}

// ownDir is own of a directory that was just made under the tree lock.
func (w *worker) ownDir(n *proc.Name) {
	if len(w.injectors()) == 0 {
		return
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(n.Parent.FD, strings.TrimRight(n.Last, "/"), flags, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	w.own(fd)
}

// injectors are the hooks that see the task.
func (w *worker) injectors() (list []Injector) {
	if in := w.g.cfg.Injector; in != nil {
		list = append(list, in)
	}
	if w.m != nil && w.m.Holder != nil {
		list = append(list, w.m.Holder)
	}
	return list
}

func denyErrno(d event.Decision) unix.Errno {
	if d.Errno > 0 {
		return unix.Errno(d.Errno)
	}
	return unix.EACCES
}

func (w *worker) event(req *event.Request, d event.Decision, errno unix.Errno) event.Event {
	if w.th != nil && (req.Task.ID == "" || d.Action != event.ActionAllow || req.Op == event.OpExec) {
		argv, cut := req.Task.Argv, req.Task.ArgvLen
		req.Task = w.th.Task(d.Action != event.ActionAllow)
		if req.Op == event.OpExec { // the vector that was asked for, not the caller's
			req.Task.Argv, req.Task.ArgvLen = argv, cut
		}
		if req.Op == event.OpExec || (req.Object.Raw != "" && req.Object.Raw[0] != '/') {
			req.Task.Cwd = w.th.Cwd()
		}
	}
	e := w.g.event(req, d, w.start, errno)
	e.Detail = event.Detail{Question: d.Question, Content: w.content}.String()
	return e
}

func (g *Gate) event(req *event.Request, d event.Decision, start time.Time, errno unix.Errno) event.Event {
	arch := req.Arch
	if arch == "" {
		arch = archName(g.arch)
	}
	e := event.Event{
		Time: start.UTC(), BootNS: proc.BootNS(), Engine: g.cfg.Engine, Kind: event.KindRequest,
		Action: d.Action, Rule: d.Rule, Reason: d.Reason, By: d.By, Layer: "gate",
		Errno: int32(errno), HoldNS: uint64(time.Since(start)),
	}
	e.SetRequest(req)
	e.Arch = arch
	return e
}

package gate

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// ended says whether a process is gone, or is about to be.
func ended(pid int) bool {
	_, dead := proc.ParentState(pid)
	return dead
}

// verify compares what a process runs with what was judged, at its calls after an
// exec, whichever thread makes them. It is the fallback where no witness watches.
func (w *worker) verify() (ok bool) {
	e := &w.g.execs
	e.mu.Lock()
	x, waiting := e.m[w.th.ID]
	e.mu.Unlock()
	if !waiting {
		return true
	}
	ran, err := w.running()
	if err != nil {
		return w.unverified(err)
	}
	if ran == x.before {
		return true // it has not happened yet, or failed: asked again at the next call
	}
	if !slices.ContainsFunc(x.files, func(p Program) bool { return p.FileID == ran }) {
		return w.mismatch(x, ran)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.m, w.th.ID)
	return true
}

// unverified refuses a call of a task whose program cannot be looked at.
func (w *worker) unverified(err error) bool {
	req := w.request()
	w.refuse(&req, "what the task runs cannot be compared with what was judged: "+err.Error())
	return false
}

func (w *worker) mismatch(x execWait, ran FileID) bool {
	req := event.Request{Op: event.OpExec, Access: event.AccessExec, Syscall: "execve", Task: w.th.Task(true)}
	req.Object = event.Object{Kind: event.ObjectFile, Path: req.Task.Exe, Raw: x.files[0].Path, Dev: ran.Dev, Ino: ran.Ino}
	d := event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.EACCES),
		Reason: "another program ran than was judged; killed"}
	w.m.Recorder.Record(w.g.event(&req, d, time.Now(), unix.EACCES))
	if w.g.cfg.Kill != nil {
		w.g.cfg.Kill(w.th.TGID)
	}
	return false
}

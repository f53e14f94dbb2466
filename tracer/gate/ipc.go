package gate

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// Where reeve is not root the session shares the machine's IPC namespace. There it may
// have shared memory segments of its own, and nothing else. They are made by reeve for
// the task, so that it is known of each whose it is (see segments): a session has its
// own, and those of the sessions that were begun inside it.

func (w *worker) ipc(req event.Request) (outcome, error) {
	req.Object = event.Object{Kind: event.ObjectKernel, Path: w.call.name}
	key, size, flags := int(int32(w.n.Args[0])), w.n.Args[1], int(int32(w.n.Args[2]))
	var act func() answer
	switch w.call.name {
	case "shmget":
		const private, fresh = 0, unix.IPC_CREAT | unix.IPC_EXCL
		if req.Object.Own = key == private || flags&fresh == fresh; req.Object.Own {
			act = func() answer { return w.g.segments.make(w, key, size, flags) }
		}
	case "shmat", "shmctl":
		req.Object.Own = w.g.segments.own(w, key)
	}
	return outcome{req: req, d: w.decide(&req), act: act}, nil
}

// sched judges changes of a task's limits and scheduling by whose task it is.
func (w *worker) sched(req event.Request) (outcome, error) {
	who := int(int32(w.n.Args[0]))
	req.Object = event.Object{Kind: event.ObjectTask}
	switch w.call.name {
	case "setrlimit", "prlimit64":
		if w.marks() {
			return outcome{req: req, d: event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.EPERM), Reason: reasonMark}}, nil
		}
		if w.call.name == "setrlimit" || who == 0 {
			w.quiet = true
			return outcome{req: req, d: event.Decision{Action: event.ActionAllow}}, nil
		}
		req.Object.Own = w.ownThread(who)
	case "setpriority", "ioprio_set":
		which, target := who, int(int32(w.n.Args[1]))
		if w.call.name == "ioprio_set" {
			which-- // its numbers begin at one
		}
		who = target
		switch which {
		case unix.PRIO_PROCESS:
			req.Object.Own = w.ownThread(target)
		case unix.PRIO_PGRP:
			if target == 0 {
				target, _ = unix.Getpgid(w.th.TGID)
			}
			req.Object.Own = proc.GroupWithin(target, w.owns)
		}
	default:
		req.Object.Own = w.ownThread(who)
	}
	req.Object.Path = strconv.Itoa(who)
	return outcome{req: req, d: w.decide(&req)}, nil
}

const reasonMark = "the limit of file locks says which session a task belongs to"

// marks says whether a call would change the mark of a task. All of it is in
// registers.
func (w *worker) marks() bool {
	if w.call.name == "setrlimit" {
		return int32(w.n.Args[0]) == proc.RlimitLocks
	}
	return int32(w.n.Args[1]) == proc.RlimitLocks && w.n.Args[2] != 0
}

func (w *worker) ownThread(tid int) bool {
	if tid == 0 {
		return true
	}
	pid := proc.Leader(tid)
	return pid == w.th.TGID || w.owns(pid)
}

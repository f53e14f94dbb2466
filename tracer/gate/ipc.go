package gate

import (
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// Where reeve is not root the session shares the machine's IPC namespace. There
// it may have private shared memory segments, which are known by the process that
// made them, and nothing else.

// makers are the processes that made shared memory in this session.
type makers struct {
	mu   sync.Mutex    // guards pids
	pids map[int]int64 // since when, in seconds of wall time
}

func (m *makers) add(pid int, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pids == nil {
		m.pids = map[int]int64{}
	}
	if _, known := m.pids[pid]; !known {
		m.pids[pid] = now.Unix()
	}
}

// made says whether a segment was made by such a process since it is one: a
// number may have been somebody else's before.
func (m *makers) made(s proc.Segment) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, ok := m.pids[s.Maker]
	return ok && s.Changed >= since
}

func (w *worker) ipc(req event.Request) (outcome, error) {
	req.Object = event.Object{Kind: event.ObjectKernel, Path: w.call.name}
	first := int(int32(w.n.Args[0]))
	switch w.call.name {
	case "shmget":
		const ipcPrivate = 0
		req.Object.Own = first == ipcPrivate
	case "shmat", "shmctl":
		segment, ok := proc.Shm(first)
		req.Object.Own = ok && w.g.makers.made(segment)
	}
	out := outcome{req: req, d: w.decide(&req)}
	if out.d.Action == event.ActionAllow && w.call.name == "shmget" {
		w.g.makers.add(w.th.TGID, w.start)
	}
	return out, nil
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

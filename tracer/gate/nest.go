package gate

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// A reeve that is started inside a session asks for a session of its own by a
// prctl(2) whose option no kernel knows: the call comes to this gate, and to
// nobody else, so that no other program of the session can answer it. Its
// arguments are the option, a command, and the address and length of a message;
// it returns the descriptor of a file with the reply. Without a reeve the kernel
// fails it with EINVAL.

// NestOption is the option of that prctl.
const NestOption = 0x72656576

// Commands of NestOption.
const (
	// NestBegin makes the calling process, and all that it starts, a session.
	NestBegin = 1
	// NestEnd says that the session is over that the calling process began. To any
	// other it is refused with EPERM, so that no task of a session ends its record.
	NestEnd = 2
)

// MaxNestMessage bounds a message, bytes.
const MaxNestMessage = 4 << 20

// Nester makes sessions inside the session. Its methods may block; an error is
// told to the task.
type Nester interface {
	// Begin makes a session of a message, inside that with the index outer (0 is
	// the session itself), for task. joined is called when the task is in, with
	// the session's index, or with an error when it could not be.
	Begin(ctx context.Context, outer int, task event.Task, message []byte) (inner Member, reply []byte, joined func(int, error), err error)
	// End ends the session with an index.
	End(ctx context.Context, index int, message []byte) (reply []byte, err error)
	// Refused is the reply that tells an error.
	Refused(error) []byte
}

// prctl is a request of a reeve inside, a task that hides its memory, or a call of
// class Kernel.
func (w *worker) prctl(req event.Request) (outcome, error) {
	switch uint32(w.n.Args[0]) {
	case unix.PR_SET_DUMPABLE:
		return w.dumpable(req), nil
	case NestOption:
	default:
		return w.kernel(req)
	}
	out := outcome{req: req}
	out.req.Op, out.req.Object = event.OpNest, event.Object{Kind: event.ObjectTask, Path: w.th.ID}
	if w.g.cfg.Nester == nil {
		return out, unix.EINVAL
	}
	if w.inline {
		return out, proc.ErrBlocks
	}
	if uint32(w.n.Args[1]) == NestEnd && (w.m.parent == nil || w.m.client != w.th.ID) {
		out.d = event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.EPERM), Reason: reasonNotClient}
		return out, nil
	}
	if w.n.Args[3] > MaxNestMessage {
		return out, unix.E2BIG
	}
	message := make([]byte, w.n.Args[3])
	if err := w.th.Read(w.n.Args[2], message); err != nil {
		return out, err
	}
	out.d = event.Decision{Action: event.ActionAllow, By: "gate"}
	out.act = func() answer {
		reply, err := w.nest(uint32(w.n.Args[1]), message)
		if err != nil {
			reply = w.g.cfg.Nester.Refused(err)
		}
		fd, err := perform.Sealed("reeve reply", reply)
		a := opened(fd, err, 0)
		a.cloexec = true
		return a
	}
	return out, nil
}

const reasonNotClient = "only the process that began a session says that it is over"

func (w *worker) nest(command uint32, message []byte) ([]byte, error) {
	ctx := w.g.asking.ctx
	switch command {
	case NestBegin:
		return w.begin(ctx, message)
	case NestEnd:
		return w.g.cfg.Nester.End(ctx, w.m.index, message)
	}
	return nil, fmt.Errorf("command %d: this reeve is of another version than the one outside", command)
}

// begin makes the session, and marks the task as its first. The task is held at
// its call, so it starts nothing meanwhile; of its other threads only that can
// still be said which they asked before.
func (w *worker) begin(ctx context.Context, message []byte) ([]byte, error) {
	own, reply, joined, err := w.g.cfg.Nester.Begin(ctx, w.m.index, w.th.Task(true), message)
	if err != nil {
		return nil, err
	}
	m, err := w.g.members.add(w.m, own, w.th.ID)
	if err == nil && !w.g.cfg.Listener.Valid(w.n.ID) {
		err = errKilled
	}
	if err == nil && m.Holder != nil {
		err = m.Holder.Adopt(w.th.TGID, m.index)
	}
	if err == nil {
		err = w.th.SetMark(w.g.members.base - uint64(m.index))
	}
	if err != nil {
		joined(0, err)
		return nil, err
	}
	joined(m.index, nil)
	if w.g.cfg.Joined != nil {
		w.g.cfg.Joined(w.th.TGID, m.index)
	}
	return reply, nil
}

package gate

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// worker serves one notification at a time on its own locked thread.
type worker struct {
	g     *Gate
	actor *proc.Actor
	// inline is the receiver itself, which must not wait.
	inline bool
	buf    [proc.PathMax]byte

	n     *seccomp.Notification
	call  *call
	th    *proc.Thread
	m     *member // the session that the task is in
	view  proc.View
	start time.Time
	tries int
	// strict calls wait for their event.
	strict bool
	// quiet calls name no object and are not recorded.
	quiet bool
	// grants are the answers that this call has got, asked is what it has to ask
	// about first.
	grants []grant
	asked  *Question
	// taken is the act that an exec is a step of, left the steps after it.
	taken *act
	// attribute is the name of the extended attribute that the call changes.
	attribute string
	// content is what a program without a name holds that is to be run.
	content *event.Content
	// changed says that an answer was to something else than the call is by now.
	changed bool
	left    []event.Request
	// holdsTree says that the tree lock is ours, which a panic must not keep.
	holdsTree bool
}

func (g *Gate) newWorker(inline bool) (*worker, error) {
	a, err := proc.NewActor()
	if err != nil {
		return nil, err
	}
	return &worker{g: g, actor: a, inline: inline}, nil
}

// serve handles n and says whether it must be handled again by a waiter.
func (w *worker) serve(n *seccomp.Notification) (again bool) {
	return w.resume(n, time.Now(), nil)
}

// resume is serve with the answers to what was asked since start.
func (w *worker) resume(n *seccomp.Notification, start time.Time, grants []grant) (again bool) {
	w.n, w.start, w.grants, w.tries, w.quiet, w.strict, w.th = n, start, grants, 0, false, w.g.cfg.Strict, nil
	w.m = w.g.members.main()
	defer func() {
		if p := recover(); p != nil {
			w.g.cfg.Log.Error("bug: a call could not be judged", "panic", p, "stack", string(debug.Stack()))
			w.th = nil // released by now
			if w.holdsTree {
				w.unlockTree()
			}
			w.refuse(&event.Request{Op: event.OpUnknown, Syscall: w.g.callName(n)}, "internal error")
			again = false
		}
	}()
	th, err := w.g.table.Get(int(n.PID))
	if err != nil {
		if w.g.cfg.Listener.Valid(n.ID) {
			w.refuse(&event.Request{Op: event.OpUnknown, Syscall: w.g.callName(n)}, err.Error())
		}
		return false
	}
	defer th.Release()
	w.th, w.call = th, nil
	m, err := w.g.members.of(th)
	if err != nil {
		w.refuse(&event.Request{Op: event.OpUnknown, Syscall: w.g.callName(n)}, err.Error())
		return false
	}
	w.m = m
	if n.Arch == w.g.arch {
		w.call = callByNumber(int(n.Nr))
	}
	if w.call == nil {
		w.unknown()
		return false
	}
	if w.g.drafts.any() {
		if w.inline {
			return true // files are written
		}
		w.g.settle(w.actor)
	}
	w.strict = w.g.cfg.Strict || m.Recorder.Failing()
	if w.inline && (w.strict || w.call.waits) {
		return true
	}
	if w.g.cfg.Verifier == nil && !w.verify() {
		return false // killed: nothing is answered
	}
	if !w.verifyWords() {
		return false
	}
	w.view = proc.View{Thread: th, MayBlock: !w.inline, Owns: w.owns, SameRoot: w.g.sameRoot, Foreign: w.g.records && w.m == w.g.members.main()}
	if !w.inline {
		w.view.Wait = w.block
	}
	return w.handle()
}

func (w *worker) handle() (again bool) {
	req := w.request()
	w.asked, w.taken, w.left, w.attribute, w.content, w.changed = nil, nil, nil, "", nil, false
	creds, err := w.th.Creds()
	if err == nil {
		err = w.actor.Become(creds)
	}
	var out outcome
	if err == nil {
		out, err = w.call.run(w, req)
	}
	switch {
	case err == nil:
		if again, wait := w.finish(out); wait {
			return true
		} else if again {
			return w.again()
		}
	case errors.Is(err, proc.ErrBlocks) && w.inline:
		return true
	default:
		if out.req.Op == event.OpNone {
			out.req = req
		}
		w.failed(out.req, err)
	}
	return false
}

// request starts a request of this call.
func (w *worker) request() event.Request {
	return event.Request{Op: w.call.op, Access: w.call.access, Syscall: w.call.name}
}

// failed answers a call that has no object to decide about: as the kernel would
// for an error of its own, and with a refusal for an error of ours.
func (w *worker) failed(req event.Request, err error) {
	if !w.g.cfg.Listener.Valid(w.n.ID) {
		return
	}
	var errno unix.Errno
	var e elsewhere
	switch h := w.m.Handling[w.call.class]; {
	case h == Continue && errors.Is(err, proc.ErrForeignRoot):
		// Where everything else is continued, the policy may allow what we
		// cannot name.
		d := w.decide(&req)
		if d.Action == event.ActionAsk {
			w.ask()
			return
		}
		w.conclude(&req, d, answer{cont: d.Action == event.ActionAllow})
	case errors.As(err, &e):
		w.refuse(w.named(&req, e), err.Error())
	case errors.As(err, &errno) && !ours(errno):
		d := event.Decision{Action: event.ActionAllow, By: "kernel"}
		a := answer{errno: errno}
		if h == Continue && w.call.class != Exec {
			// The kernel says it itself. Not of an exec: by then the arguments may
			// name another program, which nobody judged.
			a.cont = true
		}
		w.conclude(&req, d, a)
	default:
		w.refuse(&req, err.Error())
	}
}

// ours says whether errno is about reeve's reach rather than the call itself.
func ours(errno unix.Errno) bool {
	switch errno {
	case unix.EPERM, unix.ENFILE, unix.EMFILE, unix.ENOMEM, unix.ESRCH:
		return true
	}
	return false
}

// decide asks the policy, and whoever may allow what it asks about.
func (w *worker) decide(req *event.Request) event.Decision { return w.settle(req, w.judge(req)) }

// judge asks the policy, twice if it wants to know whose repository, or file, it is.
func (w *worker) judge(req *event.Request) event.Decision {
	if req.Task.ID == "" {
		req.Task = w.th.Task(false)
	}
	w.claim(&req.Object)
	w.claim(&req.Target)
	d := w.m.Decider.Decide(req)
	if d.AskBorn {
		req.Born = w.g.born(req)
		w.claimFile(&req.Object)
		w.claimFile(&req.Target)
		if req.Born || req.Object.Own || req.Target.Own {
			d = w.m.Decider.Decide(req)
		}
	}
	return d
}

// settle makes a decision of what the policy says.
func (w *worker) settle(req *event.Request, d event.Decision) event.Decision {
	switch d.Action {
	case event.ActionNone:
		d.Action, d.Reason = event.ActionDeny, "bug: no decision"
	case event.ActionAsk:
		d = w.granted(req, d)
	}
	if d.Action == event.ActionAllow && d.Secret {
		w.changesOwn(req)
	}
	return d
}

// maxTries bounds how often a call is judged anew because its object changed.
const maxTries = 100

func (w *worker) again() bool {
	if w.tries++; w.tries < maxTries {
		return w.handle()
	}
	w.refuse(&event.Request{Op: w.call.op, Syscall: w.call.name}, "its object changed at every try")
	return false
}

// refuse denies for a reason of our own.
func (w *worker) refuse(req *event.Request, reason string) {
	d := event.Decision{Action: event.ActionDeny, By: "gate", Reason: reason}
	w.conclude(req, d, answer{errno: unix.EACCES})
}

// unknown refuses calls of foreign architectures and calls we do not know.
func (w *worker) unknown() {
	req := event.Request{Op: event.OpUnknown, Syscall: w.g.callName(w.n), Arch: archName(w.n.Arch)}
	req.Object = event.Object{Kind: event.ObjectKernel, Path: req.Syscall}
	d := event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.ENOSYS)}
	switch {
	case w.n.Arch != w.g.arch:
		d.Reason = "calls of another architecture are not supervised, so refused"
	case w.n.Nr&x32Bit != 0 && w.n.Nr > 0:
		req.Arch, d.Reason = "x32", "calls of the x32 ABI are not supervised, so refused"
	default:
		d.Reason = "reeve does not know this system call"
	}
	w.conclude(&req, d, answer{errno: unix.ENOSYS})
}

const x32Bit = 0x40000000

func archName(arch uint32) string {
	switch arch {
	case unix.AUDIT_ARCH_I386:
		return "i386"
	case unix.AUDIT_ARCH_X86_64:
		return "x86_64"
	case unix.AUDIT_ARCH_AARCH64:
		return "aarch64"
	case unix.AUDIT_ARCH_ARM:
		return "arm"
	}
	return fmt.Sprintf("%#x", arch)
}

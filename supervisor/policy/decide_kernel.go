package policy

import (
	"slices"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// kernelErrno is what programs expect of a call that is not there; the rest of
// the kernel's surfaces answer EPERM.
var kernelErrno = map[event.Op]syscall.Errno{
	event.OpIOUring: syscall.ENOSYS, event.OpUnknown: syscall.ENOSYS, event.OpUserfaultfd: syscall.ENOSYS,
}

const reasonStranger = "the task does not belong to the session"

// decideKernel judges what has no path and no address: signals, credentials and
// the kernel's surfaces.
func (p *Policy) decideKernel(req *event.Request) event.Decision {
	switch req.Op {
	case event.OpMemfd:
		return p.allow("memfd")
	case event.OpCreds, event.OpSeccomp:
		return p.allow(req.Op.String())
	case event.OpSignal:
		if req.Object.Own || p.anySignal {
			return p.allow("signal")
		}
		return p.deny(syscall.EPERM, "signals", reasonStranger)
	case event.OpSched:
		if req.Object.Own || p.anySignal {
			return p.allow("sched")
		}
		return p.deny(syscall.EPERM, "signals", reasonStranger)
	case event.OpIPC:
		if req.Object.Own || p.recordOnly {
			return p.allow("ipc")
		}
		return p.deny(syscall.EACCES, "ipc", "shared memory and queues of other programs")
	case event.OpPidfd:
		if req.Object.Own || p.opens("pidfd") {
			return p.allow("pidfd")
		}
		return p.deny(syscall.EPERM, "kernel.allow", reasonStranger)
	case event.OpPtrace:
		if p.opens("ptrace") && (req.Object.Own || p.anySignal) {
			return p.allow("kernel.allow")
		}
		return p.deny(syscall.EPERM, "kernel.allow", "one task may not look into another")
	}
	if name := req.Op.String(); slices.Contains(surfaceNames, name) && p.opens(name) {
		return p.allow("kernel.allow")
	}
	errno := kernelErrno[req.Op]
	if errno == 0 {
		errno = syscall.EPERM
	}
	return p.deny(errno, "kernel.allow", "a part of the kernel that ordinary programs have no business with")
}

// opens reports whether a surface of the kernel is allowed.
func (p *Policy) opens(surface string) bool {
	return slices.Contains(p.kernel, surface) || slices.Contains(p.kernel, "*")
}

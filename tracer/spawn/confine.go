package spawn

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/landlock"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// confine puts all that holds the tree onto the calling thread. The order
// matters: capabilities while they can still be dropped, ids before the filter
// (which watches set*id), Landlock and the filter last, as both need
// no_new_privs and neither can be undone.
func (i *initProcess) confine(ruleset int) (step string, listener int, err error) {
	o := i.order
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "set no_new_privs", -1, err
	}
	if o.PrivateIPC {
		if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
			return "make an IPC namespace", -1, err
		}
	}
	if o.KeepCaps != nil {
		if err := proc.LimitThreadCaps(*o.KeepCaps); err != nil {
			return "limit capabilities", -1, err
		}
	}
	if o.IDs != nil {
		if err := proc.SetThreadIDs(o.IDs.UID, o.IDs.GID, o.IDs.Groups); err != nil {
			return "change user", -1, err
		}
	}
	if o.Landlock {
		if ruleset < 0 {
			return "restrict by Landlock", -1, errors.New("bug: no ruleset came with the order")
		}
		err := landlock.Restrict(ruleset)
		unix.Close(ruleset)
		if err != nil {
			return "restrict by Landlock", -1, err
		}
	}
	fd, err := seccomp.Install(o.Filter)
	if err != nil {
		return "install the seccomp filter", -1, err
	}
	return "", fd, nil
}

// fork starts the command from thread T. The child execs at once, and the
// supervisor is asked about that like about any other exec.
func (i *initProcess) fork() forked {
	attr := syscall.ProcAttr{Dir: i.order.Dir, Env: i.order.Env, Files: []uintptr{0, 1, 2}}
	if t := i.order.Terminal; t != nil {
		for _, fd := range t.Streams {
			attr.Files[fd] = uintptr(i.slave)
		}
		// Foreground, which makes a process group of its own as well.
		attr.Sys = &syscall.SysProcAttr{Foreground: true, Ctty: i.slave}
	}
	pid, err := syscall.ForkExec(i.order.Path, i.order.Argv, &attr)
	return forked{pid, err}
}

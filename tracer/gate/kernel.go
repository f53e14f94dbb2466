package gate

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// kernel judges what a supervised tree has no business with. What the policy
// allows continues; everything else is refused, whatever its arguments are.
func (w *worker) kernel(req event.Request) (outcome, error) {
	req.Object = event.Object{Kind: event.ObjectKernel, Path: w.call.name}
	switch w.call.name {
	case "ioctl":
		switch uint32(w.n.Args[1]) {
		case fsIocSetflags, fsIocFssetxatt, fsIocSetversion, ext4IocSetversion:
			return w.inodeFlags(req)
		}
	case "personality":
		if uint32(w.n.Args[0]) == 0xffffffff { // only asks
			w.quiet = true
			return outcome{req: req, d: event.Decision{Action: event.ActionAllow}}, nil
		}
	case "clone", "unshare":
		req.Flags = w.n.Args[0]
	}
	if req.Op == event.OpPtrace {
		req.Object.Own = w.ownTarget()
	}
	out := outcome{req: req, d: w.decide(&req)}
	if w.m.Handling[Kernel] == Refuse && !w.g.allowed[w.call.op] && out.d.Action == event.ActionAllow {
		out.d = event.Decision{Action: event.ActionDeny, By: "floor", Reason: "not among the kernel surfaces of this profile",
			Errno: int32(unix.EPERM)}
	}
	return out, nil
}

// ownTarget says whether the tasks that ptrace and its kin look into are the
// session's; of one that lets itself be traced, whether its tracer is.
func (w *worker) ownTarget() bool {
	arg := func(i int) int { return int(int32(w.n.Args[i])) }
	switch w.call.name {
	case "ptrace":
		if w.n.Args[0] != unix.PTRACE_TRACEME {
			return w.ownThread(arg(1))
		}
		parent, _ := proc.ParentState(w.th.TGID)
		return parent > 0 && w.owns(parent)
	case "process_vm_readv", "process_vm_writev":
		return w.ownThread(arg(0))
	case "kcmp":
		return w.ownThread(arg(0)) && w.ownThread(arg(1))
	}
	pid, err := w.pidfdTarget(int32(w.n.Args[0]))
	return err == nil && pid > 0 && w.ownThread(pid)
}

// inodeFlags is chattr on an open file: FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR and
// FS_IOC_SETVERSION.
func (w *worker) inodeFlags(req event.Request) (outcome, error) {
	req.Op, req.Access = event.OpSetxattr, event.AccessMeta
	p, err := w.descriptor(int32(w.n.Args[0]))
	if err != nil {
		return outcome{req: req}, err
	}
	cmd := uint32(w.n.Args[1])
	arg := make([]byte, cmd>>16&0x3fff)
	if err := w.th.Read(w.n.Args[2], arg); err != nil {
		p.Close()
		return outcome{req: req}, err
	}
	req.Target.Raw = attributeText("inode flags", arg)
	fd, err := w.th.GetFD(int32(w.n.Args[0]))
	if err != nil {
		p.Close()
		return outcome{req: req}, err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != p.Stat.Dev || st.Ino != p.Stat.Ino {
		p.Close()
		return outcome{req: req}, errors.New("the descriptor was replaced while it was judged")
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		p.Close()
		return outcome{req: req}, err
	}
	out, err := w.onObject(req, p, nil, func(*proc.Pinned) error {
		defer unix.Close(own)
		return perform.Ioctl(own, cmd, arg)
	})
	if out.act == nil {
		unix.Close(own)
	}
	return out, err
}

// memfd makes an anonymous file for the task, one that can never be executed:
// what runs has a name that was judged.
func (w *worker) memfd(req event.Request) (outcome, error) {
	name, err := w.th.String(w.n.Args[0], w.buf[:], 250)
	if errors.Is(err, proc.ErrTooLong) {
		err = unix.EINVAL
	}
	flags := uint32(w.n.Args[1])
	req.Flags = uint64(flags)
	req.Object = event.Object{Kind: event.ObjectMem, Path: "memfd:" + name}
	out := outcome{req: req}
	if err != nil {
		return out, err
	}
	out.d = w.decide(&out.req)
	if out.d.Action != event.ActionAllow || w.continues(Memfd) {
		return out, nil
	}
	out.act = func() answer {
		fd, err := perform.Memfd(name, flags)
		a := opened(fd, err, 0)
		a.cloexec = flags&unix.MFD_CLOEXEC != 0
		return a
	}
	return out, nil
}

// signal keeps signals inside the session. Where Landlock does that too, it is
// for the record, and groups are left to it: it delivers to those that are ours.
// Elsewhere a group is refused when any member is a stranger.
func (w *worker) signal(req event.Request) (outcome, error) {
	pid := int(int32(w.n.Args[0]))
	req.Object = event.Object{Kind: event.ObjectTask}
	switch {
	case w.g.cfg.Scoped && pid <= 0 && w.call.name != "pidfd_send_signal":
		req.Object.Own = true
	case w.call.name == "pidfd_send_signal":
		p, err := w.pidfdTarget(int32(w.n.Args[0]))
		if err != nil {
			return outcome{req: req}, err
		}
		if pid = p; pid == proc.Ended {
			return nobody(req), nil
		}
		req.Object.Own = w.ownThread(pid)
	case pid > 0:
		if !proc.Exists(pid) {
			return nobody(req), nil
		}
		req.Object.Own = w.ownThread(pid)
	case pid == 0, pid < -1:
		group := -pid
		if pid == 0 {
			group, _ = unix.Getpgid(w.th.TGID)
		}
		req.Object.Own = proc.GroupWithin(group, w.owns)
	}
	req.Object.Path = strconv.Itoa(pid)
	return outcome{req: req, d: w.decide(&req)}, nil
}

// nobody is what comes of a signal to a process that is not there. It is answered,
// not continued: the number may be a stranger's by then.
func nobody(req event.Request) outcome {
	d := event.Decision{Action: event.ActionAllow, By: "kernel"}
	return outcome{req: req, d: d, act: func() answer { return answer{errno: unix.ESRCH} }}
}

func (w *worker) pidfdTarget(fd int32) (int, error) {
	info, err := w.th.ReadFile("fdinfo/"+strconv.Itoa(int(fd)), 1024)
	if err != nil {
		return 0, unix.EBADF
	}
	return proc.FdinfoPID(info), nil
}

// umask notes that a process is about to change its umask.
func (w *worker) umask(req event.Request) (outcome, error) {
	w.g.table.UmaskChanges(w.th.TGID)
	w.quiet = true
	return outcome{req: req, d: event.Decision{Action: event.ActionAllow}}, nil
}

// creds notes that a thread is about to change who it is.
func (w *worker) creds(req event.Request) (outcome, error) {
	w.g.table.Mixed(w.th.TGID)
	w.quiet = true
	return outcome{req: req, d: event.Decision{Action: event.ActionAllow}}, nil
}

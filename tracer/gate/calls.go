package gate

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// call is one system call that may be trapped: what it means, when it is
// trapped, and who makes a request of it.
type call struct {
	name   string
	class  Class
	op     event.Op
	access event.Access
	// any are the tests of which one must hold for the call to be trapped.
	any []seccomp.Test
	// waits hands the call to a waiter at once: it always may block.
	waits bool
	run   func(w *worker, req event.Request) (outcome, error)
}

// namespaceFlags are the CLONE_NEW* bits, but for CLONE_NEWTIME, which in
// clone(2) is part of the signal number.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

const (
	msgFastopen = 0x20000000 // MSG_FASTOPEN: a connect inside a send

	tiocsti, tioclinux, tioccons  = 0x5412, 0x541c, 0x541d
	fsIocSetflags, fsIocFssetxatt = 0x40086602, 0x401c5820
	// FS_IOC_SETVERSION and ext4's own: the generation of an inode.
	fsIocSetversion, ext4IocSetversion = 0x40087602, 0x40086604
	// BTRFS_IOC_SNAP_CREATE, SUBVOL_CREATE and their second versions: a snapshot
	// gives everything in it another path.
	btrfsSnap, btrfsSubvol, btrfsSnap2, btrfsSubvol2 = 0x50009401, 0x5000940e, 0x50009417, 0x50009418

	addrNoRandomize = 0x40000 // ADDR_NO_RANDOMIZE of personality(2)

	prSetMM = 35 // PR_SET_MM: rewrites what /proc says of the program
)

func low(arg int, kind seccomp.TestKind, vals ...uint32) []seccomp.Test {
	out := make([]seccomp.Test, len(vals))
	for i, v := range vals {
		out[i] = seccomp.Test{Arg: arg, Kind: kind, Val: v}
	}
	return out
}

// calls is the table of all calls that reeve knows how to judge.
var calls = sync.OnceValue(func() []call {
	const (
		meta = event.AccessMeta
		wr   = event.AccessWrite
	)
	list := []call{
		{name: "open", class: Read, op: event.OpOpen, run: (*worker).open},
		{name: "openat", class: Read, op: event.OpOpen, run: (*worker).openat},
		{name: "openat2", class: Read, op: event.OpOpen, run: (*worker).openat2},
		{name: "creat", class: Write, op: event.OpOpen, run: (*worker).creat},

		{name: "execve", class: Exec, op: event.OpExec, access: event.AccessExec, run: (*worker).execve},
		{name: "execveat", class: Exec, op: event.OpExec, access: event.AccessExec, run: (*worker).execveat},

		{name: "unlink", class: Tree, op: event.OpDelete, run: (*worker).unlink},
		{name: "unlinkat", class: Tree, op: event.OpDelete, run: (*worker).unlinkat},
		{name: "rmdir", class: Tree, op: event.OpRmdir, run: (*worker).rmdir},
		{name: "mkdir", class: Tree, op: event.OpMkdir, run: (*worker).mkdir},
		{name: "mkdirat", class: Tree, op: event.OpMkdir, run: (*worker).mkdirat},
		{name: "mknod", class: Tree, op: event.OpMknod, run: (*worker).mknod},
		{name: "mknodat", class: Tree, op: event.OpMknod, run: (*worker).mknodat},
		{name: "symlink", class: Tree, op: event.OpSymlink, run: (*worker).symlink},
		{name: "symlinkat", class: Tree, op: event.OpSymlink, run: (*worker).symlinkat},
		{name: "link", class: Tree, op: event.OpLink, run: (*worker).link},
		{name: "linkat", class: Tree, op: event.OpLink, run: (*worker).linkat},
		{name: "rename", class: Tree, op: event.OpRename, run: (*worker).rename},
		{name: "renameat", class: Tree, op: event.OpRename, run: (*worker).renameat},
		{name: "renameat2", class: Tree, op: event.OpRename, run: (*worker).renameat},

		{name: "truncate", class: Meta, op: event.OpTruncate, access: wr, waits: true, run: (*worker).truncate},
		{name: "chmod", class: Meta, op: event.OpChmod, access: meta, waits: true, run: (*worker).chmod},
		{name: "fchmod", class: Meta, op: event.OpChmod, access: meta, waits: true, run: (*worker).fchmod},
		{name: "fchmodat", class: Meta, op: event.OpChmod, access: meta, waits: true, run: (*worker).fchmodat},
		{name: "fchmodat2", class: Meta, op: event.OpChmod, access: meta, waits: true, run: (*worker).fchmodat},
		{name: "chown", class: Meta, op: event.OpChown, access: meta, waits: true, run: (*worker).chown},
		{name: "lchown", class: Meta, op: event.OpChown, access: meta, waits: true, run: (*worker).chown},
		{name: "fchown", class: Meta, op: event.OpChown, access: meta, waits: true, run: (*worker).fchown},
		{name: "fchownat", class: Meta, op: event.OpChown, access: meta, waits: true, run: (*worker).fchownat},
		{name: "utime", class: Meta, op: event.OpUtime, access: meta, waits: true, run: (*worker).utime},
		{name: "utimes", class: Meta, op: event.OpUtime, access: meta, waits: true, run: (*worker).utime},
		{name: "futimesat", class: Meta, op: event.OpUtime, access: meta, waits: true, run: (*worker).utimeat},
		{name: "utimensat", class: Meta, op: event.OpUtime, access: meta, waits: true, run: (*worker).utimeat},
		{name: "setxattr", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).setxattr},
		{name: "lsetxattr", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).setxattr},
		{name: "fsetxattr", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).setxattr},
		{name: "setxattrat", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).setxattrat},
		{name: "removexattr", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).removexattr},
		{name: "lremovexattr", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).removexattr},
		{name: "fremovexattr", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).removexattr},
		{name: "removexattrat", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).removexattrat},
		{name: "file_setattr", class: Meta, op: event.OpSetxattr, access: meta, waits: true, run: (*worker).fileSetattr},

		{name: "socket", class: Socket, op: event.OpSocket, run: (*worker).socket},
		{name: "socketpair", class: Socket, op: event.OpSocket, run: (*worker).socket,
			any: low(0, seccomp.NotEqual, unix.AF_UNIX)},
		{name: "connect", class: Connect, op: event.OpConnect, access: event.AccessConnect, waits: true, run: (*worker).connect},
		{name: "bind", class: Bind, op: event.OpBind, access: event.AccessBind, waits: true, run: (*worker).bind},
		{name: "listen", class: Bind, op: event.OpListen, access: event.AccessBind, waits: true, run: (*worker).listen},
		{name: "sendto", class: Send, op: event.OpSend, access: event.AccessConnect, waits: true, run: (*worker).sendto,
			any: append(low(4, seccomp.NonNull, 0), low(3, seccomp.AnyBit, msgFastopen)...)},
		{name: "sendmsg", class: Send, op: event.OpSend, access: event.AccessConnect, waits: true, run: (*worker).sendmsg},
		{name: "sendmmsg", class: Send, op: event.OpSend, access: event.AccessConnect, waits: true, run: (*worker).sendmmsg},

		{name: "umask", class: Write, op: event.OpCreds, run: (*worker).umask},
		{name: "memfd_create", class: Memfd, op: event.OpMemfd, run: (*worker).memfd},
	}
	for _, name := range []string{"kill", "rt_sigqueueinfo", "pidfd_send_signal", "tkill", "tgkill", "rt_tgsigqueueinfo"} {
		list = append(list, call{name: name, class: Signal, op: event.OpSignal, run: (*worker).signal})
	}
	for _, name := range []string{"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset"} {
		list = append(list, call{name: name, class: Creds, op: event.OpCreds, run: (*worker).creds})
	}
	return append(list, kernelCalls()...)
})

// kernelCalls are the calls of class Kernel, by the operation that names their
// surface in a policy.
func kernelCalls() []call {
	plain := map[event.Op][]string{
		event.OpMount: {"mount", "umount2", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
			"open_tree_attr", "move_mount", "mount_setattr", "pivot_root"},
		event.OpNamespace:   {"setns"},
		event.OpChroot:      {"chroot"},
		event.OpIOUring:     {"io_uring_setup", "io_uring_enter", "io_uring_register"},
		event.OpBPF:         {"bpf"},
		event.OpPerf:        {"perf_event_open"},
		event.OpModule:      {"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"},
		event.OpKeyring:     {"add_key", "request_key", "keyctl"},
		event.OpUserfaultfd: {"userfaultfd"},
		event.OpPtrace:      {"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp"},
		event.OpPidfd:       {"pidfd_getfd"},
		event.OpSystem: {"reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday",
			"clock_settime", "clock_adjtime", "sethostname", "setdomainname", "syslog", "vhangup", "uselib",
			"modify_ldt", "memfd_secret", "lookup_dcookie", "nfsservctl", "_sysctl"},
		event.OpRawIO:    {"iopl", "ioperm"},
		event.OpFanotify: {"fanotify_init", "fanotify_mark"},
		event.OpHandle:   {"open_by_handle_at"},
	}
	var list []call
	for op, names := range plain {
		for _, name := range names {
			list = append(list, call{name: name, class: Kernel, op: op, run: (*worker).kernel})
		}
	}
	tested := []call{
		{name: "clone", op: event.OpNamespace, any: low(0, seccomp.AnyBit, namespaceFlags)},
		{name: "unshare", op: event.OpNamespace, any: low(0, seccomp.AnyBit, namespaceFlags|unix.CLONE_NEWTIME)},
		{name: "personality", op: event.OpSystem, any: low(0, seccomp.AnyBit, addrNoRandomize)},
		{name: "ioctl", op: event.OpTerminal, any: low(1, seccomp.Equal, tiocsti, tioclinux, tioccons,
			fsIocSetflags, fsIocFssetxatt, fsIocSetversion, ext4IocSetversion, btrfsSnap, btrfsSubvol, btrfsSnap2, btrfsSubvol2)},
	}
	for _, c := range tested {
		c.class, c.run = Kernel, (*worker).kernel
		list = append(list, c)
	}
	list = append(list, call{name: "prctl", class: Kernel, op: event.OpSystem, run: (*worker).prctl,
		any: low(0, seccomp.Equal, prSetMM, NestOption, unix.PR_SET_DUMPABLE)})
	return append(append(list, schedCalls()...), ipcCalls()...)
}

// schedCalls change the limits or the scheduling of a task: trapped when it may
// be another one than the caller, and where the limit is a session's mark.
func schedCalls() []call {
	pid := low(0, seccomp.NotEqual, 0)
	list := []call{
		{name: "prlimit64", any: append(low(1, seccomp.Equal, proc.RlimitLocks), pid...)},
		{name: "setrlimit", any: low(0, seccomp.Equal, proc.RlimitLocks)}, {name: "sched_setscheduler", any: pid}, {name: "sched_setparam", any: pid},
		{name: "sched_setattr", any: pid}, {name: "sched_setaffinity", any: pid},
		{name: "migrate_pages", any: pid}, {name: "move_pages", any: pid},
		{name: "setpriority", any: append(low(0, seccomp.NotEqual, unix.PRIO_PROCESS), low(1, seccomp.NotEqual, 0)...)},
		{name: "ioprio_set", any: append(low(0, seccomp.NotEqual, ioprioProcess), low(1, seccomp.NotEqual, 0)...)},
	}
	for i := range list {
		list[i].class, list[i].op, list[i].run = Kernel, event.OpSched, (*worker).sched
	}
	return list
}

const ioprioProcess = 1 // IOPRIO_WHO_PROCESS

// ipcCalls are System V IPC and POSIX queues, whose objects belong to no path.
func ipcCalls() []call {
	var list []call
	for _, name := range []string{"shmget", "shmat", "shmctl", "semget", "semctl", "semop", "semtimedop",
		"msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"} {
		list = append(list, call{name: name, class: Kernel, op: event.OpIPC, run: (*worker).ipc})
	}
	return list
}

var byNumber = sync.OnceValue(func() map[int]*call {
	m := make(map[int]*call)
	list := calls()
	for i := range list {
		if nr, ok := seccomp.Number(list[i].name); ok {
			m[nr] = &list[i]
		}
	}
	return m
})

func callByNumber(nr int) *call { return byNumber()[nr] }

var threadSignal = map[string]bool{"tkill": true, "tgkill": true, "rt_tgsigqueueinfo": true}

// Rules are the filter rules that a handling table asks for. With privateIPC the
// session has an IPC namespace of its own, and what is in it is all its own. With
// scoped the floor keeps signals inside the session: then those to threads, which
// runtimes send all the time, are left to it.
func Rules(h Table, allowKernel []string, privateIPC, scoped bool) []seccomp.Rule {
	allowed := map[string]bool{}
	for _, name := range allowKernel {
		allowed[name] = true
	}
	var out []seccomp.Rule
	for _, c := range calls() {
		if scoped && threadSignal[c.name] {
			continue
		}
		if h[c.class] == Hook {
			if r, trapped := hooked(&h, &c); trapped {
				out = append(out, r)
			}
			continue
		}
		if h[c.class] != Untrapped && (!privateIPC || c.op != event.OpIPC) {
			out = append(out, seccomp.Rule{Name: c.name, Any: c.any})
		}
	}
	if h[Kernel] == Refuse && !allowed[event.OpNamespace.String()] {
		// Its flags are in memory, where they cannot be judged. The C library
		// falls back to clone(2).
		out = append(out, seccomp.Rule{Name: "clone3", Errno: unix.ENOSYS})
	}
	return out
}

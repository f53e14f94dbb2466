package event

// Op is an operation: what a task asks of the kernel, in the words of the
// stream. The zero Op is no operation.
type Op uint8

// The operations. New ones are appended: the numbers are stored.
const (
	OpNone Op = iota
	OpOpen
	OpCreate
	OpDelete
	OpRename
	OpLink
	OpSymlink
	OpMkdir
	OpRmdir
	OpMknod
	OpTruncate
	OpChmod
	OpChown
	OpSetxattr
	OpUtime
	OpExec
	OpConnect
	OpBind
	OpListen
	OpSend
	OpSocket
	OpSignal
	OpPtrace
	OpMount
	OpNamespace
	OpChroot
	OpIOUring
	OpBPF
	OpPerf
	OpModule
	OpKeyring
	OpUserfaultfd
	OpPidfd
	OpSystem
	OpRawIO
	OpFanotify
	OpHandle
	OpMemfd
	OpTerminal
	OpSeccomp
	OpCreds
	OpUnknown
	// Facts and records of the stream itself.
	OpFork
	OpExit
	OpStart
	OpEnd
	OpLoss
	OpDegraded
	// OpIPC is System V shared memory, semaphores and queues, and POSIX queues;
	// OpSched is limits and scheduling of another task.
	OpIPC
	OpSched
	// OpAsk is a question that an operation waits for, OpAnswer its answer.
	OpAsk
	OpAnswer
	// OpNest begins or ends a session inside the session.
	OpNest
	// OpResize is a new size of the session's terminal.
	OpResize
)

var opNames = [...]string{
	OpNone: "", OpOpen: "open", OpCreate: "create", OpDelete: "delete", OpRename: "rename",
	OpLink: "link", OpSymlink: "symlink", OpMkdir: "mkdir", OpRmdir: "rmdir", OpMknod: "mknod",
	OpTruncate: "truncate", OpChmod: "chmod", OpChown: "chown", OpSetxattr: "setxattr",
	OpUtime: "utime", OpExec: "exec", OpConnect: "connect", OpBind: "bind", OpListen: "listen",
	OpSend: "send", OpSocket: "socket", OpSignal: "signal", OpPtrace: "ptrace", OpMount: "mount",
	OpNamespace: "namespace", OpChroot: "chroot", OpIOUring: "io_uring", OpBPF: "bpf",
	OpPerf: "perf_event", OpModule: "module", OpKeyring: "keyring",
	OpUserfaultfd: "userfaultfd", OpPidfd: "pidfd", OpSystem: "system", OpRawIO: "rawio",
	OpFanotify: "fanotify", OpHandle: "handle", OpMemfd: "memfd", OpTerminal: "terminal",
	OpSeccomp: "seccomp", OpCreds: "creds", OpUnknown: "unknown",
	OpFork: "fork", OpExit: "exit", OpStart: "start", OpEnd: "end", OpLoss: "lost",
	OpDegraded: "degraded", OpIPC: "ipc", OpSched: "sched",
	OpAsk: "ask", OpAnswer: "answer", OpNest: "nest", OpResize: "resize",
}

// NumOps is one more than the largest operation number.
const NumOps = len(opNames)

// String is the operation's word, the empty string for OpNone and for numbers
// this version does not know.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return ""
}

// ParseOp is the operation of a word; ok is false for a word that is none.
func ParseOp(s string) (o Op, ok bool) {
	for i, n := range opNames {
		if n == s && n != "" {
			return Op(i), true
		}
	}
	return OpNone, false
}

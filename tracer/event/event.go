// Package event is the record of the audit stream: what a task asked of the
// kernel, what was decided, and what came of it. It is a leaf: everything else
// in reeve speaks in these types, and none of them knows who produced a record
// or where it will be stored.
package event

import (
	"strings"
	"time"
)

// Version is the version of the record's meaning, the field "v".
const Version = 1

// Kind says what a record is.
type Kind uint8

// The kinds of a record.
const (
	// KindRequest is an operation with its decision and, where known, its result.
	KindRequest Kind = iota + 1
	// KindFact is something the kernel told us happened: fork, exec, exit.
	KindFact
	// KindLost states that Count records could not be kept, and why (Reason).
	KindLost
	// KindSession marks the stream itself: its start, its end, a degraded engine.
	KindSession
)

// Action is what a decision says.
type Action uint8

// The actions. The order is their strictness: the stricter of two is the larger.
const (
	ActionNone Action = iota
	ActionAllow
	ActionAsk
	ActionDeny
)

// Access is a set of the ways an operation touches its object.
type Access uint16

// The ways to touch an object.
const (
	// AccessRead reads content (open for reading, listing a directory).
	AccessRead Access = 1 << iota
	// AccessWrite changes content (open for writing, truncate).
	AccessWrite
	// AccessCreate makes a name that was not there.
	AccessCreate
	// AccessDelete takes a name away.
	AccessDelete
	// AccessExec runs the object as a program.
	AccessExec
	// AccessMeta changes mode, owner, times, attributes.
	AccessMeta
	// AccessPath takes a handle without content (O_PATH).
	AccessPath
	// AccessConnect sends to, or connects to, an address or a unix socket.
	AccessConnect
	// AccessBind takes an address or listens on it.
	AccessBind
)

// AccessChange is every access that changes the file system.
const AccessChange = AccessWrite | AccessCreate | AccessDelete | AccessMeta

// ObjectKind says what an object is.
type ObjectKind uint8

// The kinds of objects.
const (
	ObjectNone ObjectKind = iota
	ObjectFile
	ObjectDir
	ObjectSymlink
	ObjectDevice
	ObjectFIFO
	// ObjectSocket is a unix socket by path; ObjectAbstract one by abstract name.
	ObjectSocket
	ObjectAbstract
	// ObjectAddr is an internet (or other) socket address: Addr and Port.
	ObjectAddr
	// ObjectMem is an anonymous file: memfd, deleted file, pipe.
	ObjectMem
	// ObjectTask is a process: Path holds its task id or pid.
	ObjectTask
	// ObjectMissing is a path whose last component does not exist.
	ObjectMissing
	// ObjectKernel is a kernel facility: Path holds what was asked (mount, bpf …).
	ObjectKernel
)

// Task names one process of a session. The identity is ID: pid and start time,
// so a reused pid is another task.
type Task struct {
	// ID is "<pid>-<start time in clock ticks since boot>".
	ID string
	// PID is the process (thread group), TID the thread that asked, PPID the
	// parent process; all in reeve's own pid namespace.
	PID, TID, PPID int32
	// Exe is the path of the running program. Bytes, not necessarily UTF-8.
	Exe string
	// Argv is stated where it matters: exec, denials, questions. ArgvLen is the
	// number of bytes of the whole vector (NULs included) when Argv was cut, else 0.
	Argv    []string
	ArgvLen uint32
	// Cwd is stated on exec and where the raw path was relative.
	Cwd string
}

// ProtoUsersock is what [Object].Proto says of a netlink socket of NETLINK_USERSOCK, by
// which programs send to one another and not to the kernel.
const ProtoUsersock = "usersock"

// Object is what an operation resolves to.
type Object struct {
	Kind ObjectKind
	// Path is the resolved path from the session's root (bytes), or the name
	// that Kind says. Raw is what the task passed, when it differs from Path.
	// PathLen, RawLen state the full length when the field was cut, else 0.
	Path, Raw       string
	PathLen, RawLen uint32
	// Dev (st_dev) and Ino identify a file; zero when there is none.
	Dev, Ino uint64
	// Mode is st_mode for files.
	Mode uint32
	// Addr is the textual address ("192.0.2.1", "::1") and Port its port,
	// Family the AF_ number and Proto "tcp", "udp", "raw" … for socket operations.
	Addr   string
	Port   uint16
	Family uint16
	Proto  string
	// Own says that it is the session's: an address that it listens on, a terminal or
	// socket file of its own, an entry of /proc about one of its tasks, a regular
	// file that it made. Of files it is set where the decider asked for it, see
	// Decision.AskBorn, and by the hooks of engine lsm of each that is opened. Of what
	// is not there the decider learns so that a file made there would be known again.
	Own bool
}

// Request is an operation of a task on an object, before it happens.
type Request struct {
	Op     Op
	Access Access
	Task   Task
	Object Object
	// Target is the second object of rename, link and symlink: the new name. Of
	// setxattr and chown its Raw says what is set, in words; see Told.
	Target Object
	// Flags are the operation's own: open flags, renameat2 flags, clone flags.
	Flags uint64
	// Mode is the file mode asked for by open with O_CREAT, mkdir, mknod, chmod.
	Mode uint32
	// Argv is the argument vector asked for by exec.
	Argv []string
	// Interps are the programs besides its object that an allowed exec leads to, in
	// the order in which they were judged; a refused one is the last.
	Interps []Interp
	// Caller is the argument vector of the program that asks for an exec, as far as
	// it is known: it tells what a program does as a part of something else. It is
	// stated where that counts. CallerLen is more than zero when there is more of it.
	Caller    []string
	CallerLen uint32
	// Alike are programs that are known by other names and are the same file as
	// the object of an exec, or have the same content. The first is recorded as the
	// Target.
	Alike []string
	// Interprets says that the object of an exec is the interpreter of a script that
	// was judged already.
	Interprets bool
	// Born says that the repository (.git directory) above the object was made
	// by this session. Set only when the decider asked for it, see Decision.AskBorn.
	Born bool
	// Settings is the SHA-256 of what a settings file would say, where that is asked
	// about, see Decision.AskContent.
	Settings string
	// Syscall and Arch name the call as made ("openat", "x86_64").
	Syscall, Arch string
}

// Decision answers a request.
type Decision struct {
	Action Action
	// Rule is the pattern or rule text, Reason one clause for a person, By who
	// decided ("policy:<profile>", "floor", "gate", "witness", "approver:<who>").
	Rule, Reason, By string
	// Risk is the class of risk that a command belongs to ("destructive", …), for
	// who is asked. It is not recorded.
	Risk string
	// Question is the ID of the question whose answer the decision is; empty for
	// others. An operation's record states it in its Detail.
	Question string
	// Errno is what the task gets on deny; zero means EACCES.
	Errno int32
	// AskBorn asks the gate to find out whether the repository above the object
	// is the session's own, and to ask again with Request.Born set, and whether the
	// session made the files themselves, with Object.Own set. The decision as it
	// stands holds if the gate cannot tell.
	AskBorn bool
	// AskContent says of a rename over a protected settings file, which asks, that it
	// need not if Decider.CheckChange allows what the file would say.
	AskContent bool
	// Secret says of what is allowed that it gives a file a name which is a
	// secret's, or is about such a file of the session's own: the gate is to remember
	// for long that the session made it.
	Secret bool
	// GuardContent asks, with an allowed rename over a protected settings file,
	// that the content be checked by Decider.CheckContent and moved as a fresh
	// copy that no other descriptor can write to; with the allowed making of one,
	// that it be empty, and the task's descriptor cannot write to it.
	GuardContent bool
}

// Answered reports whether somebody answered what the policy asked.
func (d *Decision) Answered() bool { return strings.HasPrefix(d.By, "approver:") }

// Event is one record of the audit stream. Within a session Seq has no gaps and
// starts at 1; Chain is SHA-256(previous chain ‖ canonical bytes), see chain.go.
type Event struct {
	Session string // ULID
	Seq     uint64
	// Time is wall time, UTC, nanoseconds. BootNS is CLOCK_BOOTTIME in ns, which
	// orders records across clock steps and suspend.
	Time   time.Time
	BootNS uint64
	// Engine is the engine that held when the record was made.
	Engine string
	Kind   Kind
	Op     Op
	Access Access
	Task   Task
	Object Object
	Target Object

	Action           Action
	Rule, Reason, By string
	// Layer is who enforced it: "gate", "floor" or "witness".
	Layer string
	// Errno is the error number the task got; 0 is success or, where the kernel
	// carried on by itself, not known to us.
	Errno int32
	// HoldNS is how long the task waited for us, nanoseconds.
	HoldNS        uint64
	Syscall, Arch string

	// Flags, Mode, Born, Interps, Alike and Caller are those of the request, so that
	// it can be decided anew: see Event.Request. Records of the first reeve have none.
	// Of Interps these are the paths, InterpLines is the rest; see Interp.line.
	Flags                uint64
	Mode                 uint32
	Born                 bool
	Interps, InterpLines []string
	// AlikeLen is the number of bytes of the whole (NULs included) when Alike was
	// cut, else 0, CallerLen at least that; the policy saw no more of Caller either.
	Alike, Caller       []string
	AlikeLen, CallerLen uint32

	// Count is the number of records of a loss.
	Count uint64
	// ExitCode and ExitSignal are stated by exit facts.
	ExitCode, ExitSignal int32
	// Detail is free text of session records ("degraded: no Landlock"), the JSON
	// manifest of the session's first record, a resize's {"rows":N,"columns":N}, JSON about a question and its answer,
	// and of operations that JSON which Detail describes.
	Detail string

	Chain [32]byte

	// Origin is where the record stood in a ring of the kernel, for whoever has to
	// give the place back. It is no part of the record: neither encoded nor chained.
	Origin Origin
}

// Origin is a piece of one of a session's rings.
type Origin struct {
	// Ring is the ring's number in the session; 0 is none.
	Ring uint32
	// Inner is the number of the session inside whose task it is about, 0 for the
	// session's own.
	Inner uint32
	// From and To are the positions of its first byte and behind its last one, as
	// the kernel counts them: they only grow.
	From, To uint64
}

package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// version is the version of the kernel records that this package reads,
// LSM_VERSION in bpf/lsm.h.
const version = 4

// Access is an operation that a hook judged.
type Access struct {
	// Time is nanoseconds of CLOCK_BOOTTIME.
	Time    uint64
	Process witness.Process
	TID     int32
	Op      event.Op
	// Need is what the operation needed of its object.
	Need event.Access
	// Path is from the session's root; of an anonymous object a name at most.
	// PathLong says that it is only the end of a path that is too long, OtherLong
	// that Other is.
	Path                string
	PathLong, OtherLong bool
	// Other is the new name of what is renamed or linked, as a path, or the text of
	// a symbolic link, whose Path is its name.
	Other string
	// Dev is the device of the super block, in the form of st_dev.
	Dev, Ino uint64
	Mode     uint32
	// Own says that it is a /proc entry of the session's own, or its terminal.
	Own bool
	// Anonymous objects have no path; of a deleted one it is what it was. Made
	// says that the operation makes the object, or the name Other.
	Anonymous, Deleted, Made bool
	// Granted says that a grant answered the policy's question, Born that a rule did
	// not hold since the session made the directory, see Outcome.Own.
	Granted, Born bool
	// Refused says that the task got Errno.
	Refused bool
	Errno   int32
	Why     Why
	// Hook says what the kernel was asked where Op does not say it all.
	Hook string
	// Inner is the number of the innermost session that the task is of, if that is
	// not the engine's own: see Engine.Hand.
	Inner uint32
	// Arg is the operation's own: an open's flags, as the kernel keeps them; of one
	// that has no path see bpf/lsm_rest.h.
	Arg uint64
	// Origin is where the record stood.
	Origin event.Origin
}

// Lost states that Count things were lost for Cause since the last such record.
type Lost struct {
	Cause Cause
	Count uint64
	// Origin is where a record stood that could not be read.
	Origin event.Origin
}

// Why says what stands against an operation.
type Why uint32

// The reasons; zero is none.
const (
	WhyRule     = Why(bpf.LsmWhyWHY_PLANE)
	WhyAsk      = Why(bpf.LsmWhyWHY_ASK)
	WhyLong     = Why(bpf.LsmWhyWHY_LONG)
	WhyForeign  = Why(bpf.LsmWhyWHY_FOREIGN)
	WhyChanging = Why(bpf.LsmWhyWHY_CHANGING)
	WhyDevice   = Why(bpf.LsmWhyWHY_DEVICE)
	WhySetID    = Why(bpf.LsmWhyWHY_SETID)
	WhyTerminal = Why(bpf.LsmWhyWHY_TERMINAL)
	WhyMemory   = Why(bpf.LsmWhyWHY_MEMORY)
	WhyWidens   = Why(bpf.LsmWhyWHY_WIDENS)
	WhyTree     = Why(bpf.LsmWhyWHY_TREE)
	WhyGate     = Why(bpf.LsmWhyWHY_GATE)
	WhySurface  = Why(bpf.LsmWhyWHY_SURFACE)
	WhyStranger = Why(bpf.LsmWhyWHY_STRANGER)
	WhyOver     = Why(bpf.LsmWhyWHY_OVER)
	WhyBusy     = Why(bpf.LsmWhyWHY_BUSY)
	WhyIdentity = Why(bpf.LsmWhyWHY_IDENTITY)
	WhyBulk     = Why(bpf.LsmWhyWHY_BULK)
)

var reasons = map[Why]string{
	WhyRule:     "denied by the policy",
	WhyAsk:      "asks; nobody granted it",
	WhyLong:     "the path is too long to be judged",
	WhyForeign:  "its path does not lead to the session's root, so it cannot be judged",
	WhyChanging: "its names changed at every try",
	WhyDevice:   "a device outside /dev, or a new one",
	WhySetID:    "a set-user-ID program would outlive the session",
	WhyTerminal: "another terminal",
	WhyMemory:   "a program without a file cannot be known",
	WhyWidens:   "under the new name more would be allowed",
	WhyTree:     "directories and links change their names only by way of the gate",
	WhyGate:     "not made by way of the gate, which alone can judge it",
	WhySurface:  "a part of the kernel that ordinary programs have no business with",
	WhyStranger: "the task does not belong to the session",
	WhyOver:     "the supervisor is gone",
	WhyBusy:     "it could not be judged",
	WhyIdentity: "the program would run as somebody else",
	WhyBulk:     "many files lose what they held",
}

// String is one clause for a person.
func (w Why) String() string { return reasons[w] }

// ops are the operations by what the kernel was asked.
var ops = [...]struct {
	op   event.Op
	hook string
}{
	bpf.LsmOpLSM_OPEN:      {event.OpOpen, ""},
	bpf.LsmOpLSM_CREATE:    {event.OpCreate, ""},
	bpf.LsmOpLSM_EXEC:      {event.OpExec, ""},
	bpf.LsmOpLSM_MAP:       {event.OpExec, "mapped as code"},
	bpf.LsmOpLSM_RECEIVE:   {event.OpOpen, "a descriptor received from another task"},
	bpf.LsmOpLSM_STAT:      {event.OpOpen, "stat"},
	bpf.LsmOpLSM_TRUNCATE:  {event.OpTruncate, ""},
	bpf.LsmOpLSM_CHMOD:     {event.OpChmod, ""},
	bpf.LsmOpLSM_CHOWN:     {event.OpChown, ""},
	bpf.LsmOpLSM_SETXATTR:  {event.OpSetxattr, ""},
	bpf.LsmOpLSM_UNLINK:    {event.OpDelete, ""},
	bpf.LsmOpLSM_RMDIR:     {event.OpRmdir, ""},
	bpf.LsmOpLSM_MKDIR:     {event.OpMkdir, ""},
	bpf.LsmOpLSM_MKNOD:     {event.OpMknod, ""},
	bpf.LsmOpLSM_SYMLINK:   {event.OpSymlink, ""},
	bpf.LsmOpLSM_LINK:      {event.OpLink, ""},
	bpf.LsmOpLSM_RENAME:    {event.OpRename, ""},
	bpf.LsmOpLSM_SOCKET:    {event.OpSocket, ""},
	bpf.LsmOpLSM_CONNECT:   {event.OpConnect, ""},
	bpf.LsmOpLSM_BIND:      {event.OpBind, ""},
	bpf.LsmOpLSM_LISTEN:    {event.OpListen, ""},
	bpf.LsmOpLSM_SEND:      {event.OpSend, ""},
	bpf.LsmOpLSM_SIGNAL:    {event.OpSignal, ""},
	bpf.LsmOpLSM_PTRACE:    {event.OpPtrace, ""},
	bpf.LsmOpLSM_MOUNT:     {event.OpMount, ""},
	bpf.LsmOpLSM_NAMESPACE: {event.OpNamespace, ""},
	bpf.LsmOpLSM_CHROOT:    {event.OpChroot, ""},
	bpf.LsmOpLSM_BPF:       {event.OpBPF, ""},
	bpf.LsmOpLSM_PERF:      {event.OpPerf, ""},
	bpf.LsmOpLSM_MODULE:    {event.OpModule, ""},
	bpf.LsmOpLSM_CREDS:     {event.OpCreds, ""},
}

var errRecord = errors.New("malformed record of a hook")

// recordSize is sizeof(struct record) in bpf/lsm.h.
const recordSize = 104

// fields reads the head of a sample, which is long enough, by the offsets of
// struct record: the library's reflection would take longer than all the rest.
// A test compares the two.
func fields(b []byte) bpf.LsmRecord {
	u16 := func(at int) uint16 { return binary.NativeEndian.Uint16(b[at:]) }
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	return bpf.LsmRecord{
		Version: u16(0), Size: u16(2), Kind: bpf.LsmKind(u32(4)), Time: u64(8), Session: u64(16), Start: u64(24),
		Dev: u64(32), Ino: u64(40), Arg: u64(48), Tgid: u32(56), Tid: u32(60), Op: bpf.LsmOp(u32(64)), Why: bpf.LsmWhy(u32(68)),
		Access: u32(72), Error: int32(u32(76)), Flags: u32(80), Mode: u32(84), Plane: u32(88), PathLen: u32(92), OtherLen: u32(96), Inner: u32(100),
	}
}

// decode reads one sample of a ring. It takes any bytes whatever: what is not a
// record of our version is an error.
func decode(b []byte) (Access, error) {
	if len(b) < recordSize {
		return Access{}, fmt.Errorf("%w: %d bytes", errRecord, len(b))
	}
	r := fields(b)
	switch {
	case r.Version != version:
		return Access{}, fmt.Errorf("%w: version %d, want %d", errRecord, r.Version, version)
	case int(r.Size) != len(b) || recordSize+uint64(r.PathLen)+uint64(r.OtherLen) != uint64(len(b)):
		return Access{}, fmt.Errorf("%w: %d bytes, %d with paths of %d and %d stated", errRecord, len(b), r.Size, r.PathLen, r.OtherLen)
	case r.Kind != bpf.LsmKindKIND_ACCESS && r.Kind != bpf.LsmKindKIND_SURFACE:
		return Access{}, fmt.Errorf("%w: kind %d", errRecord, r.Kind)
	case r.Op == 0 || int(r.Op) >= len(ops):
		return Access{}, fmt.Errorf("%w: operation %d", errRecord, r.Op)
	}
	note := func(bit bpf.LsmNote) bool { return r.Flags&uint32(bit) != 0 }
	return Access{
		Time: r.Time, Process: witness.Process{PID: int32(r.Tgid), Start: r.Start}, TID: int32(r.Tid),
		Op: ops[r.Op].op, Hook: ops[r.Op].hook, Need: event.Access(r.Access), Path: string(b[recordSize : recordSize+r.PathLen]), Other: string(b[recordSize+r.PathLen:]),
		PathLong: note(bpf.LsmNoteREC_LONG), OtherLong: note(bpf.LsmNoteREC_OTHER_LONG), Dev: fromKernelDev(r.Dev), Ino: r.Ino, Mode: r.Mode,
		Own: note(bpf.LsmNoteREC_OWN), Anonymous: note(bpf.LsmNoteREC_ANONYMOUS), Deleted: note(bpf.LsmNoteREC_DELETED),
		Made: note(bpf.LsmNoteREC_MADE), Granted: note(bpf.LsmNoteREC_GRANTED), Born: note(bpf.LsmNoteREC_BORN),
		Refused: r.Error != 0, Errno: r.Error, Why: Why(r.Why), Arg: r.Arg, Inner: r.Inner,
	}, nil
}

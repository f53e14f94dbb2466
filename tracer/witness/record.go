package witness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/bpf"
)

// version is the version of the kernel records that this package reads,
// WITNESS_VERSION in bpf/witness.h.
const version = 2

// The flags of fork and exec records, see bpf/witness.h.
const (
	forkUnmarked   = 1 << 0
	execMismatch   = 1 << 0
	execUnexpected = 1 << 1
	execKilled     = 1 << 2
	execTold       = 1 << 3
)

// Record is what the kernel told: one of Fork, Exec, Exit and Lost.
type Record interface{ record() }

// Process names a process for good: its id in the initial pid namespace and when
// it started, in nanoseconds of CLOCK_BOOTTIME.
type Process struct {
	PID   int32
	Start uint64
}

// userHZ is what /proc counts ticks in; the kernel's ABI, the same everywhere
// that we run.
const userHZ = 100

// ID is the identity that event.Task carries: "<pid>-<start in clock ticks>".
func (p Process) ID() string {
	var room [32]byte
	b := strconv.AppendInt(room[:0], int64(p.PID), 10)
	return string(strconv.AppendUint(append(b, '-'), p.Start/(1e9/userHZ), 10))
}

// Fork is a new process (not: a new thread). Time is nanoseconds of
// CLOCK_BOOTTIME here and in the other records.
type Fork struct {
	Time          uint64
	Parent, Child Process
	// ParentTID is the thread that forked.
	ParentTID int32
	// Unmarked says that the child could not be taken into the session. The
	// kernel has killed the parent; whoever reads this must kill the child, or
	// the tree: nobody watches it.
	Unmarked bool
}

// Exec is a program that a process has become.
type Exec struct {
	Time    uint64
	Process Process
	// OldTID is the thread that called execve; it goes on as Process.PID.
	OldTID int32
	// Inode is the file that is executed: for a script its interpreter.
	Inode Inode
	// Filename is the path as the kernel took it from the caller.
	Filename string
	// Argv is the vector as the program sees it. ArgvLen is the number of bytes
	// of the whole vector, NULs included, when Argv was cut, else 0.
	Argv    []string
	ArgvLen uint32
	// Mismatch says that the file was not among the expected ones; Unexpected
	// that nothing was expected of this thread at all; Told that the file was
	// right and Argv not what was judged; Killed that the process was sent SIGKILL
	// for it before its first instruction.
	Mismatch, Unexpected, Told, Killed bool
}

// Exit is the end of a process: its last thread is gone.
type Exit struct {
	Time    uint64
	Process Process
	// Status is what wait(2) reports.
	Status syscall.WaitStatus
}

// Lost states that Count things were lost for Cause since the last such record.
type Lost struct {
	Cause Cause
	Count uint64
}

func (Fork) record() {}
func (Exec) record() {}
func (Exit) record() {}
func (Lost) record() {}

var errRecord = errors.New("malformed witness record")

// decode reads one sample of the ring. It takes any bytes whatever: what is not
// a record of our version is an error.
func decode(b []byte) (Record, error) {
	var h bpf.WitnessRecordHeader
	if _, err := binary.Decode(b, binary.NativeEndian, &h); err != nil {
		return nil, fmt.Errorf("%w: %d bytes are no header", errRecord, len(b))
	}
	if h.Version != version {
		return nil, fmt.Errorf("%w: version %d, want %d", errRecord, h.Version, version)
	}
	if int(h.Size) != len(b) {
		return nil, fmt.Errorf("%w: %d bytes, the header says %d", errRecord, len(b), h.Size)
	}
	switch h.Kind {
	case bpf.WitnessKindKIND_FORK:
		return decodeFork(b)
	case bpf.WitnessKindKIND_EXEC:
		return decodeExec(b)
	case bpf.WitnessKindKIND_EXIT:
		return decodeExit(b)
	}
	return nil, fmt.Errorf("%w: kind %d", errRecord, h.Kind)
}

func decodeFork(b []byte) (Record, error) {
	var r bpf.WitnessForkRecord
	if err := decodeWhole(b, &r, "fork"); err != nil {
		return nil, err
	}
	return Fork{
		Time:      r.Header.Time,
		Parent:    Process{PID: int32(r.ParentTgid), Start: r.ParentStart},
		Child:     Process{PID: int32(r.ChildTgid), Start: r.ChildStart},
		ParentTID: int32(r.ParentTid),
		Unmarked:  r.Flags&forkUnmarked != 0,
	}, nil
}

func decodeExit(b []byte) (Record, error) {
	var r bpf.WitnessExitRecord
	if err := decodeWhole(b, &r, "exit"); err != nil {
		return nil, err
	}
	return Exit{
		Time:    r.Header.Time,
		Process: Process{PID: int32(r.Tgid), Start: r.Start},
		Status:  syscall.WaitStatus(r.Status),
	}, nil
}

func decodeWhole(b []byte, r any, kind string) error {
	n, err := binary.Decode(b, binary.NativeEndian, r)
	if err != nil || n != len(b) {
		return fmt.Errorf("%w: %s of %d bytes", errRecord, kind, len(b))
	}
	return nil
}

func decodeExec(b []byte) (Record, error) {
	var r bpf.WitnessExecRecord
	n, err := binary.Decode(b, binary.NativeEndian, &r)
	if err != nil {
		return nil, fmt.Errorf("%w: exec of %d bytes", errRecord, len(b))
	}
	text := b[n:]
	if uint64(r.FilenameLen)+uint64(r.ArgvLen) != uint64(len(text)) {
		return nil, fmt.Errorf("%w: exec with %d bytes of text, %d+%d stated", errRecord,
			len(text), r.FilenameLen, r.ArgvLen)
	}
	e := Exec{
		Time:       r.Header.Time,
		Process:    Process{PID: int32(r.Tgid), Start: r.Start},
		OldTID:     int32(r.OldTid),
		Inode:      Inode{Dev: fromKernelDev(r.Dev), Ino: r.Ino},
		Filename:   string(text[:r.FilenameLen]),
		Argv:       splitArgv(text[r.FilenameLen:]),
		Mismatch:   r.Flags&execMismatch != 0,
		Unexpected: r.Flags&execUnexpected != 0,
		Told:       r.Flags&execTold != 0,
		Killed:     r.Flags&execKilled != 0,
	}
	if r.ArgvFull != r.ArgvLen {
		e.ArgvLen = r.ArgvFull
	}
	return e, nil
}

// splitArgv takes the vector apart. The kernel ends each argument with a NUL;
// where the vector was cut, the last one may be without.
func splitArgv(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(b, []byte{0})), "\x00")
}

package event

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The field numbers of event.proto. The fields of an object stand at a base:
// fieldObject for the object, fieldTarget for the target.
const (
	fieldV protowire.Number = iota + 1
	fieldSession
	fieldSeq
	fieldTime
	fieldBootNS
	fieldEngine
	fieldKind
	fieldOp
	fieldAccess
	fieldAction
	fieldRule
	fieldReason
	fieldBy
	fieldLayer
	fieldErrno
	fieldHoldNS
	fieldSyscall
	fieldArch
	fieldCount
	fieldExitCode
	fieldExitSignal
	fieldDetail
	fieldFlags
	fieldMode
	fieldBorn
	fieldInterps
	fieldInterpLines
	fieldAlike
	fieldCaller

	fieldTask      protowire.Number = 30
	fieldArgv      protowire.Number = fieldTask + 5
	fieldAlikeLen  protowire.Number = 38
	fieldCallerLen protowire.Number = 39
	fieldObject    protowire.Number = 40
	fieldTarget    protowire.Number = 60
	objectFields   protowire.Number = 13
	fieldChain     protowire.Number = 100
)

// chainFieldSize is the size of the chain field on the wire: tag, length, sum.
const chainFieldSize = 2 + 1 + 32

// AppendCanonical appends the canonical bytes of the record: every field but
// Chain, in the one encoding that event.proto describes. They are what the hash
// chain is computed over. The error is a time outside the years 1678 to 2262.
func (e *Event) AppendCanonical(b []byte) ([]byte, error) {
	ns, err := unixNano(e.Time)
	if err != nil {
		return b, err
	}
	b = appendUint(b, fieldV, Version)
	b = appendText(b, fieldSession, e.Session)
	b = appendUint(b, fieldSeq, e.Seq)
	if ns != 0 {
		b = protowire.AppendTag(b, fieldTime, protowire.Fixed64Type)
		b = protowire.AppendFixed64(b, uint64(ns))
	}
	b = appendUint(b, fieldBootNS, e.BootNS)
	b = appendText(b, fieldEngine, e.Engine)
	b = appendUint(b, fieldKind, uint64(e.Kind))
	b = appendUint(b, fieldOp, uint64(e.Op))
	b = appendUint(b, fieldAccess, uint64(e.Access))
	b = appendUint(b, fieldAction, uint64(e.Action))
	b = appendText(b, fieldRule, e.Rule)
	b = appendText(b, fieldReason, e.Reason)
	b = appendText(b, fieldBy, e.By)
	b = appendText(b, fieldLayer, e.Layer)
	b = appendInt(b, fieldErrno, e.Errno)
	b = appendUint(b, fieldHoldNS, e.HoldNS)
	b = appendText(b, fieldSyscall, e.Syscall)
	b = appendText(b, fieldArch, e.Arch)
	b = appendUint(b, fieldCount, e.Count)
	b = appendInt(b, fieldExitCode, e.ExitCode)
	b = appendInt(b, fieldExitSignal, e.ExitSignal)
	b = appendText(b, fieldDetail, e.Detail)
	b = appendUint(b, fieldFlags, e.Flags)
	b = appendUint(b, fieldMode, uint64(e.Mode))
	b = appendUint(b, fieldBorn, protowire.EncodeBool(e.Born))
	b = appendTexts(b, fieldInterps, e.Interps)
	b = appendTexts(b, fieldInterpLines, e.InterpLines)
	b = appendTexts(b, fieldAlike, e.Alike)
	b = appendTexts(b, fieldCaller, e.Caller)
	b = appendTask(b, &e.Task)
	b = appendUint(b, fieldAlikeLen, uint64(e.AlikeLen))
	b = appendUint(b, fieldCallerLen, uint64(e.CallerLen))
	b = appendObject(b, fieldObject, &e.Object)
	return appendObject(b, fieldTarget, &e.Target), nil
}

// AppendBinary appends the wire form of the record: its canonical bytes and,
// unless it is all zero, its Chain.
func (e *Event) AppendBinary(b []byte) ([]byte, error) {
	b, err := e.AppendCanonical(b)
	if err != nil || e.Chain == [32]byte{} {
		return b, err
	}
	return appendChain(b, &e.Chain), nil
}

// MarshalBinary is AppendBinary to a new slice.
func (e *Event) MarshalBinary() ([]byte, error) { return e.AppendBinary(nil) }

func appendChain(b []byte, sum *[32]byte) []byte {
	b = protowire.AppendTag(b, fieldChain, protowire.BytesType)
	return protowire.AppendBytes(b, sum[:])
}

func appendTask(b []byte, t *Task) []byte {
	b = appendText(b, fieldTask, t.ID)
	b = appendInt(b, fieldTask+1, t.PID)
	b = appendInt(b, fieldTask+2, t.TID)
	b = appendInt(b, fieldTask+3, t.PPID)
	b = appendText(b, fieldTask+4, t.Exe)
	b = appendTexts(b, fieldArgv, t.Argv)
	b = appendUint(b, fieldTask+6, uint64(t.ArgvLen))
	return appendText(b, fieldTask+7, t.Cwd)
}

func appendObject(b []byte, base protowire.Number, o *Object) []byte {
	b = appendUint(b, base, uint64(o.Kind))
	b = appendText(b, base+1, o.Path)
	b = appendText(b, base+2, o.Raw)
	b = appendUint(b, base+3, uint64(o.PathLen))
	b = appendUint(b, base+4, uint64(o.RawLen))
	b = appendUint(b, base+5, o.Dev)
	b = appendUint(b, base+6, o.Ino)
	b = appendUint(b, base+7, uint64(o.Mode))
	b = appendText(b, base+8, o.Addr)
	b = appendUint(b, base+9, uint64(o.Port))
	b = appendUint(b, base+10, uint64(o.Family))
	b = appendText(b, base+11, o.Proto)
	return appendUint(b, base+12, protowire.EncodeBool(o.Own))
}

func appendUint(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// appendInt sign-extends as protobuf's int32 does.
func appendInt(b []byte, n protowire.Number, v int32) []byte {
	return appendUint(b, n, uint64(int64(v)))
}

func appendText(b []byte, n protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

// appendTexts appends a repeated field, empty texts included.
func appendTexts(b []byte, n protowire.Number, list []string) []byte {
	for _, s := range list {
		b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	return b
}

var (
	minTime = time.Unix(0, math.MinInt64)
	maxTime = time.Unix(0, math.MaxInt64)
)

// unixNano is the stored form of a time: nanoseconds since 1970, and 0 for the
// zero time, which is therefore not told apart from 1970-01-01T00:00:00Z.
func unixNano(t time.Time) (int64, error) {
	if t.IsZero() {
		return 0, nil
	}
	if t.Before(minTime) || t.After(maxTime) {
		return 0, fmt.Errorf("encode event: time %s is outside the years 1678 to 2262", t)
	}
	return t.UnixNano(), nil
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

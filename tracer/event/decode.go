package event

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrEncoding is what every decoder of this package returns, wrapped, for bytes
// that are not a record of ours.
var ErrEncoding = errors.New("not a canonical event")

// UnmarshalBinary decodes the wire form. It accepts exactly what AppendBinary
// makes: on success, encoding e again gives data. On error e is undefined.
// Strings of e share one copy of data; data itself is not kept.
func (e *Event) UnmarshalBinary(data []byte) error {
	*e = Event{}
	s := string(data)
	var last protowire.Number
	version := uint64(0)
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 || n != protowire.SizeTag(num) {
			return malformed(num, "tag")
		}
		if num < last || num == last && !repeated(num) {
			return malformed(num, "order")
		}
		last = num
		data, s = data[n:], s[n:]
		if num == fieldV {
			version, n = protowire.ConsumeVarint(data)
			if typ != protowire.VarintType || n != 1 {
				return malformed(num, "version")
			}
		} else if n = e.consume(num, typ, data, s); n < 0 {
			return malformed(num, "value")
		}
		data, s = data[n:], s[n:]
	}
	if version != Version {
		return fmt.Errorf("%w: version %d, this reeve knows %d", ErrEncoding, version, Version)
	}
	return nil
}

// repeated says that a field is a list.
func repeated(num protowire.Number) bool {
	return num == fieldArgv || num >= fieldInterps && num <= fieldCaller
}

func malformed(num protowire.Number, what string) error {
	return fmt.Errorf("%w: field %d: bad %s", ErrEncoding, num, what)
}

// consume decodes the value of a field at the beginning of data, of which s is a
// copy, and returns its size. It is negative for a value that is not ours, is
// zero, or is not in its shortest form.
func (e *Event) consume(num protowire.Number, typ protowire.Type, data []byte, s string) int {
	const bad = -1
	switch typ {
	case protowire.VarintType:
		v, n := protowire.ConsumeVarint(data)
		if n < 0 || v == 0 || n != protowire.SizeVarint(v) || !e.setUint(num, v) {
			return bad
		}
		return n
	case protowire.Fixed64Type:
		v, n := protowire.ConsumeFixed64(data)
		if n < 0 || v == 0 || num != fieldTime {
			return bad
		}
		e.Time = timeOf(int64(v))
		return n
	case protowire.BytesType:
		v, n := protowire.ConsumeBytes(data)
		if n < 0 || n != protowire.SizeBytes(len(v)) || len(v) == 0 && !repeated(num) ||
			!e.setText(num, s[n-len(v):n]) {
			return bad
		}
		return n
	}
	return bad
}

// setUint stores a varint field; false for an unknown field or a value that
// does not fit.
func (e *Event) setUint(num protowire.Number, v uint64) bool {
	switch num {
	case fieldSeq:
		return put(&e.Seq, v)
	case fieldBootNS:
		return put(&e.BootNS, v)
	case fieldKind:
		return put(&e.Kind, v)
	case fieldOp:
		return put(&e.Op, v)
	case fieldAccess:
		return put(&e.Access, v)
	case fieldAction:
		return put(&e.Action, v)
	case fieldErrno:
		return putInt(&e.Errno, v)
	case fieldHoldNS:
		return put(&e.HoldNS, v)
	case fieldCount:
		return put(&e.Count, v)
	case fieldExitCode:
		return putInt(&e.ExitCode, v)
	case fieldExitSignal:
		return putInt(&e.ExitSignal, v)
	case fieldFlags:
		return put(&e.Flags, v)
	case fieldMode:
		return put(&e.Mode, v)
	case fieldBorn:
		e.Born = true
		return v == 1
	case fieldTask + 1:
		return putInt(&e.Task.PID, v)
	case fieldTask + 2:
		return putInt(&e.Task.TID, v)
	case fieldTask + 3:
		return putInt(&e.Task.PPID, v)
	case fieldTask + 6:
		return put(&e.Task.ArgvLen, v)
	case fieldAlikeLen:
		return put(&e.AlikeLen, v)
	case fieldCallerLen:
		return put(&e.CallerLen, v)
	}
	if o, n := e.object(num); o != nil {
		return o.setUint(n, v)
	}
	return false
}

func (o *Object) setUint(n protowire.Number, v uint64) bool {
	switch n {
	case 0:
		return put(&o.Kind, v)
	case 3:
		return put(&o.PathLen, v)
	case 4:
		return put(&o.RawLen, v)
	case 5:
		return put(&o.Dev, v)
	case 6:
		return put(&o.Ino, v)
	case 7:
		return put(&o.Mode, v)
	case 9:
		return put(&o.Port, v)
	case 10:
		return put(&o.Family, v)
	case 12:
		o.Own = true
		return v == 1
	}
	return false
}

// setText stores a length-delimited field; false for an unknown field.
func (e *Event) setText(num protowire.Number, v string) bool {
	switch num {
	case fieldArgv:
		e.Task.Argv = append(e.Task.Argv, v)
		return true
	case fieldInterps:
		e.Interps = append(e.Interps, v)
		return true
	case fieldInterpLines:
		e.InterpLines = append(e.InterpLines, v)
		return true
	case fieldAlike:
		e.Alike = append(e.Alike, v)
		return true
	case fieldCaller:
		e.Caller = append(e.Caller, v)
		return true
	case fieldChain:
		copy(e.Chain[:], v)
		return len(v) == len(e.Chain) && e.Chain != [32]byte{}
	}
	if p := e.text(num); p != nil {
		*p = v
		return true
	}
	return false
}

// text is the place of a field of bytes, nil when there is none.
func (e *Event) text(num protowire.Number) *string {
	switch num {
	case fieldSession:
		return &e.Session
	case fieldEngine:
		return &e.Engine
	case fieldRule:
		return &e.Rule
	case fieldReason:
		return &e.Reason
	case fieldBy:
		return &e.By
	case fieldLayer:
		return &e.Layer
	case fieldSyscall:
		return &e.Syscall
	case fieldArch:
		return &e.Arch
	case fieldDetail:
		return &e.Detail
	case fieldTask:
		return &e.Task.ID
	case fieldTask + 4:
		return &e.Task.Exe
	case fieldTask + 7:
		return &e.Task.Cwd
	}
	if o, n := e.object(num); o != nil {
		return o.text(n)
	}
	return nil
}

func (o *Object) text(n protowire.Number) *string {
	switch n {
	case 1:
		return &o.Path
	case 2:
		return &o.Raw
	case 8:
		return &o.Addr
	case 11:
		return &o.Proto
	}
	return nil
}

// object is the object that a field belongs to and the field's place in it.
func (e *Event) object(num protowire.Number) (*Object, protowire.Number) {
	switch {
	case num >= fieldObject && num < fieldObject+objectFields:
		return &e.Object, num - fieldObject
	case num >= fieldTarget && num < fieldTarget+objectFields:
		return &e.Target, num - fieldTarget
	}
	return nil, 0
}

// put stores v and reports whether it fits.
func put[T ~uint8 | ~uint16 | ~uint32 | ~uint64](p *T, v uint64) bool {
	*p = T(v)
	return uint64(*p) == v
}

func putInt(p *int32, v uint64) bool {
	i := int64(v)
	*p = int32(i)
	return i >= math.MinInt32 && i <= math.MaxInt32
}

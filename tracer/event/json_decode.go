package event

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// UnmarshalJSON decodes the form that AppendJSON makes; fields it does not know
// are ignored. On error e is undefined.
func (e *Event) UnmarshalJSON(data []byte) error {
	*e = Event{}
	r := jsonReader{}
	if err := json.Unmarshal(data, &r.m); err != nil {
		return fmt.Errorf("decode event: %w", err)
	}
	var v uint64
	var when, chain string
	r.value("v", &v)
	r.head(e)
	r.text("time", &when)
	r.text("chain", &chain)
	e.Task = r.task("task")
	e.Object = r.object("object")
	e.Target = r.object("target")
	if r.err == nil && v != Version {
		return fmt.Errorf("decode event: version %d, this reeve knows %d", v, Version)
	}
	if when != "" && r.err == nil {
		t, err := time.Parse(time.RFC3339Nano, when)
		e.Time = t.UTC()
		r.fail("time", err)
	}
	if chain != "" && r.err == nil {
		sum, err := hex.DecodeString(chain)
		if err == nil && len(sum) != len(e.Chain) {
			err = fmt.Errorf("%d bytes, want %d", len(sum), len(e.Chain))
		}
		copy(e.Chain[:], sum)
		r.fail("chain", err)
	}
	return r.err
}

// jsonReader reads members of one object and keeps the first error.
type jsonReader struct {
	m   map[string]json.RawMessage
	err error
}

func (r *jsonReader) head(e *Event) {
	r.text("session", &e.Session)
	r.value("seq", &e.Seq)
	r.value("boot_ns", &e.BootNS)
	r.text("engine", &e.Engine)
	number(r, "kind", &e.Kind, ParseKind)
	number(r, "op", &e.Op, ParseOp)
	number(r, "action", &e.Action, ParseAction)
	number(r, "errno", &e.Errno, ParseErrno)
	r.text("rule", &e.Rule)
	r.text("reason", &e.Reason)
	r.text("by", &e.By)
	r.text("layer", &e.Layer)
	r.value("hold_ns", &e.HoldNS)
	r.text("syscall", &e.Syscall)
	r.text("arch", &e.Arch)
	r.value("flags", &e.Flags)
	r.value("mode", &e.Mode)
	r.value("born", &e.Born)
	e.Interps = r.list("interps")
	e.InterpLines = r.list("interp_lines")
	e.Alike = r.list("alike")
	r.value("alike_len", &e.AlikeLen)
	e.Caller = r.list("caller")
	r.value("caller_len", &e.CallerLen)
	r.value("count", &e.Count)
	r.value("exit_code", &e.ExitCode)
	r.value("exit_signal", &e.ExitSignal)
	r.text("detail", &e.Detail)
	for _, w := range r.list("access") {
		var a Access
		r.fail("access", parseNumber(w, &a, ParseAccess))
		e.Access |= a
	}
}

func (r *jsonReader) fail(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("decode event: field %q: %w", name, err)
	}
}

func (r *jsonReader) value(name string, p any) bool {
	raw, ok := r.m[name]
	if ok && r.err == nil {
		r.fail(name, json.Unmarshal(raw, p))
	}
	return ok
}

func (r *jsonReader) text(name string, p *string) {
	var b []byte
	if r.value(name+"_b64", &b) {
		*p = string(b)
		return
	}
	r.value(name, p)
}

func (r *jsonReader) list(name string) []string {
	var b [][]byte
	var list []string
	if r.value(name+"_b64", &b) {
		for _, s := range b {
			list = append(list, string(s))
		}
		return list
	}
	if r.value(name, &list); len(list) == 0 {
		return nil
	}
	return list
}

// nested is a reader of the object called name. Its error goes back to r by the caller.
func (r *jsonReader) nested(name string) *jsonReader {
	in := &jsonReader{}
	r.value(name, &in.m)
	in.err = r.err
	return in
}

func (r *jsonReader) task(name string) (t Task) {
	in := r.nested(name)
	in.text("id", &t.ID)
	in.value("pid", &t.PID)
	in.value("tid", &t.TID)
	in.value("ppid", &t.PPID)
	in.text("exe", &t.Exe)
	t.Argv = in.list("argv")
	in.value("argv_len", &t.ArgvLen)
	in.text("cwd", &t.Cwd)
	r.err = in.err
	return t
}

func (r *jsonReader) object(name string) (o Object) {
	in := r.nested(name)
	var dev string
	number(in, "kind", &o.Kind, ParseObjectKind)
	in.text("path", &o.Path)
	in.value("path_len", &o.PathLen)
	in.text("raw", &o.Raw)
	in.value("raw_len", &o.RawLen)
	in.text("dev", &dev)
	in.value("ino", &o.Ino)
	in.value("mode", &o.Mode)
	in.text("addr", &o.Addr)
	in.value("port", &o.Port)
	in.value("family", &o.Family)
	in.text("proto", &o.Proto)
	in.value("own", &o.Own)
	if dev != "" {
		var err error
		o.Dev, err = ParseDev(dev)
		in.fail("dev", err)
	}
	r.err = in.err
	return o
}

func number[T ~uint8 | ~int32](r *jsonReader, name string, p *T, words func(string) (T, bool)) {
	var s string
	if r.text(name, &s); s != "" {
		r.fail(name, parseNumber(s, p, words))
	}
}

var errnoByName = sync.OnceValue(func() map[string]int32 {
	m := make(map[string]int32)
	for n := int32(1); n < 256; n++ {
		if s := unix.ErrnoName(unix.Errno(n)); s != "" {
			m[s] = n
		}
	}
	return m
})

// ParseErrno is the error number of a name such as "EACCES".
func ParseErrno(name string) (int32, bool) {
	n, ok := errnoByName()[name]
	return n, ok
}

// ParseDev is the device number of "major:minor".
func ParseDev(s string) (uint64, error) {
	major, minor, ok := strings.Cut(s, ":")
	ma, err1 := strconv.ParseUint(major, 10, 32)
	mi, err2 := strconv.ParseUint(minor, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("device %q is not major:minor", s)
	}
	return unix.Mkdev(uint32(ma), uint32(mi)), nil
}

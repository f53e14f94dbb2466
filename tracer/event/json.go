package event

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// AppendJSON appends the JSON form of the record: one object, no spaces, no
// newline. Names are those of the audit stream's documentation; zero fields are
// left out, except "exit_code" of an exit. A string that is not UTF-8 stands
// with U+FFFD in the place of bad bytes, and beside it, under its name with
// "_b64" after it, are its bytes. Control and bidirectional formatting
// characters are escaped, so that a line is safe on a terminal. Numbers without
// a word (an operation of a later version) are written "#" and the number.
func (e *Event) AppendJSON(b []byte) []byte {
	w := jsonWriter{b: b}
	w.open("")
	w.uint("v", Version)
	w.text("session", e.Session)
	w.uint("seq", e.Seq)
	if !e.Time.IsZero() {
		w.text("time", e.Time.UTC().Format(time.RFC3339Nano))
	}
	w.uint("boot_ns", e.BootNS)
	w.text("engine", e.Engine)
	w.word("kind", e.Kind.String(), uint64(e.Kind))
	if e.Task.stated() {
		w.open("task")
		w.task(&e.Task)
		w.close()
	}
	w.word("op", e.Op.String(), uint64(e.Op))
	w.access(e.Access)
	w.object("object", &e.Object)
	w.object("target", &e.Target)
	w.word("action", e.Action.String(), uint64(e.Action))
	w.text("rule", e.Rule)
	w.text("reason", e.Reason)
	w.text("by", e.By)
	w.text("layer", e.Layer)
	w.errno(e.Errno)
	w.uint("hold_ns", e.HoldNS)
	w.text("syscall", e.Syscall)
	w.text("arch", e.Arch)
	w.uint("flags", e.Flags)
	w.uint("mode", uint64(e.Mode))
	w.bool("born", e.Born)
	w.list("interps", e.Interps)
	w.list("interp_lines", e.InterpLines)
	w.list("alike", e.Alike)
	w.uint("alike_len", uint64(e.AlikeLen))
	w.list("caller", e.Caller)
	w.uint("caller_len", uint64(e.CallerLen))
	w.uint("count", e.Count)
	if e.ExitCode != 0 || e.Op == OpExit {
		w.key("exit_code")
		w.b = strconv.AppendInt(w.b, int64(e.ExitCode), 10)
	}
	w.int("exit_signal", e.ExitSignal)
	w.text("detail", e.Detail)
	if e.Chain != [32]byte{} {
		w.text("chain", hex.EncodeToString(e.Chain[:]))
	}
	w.close()
	return w.b
}

// MarshalJSON is AppendJSON for encoding/json.
func (e *Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// ErrnoName is the name of an error number ("EACCES"), "#n" when it has none,
// and empty for 0.
func ErrnoName(errno int32) string {
	if errno == 0 {
		return ""
	}
	if errno > 0 {
		if s := unix.ErrnoName(unix.Errno(errno)); s != "" {
			return s
		}
	}
	return "#" + strconv.Itoa(int(errno))
}

// FormatDev is a device number as "major:minor".
func FormatDev(dev uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
}

func (t *Task) stated() bool {
	return t.ID != "" || t.PID != 0 || t.TID != 0 || t.PPID != 0 || t.Exe != "" ||
		len(t.Argv) > 0 || t.ArgvLen != 0 || t.Cwd != ""
}

// jsonWriter appends the members of nested JSON objects.
type jsonWriter struct{ b []byte }

func (w *jsonWriter) open(name string) {
	if name != "" {
		w.key(name)
	}
	w.b = append(w.b, '{')
}

func (w *jsonWriter) close() { w.b = append(w.b, '}') }

func (w *jsonWriter) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *jsonWriter) uint(name string, v uint64) {
	if v != 0 {
		w.key(name)
		w.b = strconv.AppendUint(w.b, v, 10)
	}
}

func (w *jsonWriter) int(name string, v int32) {
	if v != 0 {
		w.key(name)
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	}
}

func (w *jsonWriter) bool(name string, v bool) {
	if v {
		w.key(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *jsonWriter) text(name, s string) {
	if s == "" {
		return
	}
	w.key(name)
	w.b = appendJSONString(w.b, s)
	if !utf8.ValidString(s) {
		w.key(name + "_b64")
		w.base64(s)
	}
}

func (w *jsonWriter) base64(s string) {
	w.b = append(w.b, '"')
	w.b = base64.StdEncoding.AppendEncode(w.b, []byte(s))
	w.b = append(w.b, '"')
}

func (w *jsonWriter) word(name, word string, v uint64) {
	if v == 0 {
		return
	}
	if word == "" {
		word = "#" + strconv.FormatUint(v, 10)
	}
	w.text(name, word)
}

func (w *jsonWriter) errno(v int32) { w.text("errno", ErrnoName(v)) }

func (w *jsonWriter) access(a Access) {
	if a == 0 {
		return
	}
	w.list("access", a.texts())
}

// list writes an array of strings, and its bytes when one of them is not UTF-8.
func (w *jsonWriter) list(name string, list []string) {
	if len(list) == 0 {
		return
	}
	valid := true
	w.key(name)
	w.b = append(w.b, '[')
	for i, s := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = appendJSONString(w.b, s)
		valid = valid && utf8.ValidString(s)
	}
	w.b = append(w.b, ']')
	if valid {
		return
	}
	w.key(name + "_b64")
	w.b = append(w.b, '[')
	for i, s := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.base64(s)
	}
	w.b = append(w.b, ']')
}

func (w *jsonWriter) task(t *Task) {
	w.text("id", t.ID)
	w.int("pid", t.PID)
	w.int("tid", t.TID)
	w.int("ppid", t.PPID)
	w.text("exe", t.Exe)
	w.list("argv", t.Argv)
	w.uint("argv_len", uint64(t.ArgvLen))
	w.text("cwd", t.Cwd)
}

func (w *jsonWriter) object(name string, o *Object) {
	if *o == (Object{}) {
		return
	}
	w.open(name)
	w.word("kind", o.Kind.String(), uint64(o.Kind))
	w.text("path", o.Path)
	w.uint("path_len", uint64(o.PathLen))
	w.text("raw", o.Raw)
	w.uint("raw_len", uint64(o.RawLen))
	if o.Dev != 0 {
		w.text("dev", FormatDev(o.Dev))
	}
	w.uint("ino", o.Ino)
	w.uint("mode", uint64(o.Mode))
	w.text("addr", o.Addr)
	w.uint("port", uint64(o.Port))
	w.uint("family", uint64(o.Family))
	w.text("proto", o.Proto)
	w.bool("own", o.Own)
	w.close()
}

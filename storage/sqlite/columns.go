package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/reeve-audit/reeve/tracer/event"
)

// eventColumns are the columns that hold a record, in the order of bind and scan.
var eventColumns = strings.Fields(`seq time_unix_ns boot_ns engine kind op access action rule reason "by"
	layer errno hold_ns syscall arch count exit_code exit_signal detail flags mode born
	interps interp_lines alike alike_len caller caller_len
	task_id task_pid task_tid task_ppid task_exe task_argv task_argv_len task_cwd
	` + objectColumns("object") + objectColumns("target") + ` chain`)

func objectColumns(name string) string {
	var b strings.Builder
	for _, c := range strings.Fields("kind path raw path_len raw_len dev ino mode addr port family proto own") {
		b.WriteString(" " + name + "_" + c)
	}
	return b.String()
}

var (
	selectColumns = strings.Join(eventColumns, ", ")
	insertEvent   = `INSERT INTO events (sid, ` + selectColumns + `) VALUES (?` +
		strings.Repeat(", ?", len(eventColumns)) + `)`
)

// row collects the values of one insert; zero is NULL.
type row struct {
	args []driver.NamedValue
	n    int
}

func (r *row) put(v driver.Value) {
	r.args[r.n] = driver.NamedValue{Ordinal: r.n + 1, Value: v}
	r.n++
}

func (r *row) int(v int64) {
	if v == 0 {
		r.put(nil)
		return
	}
	r.put(v)
}

func (r *row) bool(v bool) {
	if v {
		r.put(int64(1))
		return
	}
	r.put(nil)
}

func (r *row) text(s string) {
	if s == "" {
		r.put(nil)
		return
	}
	r.put(s)
}

// bind fills r with the session's number and e.
func (r *row) bind(sid int64, e *event.Event) {
	r.n = 0
	r.put(sid)
	r.put(int64(e.Seq))
	if e.Time.IsZero() {
		r.put(nil)
	} else {
		r.int(e.Time.UnixNano())
	}
	r.int(int64(e.BootNS))
	r.text(e.Engine)
	r.int(int64(e.Kind))
	r.int(int64(e.Op))
	r.int(int64(e.Access))
	r.int(int64(e.Action))
	r.text(e.Rule)
	r.text(e.Reason)
	r.text(e.By)
	r.text(e.Layer)
	r.int(int64(e.Errno))
	r.int(int64(e.HoldNS))
	r.text(e.Syscall)
	r.text(e.Arch)
	r.int(int64(e.Count))
	r.int(int64(e.ExitCode))
	r.int(int64(e.ExitSignal))
	r.text(e.Detail)
	r.int(int64(e.Flags))
	r.int(int64(e.Mode))
	r.bool(e.Born)
	r.put(encodeArgv(e.Interps))
	r.put(encodeArgv(e.InterpLines))
	r.put(encodeArgv(e.Alike))
	r.int(int64(e.AlikeLen))
	r.put(encodeArgv(e.Caller))
	r.int(int64(e.CallerLen))
	r.text(e.Task.ID)
	r.int(int64(e.Task.PID))
	r.int(int64(e.Task.TID))
	r.int(int64(e.Task.PPID))
	r.text(e.Task.Exe)
	r.put(encodeArgv(e.Task.Argv))
	r.int(int64(e.Task.ArgvLen))
	r.text(e.Task.Cwd)
	r.object(&e.Object)
	r.object(&e.Target)
	r.put(e.Chain[:])
}

func (r *row) object(o *event.Object) {
	r.int(int64(o.Kind))
	r.text(o.Path)
	r.text(o.Raw)
	r.int(int64(o.PathLen))
	r.int(int64(o.RawLen))
	r.int(int64(o.Dev))
	r.int(int64(o.Ino))
	r.int(int64(o.Mode))
	r.text(o.Addr)
	r.int(int64(o.Port))
	r.int(int64(o.Family))
	r.text(o.Proto)
	r.bool(o.Own)
}

// encodeArgv is a list of texts, such as an argument vector, as a JSON array,
// which people can query, or, when one of them is not UTF-8, as a blob of
// length-prefixed bytes.
func encodeArgv(argv []string) driver.Value {
	if len(argv) == 0 {
		return nil
	}
	valid := true
	for _, s := range argv {
		valid = valid && utf8.ValidString(s)
	}
	if valid {
		if b, err := json.Marshal(argv); err == nil {
			return string(b)
		}
	}
	var b []byte
	for _, s := range argv {
		b = protowire.AppendString(b, s)
	}
	return b
}

func decodeArgv(v any) ([]string, error) {
	var argv []string
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		if err := json.Unmarshal([]byte(v), &argv); err != nil {
			return nil, err
		}
		return argv, nil
	case []byte:
		for len(v) > 0 {
			s, n := protowire.ConsumeString(v)
			if n < 0 {
				return nil, errors.New("bad length")
			}
			argv, v = append(argv, s), v[n:]
		}
		return argv, nil
	}
	return nil, fmt.Errorf("unexpected %T", v)
}

// listColumns are the columns of lists, see encodeArgv.
var listColumns = [...]string{"interps", "interp_lines", "alike", "caller", "task_argv"}

// fields are the destinations of one scanned row. Somebody who alters a row can
// store any type in any column: what does not fit is an error of that row.
type fields struct {
	ints  [39]sql.NullInt64
	texts [19]sql.NullString
	lists [len(listColumns)]any
	chain []byte
	dest  []any
	ni    int
	nt    int
}

func newFields() *fields {
	f := &fields{}
	for _, c := range eventColumns {
		switch {
		case slices.Contains(listColumns[:], c):
			f.dest = append(f.dest, &f.lists[slices.Index(listColumns[:], c)])
		case c == "chain":
			f.dest = append(f.dest, &f.chain)
		case isText(c):
			f.dest = append(f.dest, &f.texts[f.nt])
			f.nt++
		default:
			f.dest = append(f.dest, &f.ints[f.ni])
			f.ni++
		}
	}
	return f
}

func isText(column string) bool {
	switch column {
	case "engine", "rule", "reason", `"by"`, "layer", "syscall", "arch", "detail", "task_id", "task_exe", "task_cwd":
		return true
	}
	for _, end := range []string{"_path", "_raw", "_addr", "_proto"} {
		if strings.HasSuffix(column, end) {
			return true
		}
	}
	return false
}

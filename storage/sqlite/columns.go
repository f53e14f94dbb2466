package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Versions 1 and 2 of the file stored a record as a row of table events, with
// columns as in event.proto: zero is NULL, 64-bit numbers are signed, texts are the
// bytes that they are.

// eventColumns are the columns that hold a record, in the order of scan.
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

var selectColumns = strings.Join(eventColumns, ", ")

// decodeArgv is a list of texts, such as an argument vector: a JSON array or, where
// one of them is not UTF-8, a blob of length-prefixed bytes.
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

// listColumns are the columns of lists, see decodeArgv.
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

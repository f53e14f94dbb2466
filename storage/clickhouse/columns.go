package clickhouse

import (
	"encoding"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// column is one column of table events.
type column struct {
	name, ddl string
	// since is the version of the database that has the column; 0 is the first.
	since int
	// values is the column of some records, a typed slice.
	values func([]*event.Event) any
	// dest is where a scanned value goes: into the record, or into a text that
	// finish puts there.
	dest func(*scanned) any
	// finish is nil when dest is the place itself.
	finish func(*scanned) error
}

// scanned is a record that is being read.
type scanned struct {
	e    event.Event
	text string // of the column that is finished at the moment
	time time.Time
	// texts are the values of the columns that have a finish, by their place.
	texts []string
}

// Column types.
const (
	ddlWord   = "LowCardinality(String)"
	ddlText   = "String CODEC(ZSTD(1))"
	ddlTexts  = "Array(String) CODEC(ZSTD(1))"
	ddlCount  = "UInt64 CODEC(T64, ZSTD(1))"
	ddlRising = "UInt64 CODEC(Delta, ZSTD(1))"
	ddlInt32  = "Int32 CODEC(T64, ZSTD(1))"
	ddlUint32 = "UInt32 CODEC(T64, ZSTD(1))"
	ddlUint16 = "UInt16 CODEC(T64, ZSTD(1))"
)

// columns are those of event.proto; "time" is time_unix_ns.
var columns = append([]column{
	plain("session", ddlText, func(e *event.Event) *string { return &e.Session }),
	plain("seq", ddlRising, func(e *event.Event) *uint64 { return &e.Seq }),
	timeColumn(),
	plain("boot_ns", ddlRising, func(e *event.Event) *uint64 { return &e.BootNS }),
	plain("engine", ddlWord, func(e *event.Event) *string { return &e.Engine }),
	word("kind", func(e *event.Event) textValue { return &e.Kind }),
	word("op", func(e *event.Event) textValue { return &e.Op }),
	word("access", func(e *event.Event) textValue { return &e.Access }),
	word("action", func(e *event.Event) textValue { return &e.Action }),
	plain("rule", ddlWord, func(e *event.Event) *string { return &e.Rule }),
	plain("reason", ddlText, func(e *event.Event) *string { return &e.Reason }),
	plain("by", ddlWord, func(e *event.Event) *string { return &e.By }),
	plain("layer", ddlWord, func(e *event.Event) *string { return &e.Layer }),
	plain("errno", ddlInt32, func(e *event.Event) *int32 { return &e.Errno }),
	plain("hold_ns", ddlCount, func(e *event.Event) *uint64 { return &e.HoldNS }),
	plain("syscall", ddlWord, func(e *event.Event) *string { return &e.Syscall }),
	plain("arch", ddlWord, func(e *event.Event) *string { return &e.Arch }),
	plain("count", ddlCount, func(e *event.Event) *uint64 { return &e.Count }),
	plain("exit_code", ddlInt32, func(e *event.Event) *int32 { return &e.ExitCode }),
	plain("exit_signal", ddlInt32, func(e *event.Event) *int32 { return &e.ExitSignal }),
	plain("detail", ddlText, func(e *event.Event) *string { return &e.Detail }),
	plain("task_id", ddlText, func(e *event.Event) *string { return &e.Task.ID }),
	plain("task_pid", ddlInt32, func(e *event.Event) *int32 { return &e.Task.PID }),
	plain("task_tid", ddlInt32, func(e *event.Event) *int32 { return &e.Task.TID }),
	plain("task_ppid", ddlInt32, func(e *event.Event) *int32 { return &e.Task.PPID }),
	plain("task_exe", ddlWord, func(e *event.Event) *string { return &e.Task.Exe }),
	plain("task_argv", ddlTexts, func(e *event.Event) *[]string { return &e.Task.Argv }),
	plain("task_argv_len", ddlUint32, func(e *event.Event) *uint32 { return &e.Task.ArgvLen }),
	plain("task_cwd", ddlWord, func(e *event.Event) *string { return &e.Task.Cwd }),
	chainColumn(),
}, slices.Concat(
	objectColumns("object", func(e *event.Event) *event.Object { return &e.Object }),
	objectColumns("target", func(e *event.Event) *event.Object { return &e.Target }),
	requestColumns)...)

// requestColumns came with version 2: what a request says besides its object.
var requestColumns = []column{
	plain("flags", ddlCount, func(e *event.Event) *uint64 { return &e.Flags }).from(2),
	plain("mode", ddlUint32, func(e *event.Event) *uint32 { return &e.Mode }).from(2),
	plain("born", "Bool", func(e *event.Event) *bool { return &e.Born }).from(2),
	plain("interps", ddlTexts, func(e *event.Event) *[]string { return &e.Interps }).from(2),
	plain("interp_lines", ddlTexts, func(e *event.Event) *[]string { return &e.InterpLines }).from(2),
	plain("alike", ddlTexts, func(e *event.Event) *[]string { return &e.Alike }).from(2),
	plain("alike_len", ddlUint32, func(e *event.Event) *uint32 { return &e.AlikeLen }).from(2),
	plain("caller", ddlTexts, func(e *event.Event) *[]string { return &e.Caller }).from(2),
	plain("caller_len", ddlUint32, func(e *event.Event) *uint32 { return &e.CallerLen }).from(2),
}

func (c column) from(version int) column {
	c.since = version
	return c
}

func objectColumns(name string, of func(*event.Event) *event.Object) []column {
	return []column{
		word(name+"_kind", func(e *event.Event) textValue { return &of(e).Kind }),
		plain(name+"_path", ddlText, func(e *event.Event) *string { return &of(e).Path }),
		plain(name+"_raw", ddlText, func(e *event.Event) *string { return &of(e).Raw }),
		plain(name+"_path_len", ddlUint32, func(e *event.Event) *uint32 { return &of(e).PathLen }),
		plain(name+"_raw_len", ddlUint32, func(e *event.Event) *uint32 { return &of(e).RawLen }),
		plain(name+"_dev", ddlCount, func(e *event.Event) *uint64 { return &of(e).Dev }),
		plain(name+"_ino", ddlCount, func(e *event.Event) *uint64 { return &of(e).Ino }),
		plain(name+"_mode", ddlUint32, func(e *event.Event) *uint32 { return &of(e).Mode }),
		plain(name+"_addr", ddlText, func(e *event.Event) *string { return &of(e).Addr }),
		plain(name+"_port", ddlUint16, func(e *event.Event) *uint16 { return &of(e).Port }),
		plain(name+"_family", ddlUint16, func(e *event.Event) *uint16 { return &of(e).Family }),
		plain(name+"_proto", ddlWord, func(e *event.Event) *string { return &of(e).Proto }),
		plain(name+"_own", "Bool", func(e *event.Event) *bool { return &of(e).Own }),
	}
}

// plain is a column whose type is that of a field.
func plain[T any](name, ddl string, field func(*event.Event) *T) column {
	return column{
		name: name, ddl: ddl,
		values: func(events []*event.Event) any {
			out := make([]T, len(events))
			for i, e := range events {
				out[i] = *field(e)
			}
			return out
		},
		dest: func(s *scanned) any { return field(&s.e) },
	}
}

// textValue is a number that is stored as its word.
type textValue interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

func word(name string, field func(*event.Event) textValue) column {
	return column{
		name: name, ddl: ddlWord,
		values: func(events []*event.Event) any {
			out := make([]string, len(events))
			for i, e := range events {
				b, _ := field(e).MarshalText() // words of ours: never an error
				out[i] = string(b)
			}
			return out
		},
		finish: func(s *scanned) error {
			if err := field(&s.e).UnmarshalText([]byte(s.text)); err != nil {
				return fmt.Errorf("column %s: %w", name, err)
			}
			return nil
		},
	}
}

// What DateTime64(9) can hold; no clock of ours is outside.
var (
	earliest = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	epoch    = time.Unix(0, 0).UTC()
)

func storedTime(t time.Time) time.Time {
	if t.Before(earliest) {
		return epoch
	}
	return t
}

// timeColumn stores the zero time as 1970, as the canonical form does. A time
// that the type cannot hold becomes that too, and verification will say so.
func timeColumn() column {
	return column{
		name: "time", ddl: "DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))",
		values: func(events []*event.Event) any {
			out := make([]time.Time, len(events))
			for i, e := range events {
				out[i] = storedTime(e.Time)
			}
			return out
		},
		dest: func(s *scanned) any { return &s.time },
	}
}

func chainColumn() column {
	return column{
		name: "chain", ddl: "FixedString(32) CODEC(NONE)",
		values: func(events []*event.Event) any {
			out := make([]string, len(events))
			for i, e := range events {
				out[i] = string(e.Chain[:])
			}
			return out
		},
		finish: func(s *scanned) error {
			if copy(s.e.Chain[:], s.text); len(s.text) != len(s.e.Chain) {
				return fmt.Errorf("column chain: %d bytes", len(s.text))
			}
			return nil
		},
	}
}

// columnNames are the names of all columns, for INSERT and SELECT; firstNames are
// for SELECT from a database of version 1, which nobody has written to since:
// what it lacks is zero.
var columnNames, firstNames = func() (all, first string) {
	names, old := make([]string, len(columns)), make([]string, len(columns))
	for i := range columns {
		c := &columns[i]
		names[i] = "`" + c.name + "`"
		if old[i] = names[i]; c.since > 1 {
			kind, _, _ := strings.Cut(c.ddl, " CODEC")
			old[i] = "defaultValueOfTypeName('" + kind + "')"
		}
	}
	return strings.Join(names, ", "), strings.Join(old, ", ")
}()

// newScanned makes a record to scan into, and the destinations for Scan.
func newScanned() (*scanned, []any) {
	s := &scanned{texts: make([]string, len(columns))}
	dest := make([]any, len(columns))
	for i := range columns {
		if columns[i].finish != nil {
			dest[i] = &s.texts[i]
		} else {
			dest[i] = columns[i].dest(s)
		}
	}
	return s, dest
}

// event is the record that was scanned; the next scan does not touch it.
func (s *scanned) event() (event.Event, error) {
	for i := range columns {
		if columns[i].finish == nil {
			continue
		}
		s.text = s.texts[i]
		if err := columns[i].finish(s); err != nil {
			return event.Event{}, fmt.Errorf("session %s seq %d: %w", s.e.Session, s.e.Seq, err)
		}
	}
	e := s.e
	if e.Time = s.time.UTC(); s.time.Equal(epoch) {
		e.Time = time.Time{}
	}
	own, next := lists(&e), lists(&s.e)
	for i := range own {
		*next[i] = nil // not shared with the next one
		if len(*own[i]) == 0 {
			*own[i] = nil
		}
	}
	return e, nil
}

// lists are the places of a record's lists.
func lists(e *event.Event) [5]*[]string {
	return [...]*[]string{&e.Task.Argv, &e.Interps, &e.InterpLines, &e.Alike, &e.Caller}
}

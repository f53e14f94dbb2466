package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/storagetest"
	"github.com/reeve-audit/reeve/tracer/event"
)

// older makes a file as a reeve made it whose version of it was 1 or 2, with these
// records, all of one session.
func older(t *testing.T, path string, version int, records []event.Event) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, m := range migrations[:version] {
		if _, err := db.Exec(m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		t.Fatal(err)
	}
	insertRows(t, db, version, records)
}

// insertRows is what Append was then.
func insertRows(t *testing.T, db *sql.DB, version int, records []event.Event) {
	t.Helper()
	var sum storage.Session
	for i := range records {
		sum.Add(&records[i])
	}
	var sid int64
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	err = tx.QueryRow(`INSERT INTO sessions (id, start_ns, end_ns, events, last_seq, requests, denied, asked, lost, ended)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING sid`, sum.ID, sum.Start.UnixNano(), sum.End.UnixNano(), sum.Events, sum.LastSeq,
		sum.Requests, sum.Denied, sum.Asked, 0, sum.Ended).Scan(&sid)
	if err != nil {
		t.Fatal(err)
	}
	r := row{args: make([]driver.NamedValue, 1+len(eventColumns))}
	for i := range records {
		r.bind(sid, &records[i])
		columns, args := "sid", []any{sid}
		for i, v := range r.args[1:] {
			if version < 2 && strings.Contains(" flags mode born interps interp_lines alike alike_len caller caller_len ", " "+eventColumns[i]+" ") {
				continue
			}
			columns, args = columns+", "+eventColumns[i], append(args, v.Value)
		}
		if _, err := tx.Exec(`INSERT INTO events (`+columns+`) VALUES (?`+strings.Repeat(", ?", len(args)-1)+`)`, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// firstKnew takes from records what the first reeve did not know, and chains them.
func firstKnew(t *testing.T, records []event.Event) []event.Event {
	t.Helper()
	chain := event.NewChain(records[0].Session)
	for i := range records {
		e := &records[i]
		e.Flags, e.Mode, e.Born, e.Interps, e.InterpLines = 0, 0, false, nil, nil
		e.Alike, e.Caller, e.AlikeLen, e.CallerLen = nil, nil, 0, 0
		if _, err := chain.Next(e); err != nil {
			t.Fatal(err)
		}
	}
	return records
}

func events(t *testing.T, s *Store, q storage.Query) (out []event.Event) {
	t.Helper()
	for e, err := range s.Events(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// TestOlderVersions opens files of older reeves: what they hold is read, verifies,
// is not stored again, and goes on in the form of today, also while an old reeve
// still writes.
func TestOlderVersions(t *testing.T) {
	for version := 1; version < len(migrations); version++ {
		all := storagetest.Records(t, "01O", 3000)
		if version == 1 {
			all = firstKnew(t, all)
		}
		path := filepath.Join(t.TempDir(), "reeve.db")
		older(t, path, version, all[:2500])
		s := open(t, path, Config{})
		if got := events(t, s, storage.Query{Session: "01O"}); !reflect.DeepEqual(got, all[:2500]) {
			t.Fatalf("version %d: %d records are read, not those of the file", version, len(got))
		}
		if err := s.Append(t.Context(), storagetest.Split(all[2400:2900], 70, 1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), storagetest.Split(all[2300:], 70, 1)); err != nil {
			t.Fatal(err)
		}
		db, err := s.open(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		old := storagetest.Records(t, "01P", 20)
		insertRows(t, db, 2, old) // the old reeve still runs
		for _, q := range []storage.Query{{}, {AfterSeq: 2450, Session: "01O"}, {Actions: []event.Action{event.ActionDeny}}, {Ops: []event.Op{event.OpOpen, event.OpExec}, Limit: 700}} {
			m, err := storage.NewMatcher(q)
			if err != nil {
				t.Fatal(err)
			}
			var want []event.Event
			for _, list := range [][]event.Event{all, old} {
				for i := range list {
					if m.Match(&list[i]) && (q.Limit == 0 || len(want) < q.Limit) {
						want = append(want, list[i])
					}
				}
			}
			if got := events(t, s, q); !reflect.DeepEqual(got, want) {
				t.Errorf("version %d, %+v: %d records, want %d", version, q, len(got), len(want))
			}
		}
		v, err := s.Session(t.Context(), "01O")
		if err != nil || v.Events != 3000 || v.LastSeq != 3000 || v.Engine != all[0].Engine || v.Detail != all[0].Detail {
			t.Errorf("version %d: summary %+v, %v", version, v, err)
		}
		if err := s.Remove(t.Context(), "01O"); err != nil {
			t.Fatal(err)
		}
		if got := events(t, s, storage.Query{}); !reflect.DeepEqual(got, old) {
			t.Errorf("version %d: after Remove there are %d records, want %d", version, len(got), len(old))
		}
	}
}

// TestAlteredTypes stores what never was in a column: the reader must say so
// and not stumble.
func TestAlteredTypes(t *testing.T) {
	for column, value := range map[string]string{
		"op": "300", "access": "-1", "task_pid": "1 << 40", "object_port": "65536", "object_own": "7",
		"chain": "x'00'", "task_argv": "'no JSON'", "task_argv_len": "'text'", "object_path": "x'ff00'",
		"boot_ns": "1.5",
	} {
		path := filepath.Join(t.TempDir(), "reeve.db")
		older(t, path, 2, storagetest.Records(t, "01X", 3))
		exec(t, path, `UPDATE events SET "`+column+`" = `+value+` WHERE seq = 2`)
		s := open(t, path, Config{})
		if storagetest.FirstBad(t, s, "01X") == 0 {
			t.Errorf("%s = %s was not noticed", column, value)
		}
	}
}

// What versions 1 and 2 did to store a record.

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

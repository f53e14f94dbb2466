package storagetest

import (
	"bufio"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// tamper alters every column of a stored record in turn, removes records, and
// wants the chain to name the place each time.
func (h Harness) tamper(t *testing.T) {
	columns := protoColumns(t)
	if len(columns) < 50 {
		t.Fatalf("only %d columns in event.proto", len(columns))
	}
	s := h.Open(t, "tamper")
	for _, column := range columns {
		id := "01T-" + column
		mustAppend(t, s, Split(Records(t, id, 5), 5, 1))
	}
	for _, column := range columns {
		id := "01T-" + column
		if first := FirstBad(t, s, id); first != 0 {
			t.Fatalf("%s: untouched records fail at %d", column, first)
		}
		h.Alter(t, "tamper", id, 3, column)
		if first := FirstBad(t, s, id); first != 3 {
			t.Errorf("%s of record 3 was altered, the first bad record is %d", column, first)
		}
	}
	mustAppend(t, s, Split(Records(t, "01T", 5), 5, 1))
	h.Drop(t, "tamper", "01T", 2)
	if first := FirstBad(t, s, "01T"); first != 3 {
		t.Errorf("record 2 was removed, the first bad record is %d", first)
	}
}

// FirstBad is the first record that does not verify, 0 when all do. A record
// that cannot be read any more counts as the one after the last that could.
func FirstBad(t *testing.T, s storage.Store, id string) uint64 {
	t.Helper()
	chain := event.NewChain(id)
	seq := uint64(0)
	for e, err := range s.Events(t.Context(), storage.Query{Session: id}) {
		seq++
		if err != nil {
			return seq
		}
		if chain.Verify(&e) != nil {
			return e.Seq
		}
	}
	return 0
}

var protoField = regexp.MustCompile(`^  (?:repeated )?\w+ (\w+) = \d+;`)

// Alter changes one field of a record, named as in event.proto.
func Alter(t *testing.T, e *event.Event, column string) {
	t.Helper()
	if column == "chain" {
		e.Chain[31]++
		return
	}
	v := reflect.ValueOf(e).Elem()
	name := column
	for prefix, field := range map[string]string{"task_": "Task", "object_": "Object", "target_": "Target"} {
		if rest, ok := strings.CutPrefix(column, prefix); ok {
			v, name = v.FieldByName(field), rest
		}
	}
	name = strings.ReplaceAll(name, "_", "")
	f := v.FieldByNameFunc(func(s string) bool {
		return strings.EqualFold(s, name) || strings.EqualFold(s, map[string]string{"timeunixns": "Time"}[name])
	})
	switch {
	case !f.IsValid():
		t.Fatalf("no field for %s", column)
	case f.Type() == reflect.TypeFor[time.Time]():
		f.Set(reflect.ValueOf(f.Interface().(time.Time).Add(1)))
	case f.Kind() == reflect.String:
		f.SetString(f.String() + "x")
	case f.Kind() == reflect.Slice:
		f.Set(reflect.ValueOf([]string{"other"}))
	case f.Kind() == reflect.Bool:
		f.SetBool(!f.Bool())
	case f.CanInt():
		f.SetInt(f.Int() ^ 1)
	default:
		f.SetUint(f.Uint() ^ 1)
	}
}

// protoColumns are the fields of message Event that are stored as columns: all
// but those that name the place.
func protoColumns(t *testing.T) []string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	f, err := os.Open(filepath.Join(filepath.Dir(here), "..", "..", "tracer", "event", "event.proto"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "message Batch") {
			break
		}
		if m := protoField.FindStringSubmatch(sc.Text()); m != nil {
			switch m[1] {
			case "v", "session", "seq":
			default:
				out = append(out, m[1])
			}
		}
	}
	return out
}

package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/storagetest"
	"github.com/reeve-audit/reeve/tracer/event"
)

func open(t testing.TB, path string, cfg Config) *Store {
	t.Helper()
	s, err := New(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// exec runs a statement on the file behind the store's back.
func exec(t *testing.T, path, query string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	res, err := db.Exec(query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%s: %d rows, %v", query, n, err)
	}
}

func TestSuite(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name, "reeve.db") }
	storagetest.Run(t, storagetest.Harness{
		Open: func(t *testing.T, name string) storage.Store { return open(t, file(name), Config{}) },
		Alter: func(t *testing.T, name, session string, seq uint64, column string) {
			rewrite(t, file(name), session, seq, func(e *event.Event) bool { storagetest.Alter(t, e, column); return true })
		},
		Drop: func(t *testing.T, name, session string, seq uint64) {
			rewrite(t, file(name), session, seq, func(*event.Event) bool { return false })
		},
	})
}

// rewrite changes one record, or leaves it out, as somebody would who knows how
// blocks are made: what is left of the block is well-formed.
func rewrite(t *testing.T, path, session string, seq uint64, change func(*event.Event) bool) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var rowid, sid int64
	var data []byte
	err = db.QueryRow(`SELECT b.rowid, b.sid, data FROM blocks b JOIN sessions USING (sid) WHERE id = ? AND first <= ? AND last >= ?`,
		session, seq, seq).Scan(&rowid, &sid, &data)
	if err != nil {
		t.Fatal(err)
	}
	var b event.Batch
	if err := decode(session, data, &b); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`DELETE FROM blocks WHERE rowid = ?`, rowid); err != nil {
		t.Fatal(err)
	}
	at := int(seq - b.First)
	parts := []event.Batch{{Session: session, First: b.First, Last: b.Last, Events: b.Events}}
	if !change(&b.Events[at]) {
		parts = []event.Batch{b.Part(0, at), b.Part(at+1, len(b.Events))}
	}
	for i := range parts {
		var k block
		if err := k.add(&parts[i]); err != nil {
			t.Fatal(err)
		}
		if k.len() == 0 {
			continue
		}
		_, data := k.pack(session, nil, nil)
		if _, err := db.Exec(`INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			sid, k.first, k.last, k.start, k.end, k.kinds, k.ops, k.actions, data); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLazyAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "reeve.db")
	s := open(t, path, Config{})
	if got, err := s.Sessions(t.Context(), 0); err != nil || got != nil {
		t.Fatalf("sessions of no file: %v, %v", got, err)
	}
	if err := s.Remove(t.Context(), "01X"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a question made the directory: %v", err)
	}
	if err := s.Append(t.Context(), storagetest.Split(storagetest.Records(t, "01X", 3), 3, 1)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		"": 0o700, "reeve.db": 0o600, "reeve.db-wal": 0o600, "reeve.db-shm": 0o600,
	} {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v; want %v", name, info.Mode().Perm(), err, want)
		}
	}
}

func TestNewerVersionAndGarbage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reeve.db")
	s := open(t, path, Config{})
	if err := s.Append(t.Context(), storagetest.Split(storagetest.Records(t, "01X", 3), 3, 1)); err != nil {
		t.Fatal(err)
	}
	db, err := s.open(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, path, Config{}).Sessions(t.Context(), 0); err == nil {
		t.Error("a newer file was read")
	}
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(garbage, []byte("this is no database, and long enough to be seen as none at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, garbage, Config{}).Sessions(t.Context(), 0); err == nil {
		t.Error("garbage was read")
	}
}

func TestBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reeve.db")
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(cfg Config, id string, n int) {
		t.Helper()
		cfg.Now = func() time.Time { return now }
		s := open(t, path, cfg)
		if err := s.Append(t.Context(), storagetest.Split(storagetest.Records(t, id, n), 512, 1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ids := func() []string {
		t.Helper()
		all, err := open(t, path, Config{}).Sessions(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range all {
			out = append(out, v.ID)
		}
		return out
	}
	for i := range 4 {
		write(Config{}, fmt.Sprintf("01A%d", i), 3000)
	}
	before := size(t, path)
	write(Config{MaxBytes: before / 2}, "01B", 10)
	if got := ids(); len(got) >= 4 || got[len(got)-1] != "01B" || got[0] == "01A0" {
		t.Errorf("after the bound of half the size: %v", got)
	}
	if after := size(t, path); after > before/2 {
		t.Errorf("the file has %d bytes, the bound is %d", after, before/2)
	}
	write(Config{MaxBytes: 1}, "01C", 10)
	if got := ids(); len(got) != 1 || got[0] != "01C" {
		t.Errorf("with a bound of nothing, the session that was written stays: %v", got)
	}
	now = now.Add(365 * 24 * time.Hour)
	write(Config{MaxAge: 30 * 24 * time.Hour}, "01D", 10)
	if got := ids(); len(got) != 1 || got[0] != "01D" {
		t.Errorf("after the bound of age: %v", got)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// BenchmarkShortSession opens, inserts 20 records and closes.
func BenchmarkShortSession(b *testing.B) {
	path := filepath.Join(b.TempDir(), "reeve.db")
	for i := 0; b.Loop(); i++ {
		s, err := New(path, Config{MaxAge: time.Hour * 24 * 365 * 10, MaxBytes: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Append(b.Context(), storagetest.Split(storagetest.Records(b, fmt.Sprintf("01%010d", i), 20), 20, 1)); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend reports the cost of a record in deliveries of 8192.
func BenchmarkAppend(b *testing.B) {
	path := filepath.Join(b.TempDir(), "reeve.db")
	s := open(b, path, Config{})
	records := storagetest.Typical("01X", 8192)
	n := 0
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("01%010d", i)
		for j := range records {
			records[j].Session = id
		}
		if err := s.Append(b.Context(), storagetest.Split(records, 512, 1)); err != nil {
			b.Fatal(err)
		}
		n += len(records)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/float64(n), "B/row")
}

// BenchmarkRead reads a session of 100,000 records.
func BenchmarkRead(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "reeve.db"), Config{})
	if err := s.Append(b.Context(), storagetest.Split(storagetest.Typical("01X", 100000), 512, 1)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		n := 0
		for _, err := range s.Events(b.Context(), storage.Query{Session: "01X"}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 100000 {
			b.Fatal(n)
		}
	}
}

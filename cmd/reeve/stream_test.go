package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/sqlite"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
)

// refuse makes a store that takes nothing for a while.
func refuse(t *testing.T, file string, d time.Duration) {
	t.Helper()
	store, err := sqlite.New(file, sqlite.Config{})
	if err == nil {
		err = errors.Join(store.Open(context.Background()), store.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err == nil {
		_, err = db.Exec("CREATE TRIGGER no BEFORE INSERT ON blocks BEGIN SELECT RAISE(ABORT, 'not now'); END")
	}
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(d, func() {
		_, err := db.Exec("DROP TRIGGER no")
		if err = errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestStream: every record of a session is stored once and in order, whether the
// session is over before it needs a bus or not, and also when the store does not
// take what is brought to it directly.
func TestStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		lives  time.Duration
		broken bool // for the first 300 ms the store takes nothing
		strict bool
		bus    bool // whether there is to be one
	}{
		{"brief", 0, false, false, false},
		{"brief, a store that does not take it", 0, true, false, true},
		{"brief and strict", 0, false, true, true},
		{"long", 4 * brief, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			db, bus := filepath.Join(dir, "reeve.db"), filepath.Join(dir, "bus")
			if c.broken {
				refuse(t, db, 300*time.Millisecond)
			}
			s, err := openStream(context.Background(), streamConfig{
				session: "01J00000000000000000000000", busDir: bus, storeURL: "sqlite://" + db, strict: c.strict,
				journal: tracer.Journal(dir), noteLoss: func(uint64) error { return nil }, log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			const records = 1300 // more than two messages
			for i := range records {
				if s.pub.Record(event.Event{Kind: event.KindRequest, Op: event.OpOpen, HoldNS: uint64(i)}); i == records/2 {
					s.connect()
					time.Sleep(c.lives)
				}
			}
			totals, stored, err := s.end()
			if err != nil || !stored || totals.Acked != records || (s.bus != nil) != c.bus {
				t.Errorf("stored %v, %+v, bus %v, %v", stored, totals, s.bus != nil, err)
			}
			if err := s.closed(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(bus); !os.IsNotExist(err) {
				t.Errorf("something is left of the bus: %v", err)
			}
			n := uint64(0)
			for e, err := range openedStore(t, db).Events(context.Background(), storage.Query{}) {
				if n++; err != nil || e.Seq != n || e.HoldNS != n-1 {
					t.Fatalf("record %d is seq %d, hold %d, %v", n, e.Seq, e.HoldNS, err)
				}
			}
			if n != records {
				t.Errorf("%d records are stored, want %d", n, records)
			}
		})
	}
}

func openedStore(t *testing.T, path string) storage.Store {
	t.Helper()
	st, err := openStore("sqlite://" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

package sqlite

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/reeve-audit/reeve/storage/storagetest"
)

// TestStrays: a session that was taken out of the list has its records still, in rows
// or in blocks, and those that are listed or were removed in order have none.
func TestStrays(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "reeve.db"), Config{})
	if sids, err := s.Strays(t.Context()); len(sids) > 0 || err != nil {
		t.Fatal("of no store at all", sids, err)
	}
	for _, id := range []string{"01A", "01B", "01C", "01D"} {
		if err := s.Append(t.Context(), storagetest.Split(storagetest.Typical(id, 20), 10, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), "01C"); err != nil {
		t.Fatal(err)
	}
	check := func(want ...int64) {
		t.Helper()
		if sids, err := s.Strays(t.Context()); !slices.Equal(sids, want) || err != nil {
			t.Errorf("%v, %v; want %v", sids, err, want)
		}
	}
	check()
	if _, err := s.conn.ExecContext(t.Context(), `DELETE FROM sessions WHERE id IN ('01A', '01D')`); err != nil {
		t.Fatal(err)
	}
	check(1, 4)
	if _, err := s.conn.ExecContext(t.Context(), `INSERT INTO events (sid, seq) VALUES (9, 1)`); err != nil {
		t.Fatal(err)
	}
	check(1, 4, 9)
}

package escapes_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestTamper: what was changed in the store's file, or taken from it, is found (E08).
// Package storagetest does it record by record.
func TestTamper(t *testing.T) {
	const last = "last = (SELECT max(last) FROM blocks)"
	for _, c := range []struct{ name, where, do string }{
		{"altered", last, "UPDATE blocks SET data = ? WHERE rowid = ?"},
		{"first deleted", "first = 1", "DELETE FROM blocks WHERE ? IS NOT NULL AND rowid = ?"},
		{"last deleted", last, "DELETE FROM blocks WHERE ? IS NOT NULL AND rowid = ?"},
	} {
		t.Run("E08/"+c.name, func(t *testing.T) {
			g := trial.NewGround(t, false)
			g.Supervised(trial.Options{}, "/bin/cat", "{secret}", "{ok}")
			if r := g.Verb("verify", "last"); r.Status != 0 {
				t.Fatalf("control: verify of an untouched session: status %d: %s", r.Status, r.Text())
			}
			tamper(t, g, c.where, c.do)
			if r := g.Verb("verify", "last"); r.Status == 0 {
				t.Errorf("verify says nothing: %s", r.Text())
			}
		})
	}
}

// tamper finds a block of records in the store's file and runs do with its content,
// a bit of which is another, and its place.
func tamper(t *testing.T, g *trial.Ground, where, do string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(g.State, "reeve.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var data []byte
	var row int64
	if err := db.QueryRow("SELECT data, rowid FROM blocks WHERE "+where).Scan(&data, &row); err != nil {
		t.Fatalf("find a block: %v", err)
	}
	data[len(data)/2] ^= 4
	r, err := db.Exec(do, data, row)
	if err != nil {
		t.Fatalf("tamper: %v", err)
	}
	if n, _ := r.RowsAffected(); n != 1 {
		t.Fatalf("control: %d blocks changed, want 1", n)
	}
}

// TestTamperBeside: what stands beside the records, and is in no chain, cannot say
// otherwise than they unnoticed: the store's summary, and the manifest.
func TestTamperBeside(t *testing.T) {
	summary := func(set string) func(*testing.T, *trial.Ground, string) {
		return func(t *testing.T, g *trial.Ground, _ string) {
			db, err := sql.Open("sqlite", filepath.Join(g.State, "reeve.db"))
			if err == nil {
				defer db.Close()
				_, err = db.Exec("UPDATE sessions SET " + set)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	manifest := func(edit func(text string) string) func(*testing.T, *trial.Ground, string) {
		return func(t *testing.T, g *trial.Ground, session string) {
			path := filepath.Join(g.State, "sessions", session, "manifest.json")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			edited := edit(string(text))
			if edited == string(text) {
				t.Fatal("control: nothing was changed")
			}
			writeFile(t, path, edited, 0o600)
		}
	}
	g := trial.NewGround(t, false)
	g.Supervised(trial.Options{NoEvents: true}, "/bin/sh", "-c", "cat .env")
	whole := func(t *testing.T) {
		if r := g.Verb("verify", "last"); r.Status != 0 {
			t.Fatalf("control: %s", r.Text())
		}
	}
	whole(t)
	session := g.Events("--session", "last")[0].Session
	kept := filepath.Join(g.State, "sessions", session, "manifest.json")
	was, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		do    func(*testing.T, *trial.Ground, string)
		undo  func(*testing.T, *trial.Ground, string)
		names string
	}{
		{"denied", summary("denied = denied - 1"), summary("denied = denied + 1"), "denied"},
		{"operations", summary("requests = requests - 1"), summary("requests = requests + 1"), "operations"},
		{"lost", summary("lost = 7"), summary("lost = 0"), "lost"},
		{"command", manifest(func(s string) string { return strings.ReplaceAll(s, "cat .env", "true") }), nil, `another "argv"`},
		{"profile", manifest(func(s string) string { return strings.ReplaceAll(s, "workspace-edit-no-net", "observe") }), nil, `another "profile"`},
		{"cut", manifest(func(s string) string { return s[:len(s)/2] }), nil, "cannot be read"},
		{"of another form", manifest(func(string) string { return `{"argv":7}` }), nil, "cannot be read"},
	} {
		t.Run("E11/"+c.name, func(t *testing.T) {
			c.do(t, g, session)
			r := g.Verb("verify", "last")
			if r.Status != 1 || !strings.Contains(r.Text(), c.names) {
				t.Errorf("verify ends with %d: %s", r.Status, r.Text())
			}
			if r := g.Verb("sessions", "show", "last"); r.Status != 0 || !strings.Contains(r.Stdout, "cat .env") || !strings.Contains(r.Stdout, "workspace-edit-no-net") {
				t.Errorf("sessions show: %s", r.Text())
			}
			if c.undo != nil {
				c.undo(t, g, session)
			}
			writeFile(t, kept, string(was), 0o600)
			whole(t)
		})
	}
}

// TestOwnState: reeve's state is nobody's business below it (E11), under every
// profile, the one that allows all included.
func TestOwnState(t *testing.T) {
	for _, profile := range []string{"", "observe"} {
		t.Run("E11/"+or(profile, "default"), func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				g.Supervised(trial.Options{}, "/bin/true")
				file := anyFile(t, g.State)
				script := "cat '" + file + "' > /dev/null; echo read $?; echo x >> '" + file + "'; echo write $?; " +
					"ls {state}; echo list $?; rm -f '" + file + "'; echo remove $?; mv {state} {base}/moved; echo move $?"
				o := trial.Options{Profile: profile}
				r := g.Supervised(o, "/bin/sh", "-c", script)
				for _, what := range []string{"read", "write", "remove", "move"} {
					if strings.Contains(r.Stdout, what+" 0\n") {
						t.Errorf("%s of %s passed: %s", what, file, r.Text())
					}
				}
				if _, err := os.Stat(file); err != nil {
					t.Errorf("the state was touched: %v", err)
				}
				if len(trial.Denials(r.Events)) < 3 {
					t.Errorf("%d denials, want one for each try", len(trial.Denials(r.Events)))
				}
			})
		})
	}
	// The control: without reeve, the same user removes it at will.
	g := trial.NewGround(t, false)
	g.Supervised(trial.Options{}, "/bin/true")
	if r := g.Native(trial.Options{}, append([]string{"{victim}"}, call(unix.SYS_UNLINK, "s:"+anyFile(t, g.State))...)...); r.Status != 0 {
		t.Fatalf("control: %s", r.Text())
	}
}

func anyFile(t *testing.T, dir string) string {
	t.Helper()
	var found string
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && found == "" {
			found = path
		}
		return nil
	})
	if found == "" {
		t.Fatalf("no file below %s", dir)
	}
	return found
}

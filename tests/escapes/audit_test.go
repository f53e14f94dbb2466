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

// TestTamper: a row that was changed or taken away is found (E08).
func TestTamper(t *testing.T) {
	for _, c := range []struct{ name, do string }{
		{"altered", "UPDATE %s SET action = 2 WHERE seq = 4"},
		{"deleted", "DELETE FROM %s WHERE seq = 4"},
		{"last deleted", "DELETE FROM %s WHERE seq = (SELECT max(seq) FROM %s)"},
	} {
		t.Run("E08/"+c.name, func(t *testing.T) {
			g := trial.NewGround(t, false)
			g.Supervised(trial.Options{}, "/bin/cat", "{secret}", "{ok}")
			if r := g.Verb("verify", "last"); r.Status != 0 {
				t.Fatalf("control: verify of an untouched session: status %d: %s", r.Status, r.Text())
			}
			tamper(t, g, c.do)
			if r := g.Verb("verify", "last"); r.Status == 0 {
				t.Errorf("verify says nothing: %s", r.Text())
			}
		})
	}
}

// tamper finds the store's table of events and runs do on it.
func tamper(t *testing.T, g *trial.Ground, do string) {
	t.Helper()
	var files []string
	filepath.WalkDir(g.State, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && isSQLite(path) {
			files = append(files, path)
		}
		return nil
	})
	for _, file := range files {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var table string
		err = db.QueryRow("SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'action'").Scan(&table)
		if err != nil {
			continue
		}
		r, err := db.Exec(strings.ReplaceAll(do, "%s", `"`+table+`"`))
		if err != nil {
			t.Fatalf("tamper with %s: %v", table, err)
		}
		if n, _ := r.RowsAffected(); n != 1 {
			t.Fatalf("control: %d rows changed, want 1", n)
		}
		return
	}
	t.Fatalf("no table of events in %v", files)
}

func isSQLite(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 15)
	n, _ := f.Read(head)
	return string(head[:n]) == "SQLite format 3"
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

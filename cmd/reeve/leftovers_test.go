package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/ring"
)

// TestBrokenLeftovers: a session of which nothing is stored, and whose leftovers
// cannot be read, has a beginning and says that something was lost; the next start
// fails for neither, and finds nothing more to do.
func TestBrokenLeftovers(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "no leftovers": strings.Repeat("x", 5000), "cut": "reeverg1\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x03\x00",
	} {
		t.Run(name, func(t *testing.T) {
			st, s := deadSession(t)
			file := filepath.Join(s.Dir, ring.LeftoversName)
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			// A journal that claims to know of more than there is.
			journal := tracer.Journal(s.Dir)
			if err := journal.Note(9, []event.Origin{{Ring: 1, To: 1 << 40}}); err != nil {
				t.Fatal(err)
			}
			store := openedStore(t, filepath.Join(st.Dir, "reeve.db"))
			for range 2 {
				var warned bytes.Buffer
				drain(context.Background(), &warned, st, store)
				if warned.Len() > 0 {
					t.Errorf("it says: %s", &warned)
				}
			}
			got := verified(t, store, s.ID)
			if len(got) != 2 || got[0].Op != event.OpStart || got[1].Kind != event.KindLost || !strings.Contains(got[1].Reason, "not whole") {
				t.Errorf("%d records are stored: %+v", len(got), got)
			}
			if _, err := os.Stat(file); !os.IsNotExist(err) {
				t.Errorf("the leftovers are still there: %v", err)
			}
		})
	}
}

// TestPlantedLeftovers: whatever is in the places of the files, and whatever else is
// gone, there is an end to it, and the same is not recorded again and again.
func TestPlantedLeftovers(t *testing.T) {
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	full := func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) }
	link := func(path string) error { return os.Symlink(os.DevNull, path) }
	empty := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	for name, c := range map[string]struct {
		rings, journal func(path string) error
		gone           string
		want           int
	}{
		"pipe": {rings: pipe, want: 2}, "directory": {rings: full, want: 2}, "link": {rings: link, want: 2},
		"journal is a pipe":      {rings: empty, journal: pipe, want: 2},
		"journal is a directory": {rings: empty, journal: full, want: 2},
		"journal is a link":      {rings: empty, journal: link, want: 2},
		"no stream":              {rings: empty, gone: "bus", want: 2},
		"no manifest":            {rings: empty, gone: "manifest.json", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			st, s := deadSession(t)
			err := c.rings(filepath.Join(s.Dir, ring.LeftoversName))
			if c.journal != nil {
				err = errors.Join(err, c.journal(filepath.Join(s.Dir, ring.JournalName)))
			}
			if c.gone != "" {
				// The scratch space is what tells that it did not end in order.
				err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, c.gone)), full(filepath.Join(s.Dir, "tmp")))
			}
			if err != nil {
				t.Fatal(err)
			}
			store := openedStore(t, filepath.Join(st.Dir, "reeve.db"))
			for range 2 {
				var warned bytes.Buffer
				drain(context.Background(), &warned, st, store)
				if warned.Len() > 0 {
					t.Errorf("it says: %s", &warned)
				}
			}
			if got := verified(t, store, s.ID); len(got) != c.want || got[len(got)-1].Kind != event.KindLost {
				t.Errorf("%d records are stored: %+v", len(got), got)
			}
			if tracer.HasLeftovers(s.Dir) {
				t.Error("the leftovers are still there")
			}
		})
	}
}

// deadSession is a session that nobody runs any more, and that recorded nothing.
func deadSession(t *testing.T) (*session.State, *session.Session) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	st, err := session.OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := st.Create(session.Config{Now: time.Now(), Random: rand.Reader, SystemTemp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	m := session.Manifest{Started: time.Now().UTC(), Argv: session.Texts([]string{"work"}), Engine: "lsm"}
	if err := errors.Join(s.WriteManifest(m), s.Close(false)); err != nil {
		t.Fatal(err)
	}
	return st, s
}

// verified are the records of a session in the store, whose chain is whole.
func verified(t *testing.T, store storage.Store, id string) (got []event.Event) {
	t.Helper()
	chain := event.NewChain(id)
	for e, err := range store.Events(context.Background(), storage.Query{Session: id}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := chain.Verify(&e); err != nil {
			t.Error(err)
		}
		if got = append(got, e); e.Seq != uint64(len(got)) {
			t.Fatalf("the %dth record has number %d", len(got), e.Seq)
		}
	}
	return got
}

// TestRecoveredOnce: a recovery that is interrupted when its records are on the bus
// is done again, and records nothing twice.
func TestRecoveredOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatal("REQUIRE=root, but this test needs root")
		}
		t.Skip("needs root: loads BPF programs")
	}
	st, s := deadSession(t)
	const opens, flow = 700, 3 // more than a message; the number of the ring of allowed operations
	j, err := lsm.NewJudge(&lsm.Rules{Planes: []lsm.Plane{{Need: event.AccessRead, Outcomes: []lsm.Outcome{{Read: event.ActionAllow}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.Ask(lsm.Question{Path: "/etc/passwd", Need: event.AccessRead, Times: opens, Record: true}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := ring.Save(int(dir.Fd()), []ring.Held{j.Held(flow)}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.Dir, ring.LeftoversName)
	leftBehind, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	store := openedStore(t, filepath.Join(st.Dir, "reeve.db"))
	recoverOnce(t, st, s.ID, store)
	if err := os.WriteFile(file, leftBehind, 0o600); err != nil { // as if it had not come so far
		t.Fatal(err)
	}
	var warned bytes.Buffer
	if drain(t.Context(), &warned, st, store); warned.Len() > 0 {
		t.Errorf("it says: %s", &warned)
	}
	got := verified(t, store, s.ID)
	if len(got) != 1+opens || got[0].Op != event.OpStart || got[opens].Object.Path != "/etc/passwd" || got[opens].Detail != tracer.Recovered {
		t.Errorf("%d records, want %d", len(got), 1+opens)
	}
}

// recoverOnce puts what is left of a session onto its bus.
func recoverOnce(t *testing.T, st *session.State, id string, store storage.Store) {
	t.Helper()
	claim, err := st.Claim(id)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.Open(t.Context(), bus.Config{Dir: claim.BusDir(), Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	err = leftovers{st, claim, b}.recover(t.Context(), store)
	if err := errors.Join(err, b.Close(), claim.Release()); err != nil {
		t.Fatal(err)
	}
}

package escapes_test

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/chserver"
	"github.com/reeve-audit/reeve/tests/trial"
)

// A broker is a NATS server beside reeve that can be killed and started again.
type broker struct {
	t       *testing.T
	program string
	dir     string
	port    int
	cmd     *exec.Cmd
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	kit := trial.Build(t)
	program, err := exec.LookPath("nats-server")
	if err != nil {
		program = filepath.Join(kit.Dir, "nats-server")
		if _, err := os.Stat(program); err != nil {
			out, err := exec.Command("go", "build", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput()
			if err != nil {
				trial.Skip(t, "nats", fmt.Sprintf("no nats-server to be had: %v: %s", err, out))
			}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := &broker{t: t, program: program, dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	t.Cleanup(b.kill)
	return b
}

func (b *broker) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", b.port) }

func (b *broker) start() {
	b.t.Helper()
	b.cmd = exec.Command(b.program, "-js", "-sd", b.dir, "-a", "127.0.0.1", "-p", fmt.Sprint(b.port))
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	up := waitFor(b.t, 10*time.Second, func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", b.port))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if !up {
		b.t.Fatal("nats-server does not listen")
	}
}

func (b *broker) kill() {
	if b.cmd != nil {
		syscall.Kill(b.cmd.Process.Pid, syscall.SIGKILL)
		b.cmd.Wait()
		b.cmd = nil
	}
}

// busy opens 2,000 files, waits a second, and does it again, three times.
const busy = "for i in 1 2 3; do ./victim loop open 2000 ok.txt; sleep 1; done"

// whole requires that a session's stream is there from 1 to its end, once.
func whole(t *testing.T, events []trial.Event, least int) {
	t.Helper()
	if len(events) < least {
		t.Errorf("%d records, want %d at least", len(events), least)
	}
	for i, e := range events {
		if e.Seq != uint64(i+1) {
			t.Fatalf("seq %d at place %d: a gap or a repetition", e.Seq, i+1)
		}
	}
	if n := len(events); n > 0 && events[n-1].Op != "end" {
		t.Errorf("the last record is %q, want the end of the session", events[n-1].Op)
	}
}

// TestBrokerDown: the server that records are forwarded to goes and comes back;
// what arrives there in the end is what is here (E04).
func TestBrokerDown(t *testing.T) {
	for _, c := range []struct {
		name       string
		up         bool // at the start
		during     bool // killed and started again during the run
		upForDrain bool
	}{{"never there until later", false, false, true}, {"killed and restarted", true, true, false}} {
		t.Run("E04/"+c.name, func(t *testing.T) {
			b, g := newBroker(t), trial.NewGround(t, false)
			o := trial.Options{Flags: []string{"--nats", b.url()}, NoEvents: true, Timeout: time.Minute}
			if c.up {
				b.start()
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if c.during {
					time.Sleep(700 * time.Millisecond)
					b.kill()
					time.Sleep(1500 * time.Millisecond)
					b.start()
				}
			}()
			r := g.Supervised(o, "/bin/sh", "-c", busy)
			if r.Status != 0 {
				t.Fatalf("the run: status %d: %s", r.Status, r.Text())
			}
			if said := strings.Contains(r.Stderr, "not all records are forwarded: connect to NATS"); said != c.upForDrain {
				t.Errorf("the run says: %s", r.Stderr)
			}
			<-done
			here := g.Events("--session", "last")
			whole(t, here, 6000)
			if c.upForDrain {
				b.start()
			}
			// The next start sends what is left of the last.
			if r := g.Supervised(o, "/bin/sleep", "2"); r.Status != 0 {
				t.Fatalf("the next run: %s", r.Text())
			}
			store := "sqlite://" + filepath.Join(g.Base, "collected.db")
			if r := g.Verb("collect", "--once", "--nats", b.url(), "--store", store); r.Status != 0 {
				t.Fatalf("collect: %s", r.Text())
			}
			there := g.Events("--store", store, "--session", here[0].Session)
			whole(t, there, 6000)
			if len(there) != len(here) {
				t.Errorf("%d records arrived, %d were made", len(there), len(here))
			}
		})
	}
}

// TestStoreDown: ClickHouse goes during a session, or was not there from the start,
// and comes back after it. The command is not held up, what was not stored is said
// with the reason, and each record is there once in the end (E05).
func TestStoreDown(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // the beginning; negative: before it
	}{{"killed", 700 * time.Millisecond}, {"never there until later", -1}} {
		t.Run("E05/"+c.name, func(t *testing.T) {
			ch := chserver.Start(t)
			g := trial.NewGround(t, false)
			o := trial.Options{Flags: []string{"--store", ch.URL("reeve")}, NoEvents: true, Timeout: 2 * time.Minute}
			if c.after < 0 {
				ch.Kill(t)
			} else {
				time.AfterFunc(c.after, func() { ch.Kill(t) })
			}
			r := g.Supervised(o, "/bin/sh", "-c", busy)
			if r.Status != 0 {
				t.Fatalf("the run: status %d: %s", r.Status, r.Text())
			}
			if !matches(`(?m)^reeve: not all records are stored: .*ClickHouse at 127\.0\.0\.1:\d+/reeve: .*(refused|reset|EOF)`, r.Stderr) {
				t.Errorf("the reason is not said: %s", r.Stderr)
			}
			ch.Restart(t)
			if r := g.Supervised(o, "/bin/true"); r.Status != 0 || r.Stderr != "" {
				t.Fatalf("the next run: %s", r.Text())
			}
			out := g.Verb("sessions", "ls", "--json", "--store", ch.URL("reeve"))
			sessions := trial.SessionIDs(out.Stdout)
			if len(sessions) != 2 {
				t.Fatalf("%d sessions in the store, want 2: %s", len(sessions), out.Text())
			}
			whole(t, g.Events("--store", ch.URL("reeve"), "--session", sessions[0]), 6000)
			storedOnce(t, g, ch, sessions[0])
		})
	}
}

// TestStoreUnusable: a store that can never take records is said at once, keeps no
// command waiting, and what it did not get is stored once it works.
func TestStoreUnusable(t *testing.T) {
	usual := trial.NewGround(t, false).Supervised(trial.Options{}, "/bin/sleep", "0.3").Took
	for _, c := range []struct {
		name, says string
		spoil      func(*testing.T, string)
	}{
		{"no database", "not a database", func(t *testing.T, file string) { writeFile(t, file, strings.Repeat("no database ", 1000), 0o600) }},
		{"a directory", "is a directory", func(t *testing.T, file string) {
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{"of a newer reeve", "use a newer reeve", func(t *testing.T, file string) { spoilTables(t, file, "PRAGMA user_version = 99") }},
		{"other tables", "has no column", func(t *testing.T, file string) {
			spoilTables(t, file, "CREATE TABLE sessions (id)", "CREATE TABLE events (sid)", "PRAGMA user_version = 2")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := trial.NewGround(t, false)
			file := filepath.Join(g.State, "reeve.db")
			c.spoil(t, file)
			var took time.Duration
			for _, argv := range [][]string{{"/bin/true"}, {"/bin/sleep", "0.3"}, {"/bin/sleep", "0.3"}} {
				began := time.Now()
				r := g.Command(trial.Options{}, argv...)
				cmd := exec.Command(r[0], r[1:]...)
				cmd.Env, cmd.Dir = g.Environ(), g.Workspace
				out, err := cmd.CombinedOutput()
				took = max(took, time.Since(began))
				if err != nil || strings.Count(string(out), "the store cannot be used") != 1 || !strings.Contains(string(out), c.says) {
					t.Errorf("%v, output %s", err, out)
				}
			}
			began := time.Now()
			verb := g.Verb("sessions")
			if !strings.Contains(verb.Stderr, c.says) {
				t.Errorf("sessions: %d %s", verb.Status, verb.Text())
			}
			// A store that may come back is waited for ten seconds at a session's end,
			// and twenty for what each one left.
			if took = max(took, time.Since(began)); took > usual+8*time.Second {
				t.Errorf("it was waited for: %v instead of %v", took, usual)
			}
			for _, suffix := range []string{"", "-wal", "-shm"} {
				_ = os.Remove(file + suffix)
			}
			if verb := g.Verb("sessions"); verb.Status != 0 || strings.Count(verb.Stdout, "ended") != 3 {
				t.Errorf("afterwards: %d %s", verb.Status, verb.Text())
			}
		})
	}
}

func spoilTables(t *testing.T, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
}

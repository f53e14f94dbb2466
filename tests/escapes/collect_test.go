package escapes_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/chserver"
	"github.com/reeve-audit/reeve/tests/trial"
)

// storedOnce requires that ClickHouse's table reeve.events holds a session's records
// once each, 1 to the last, without anybody having to merge them, and that their
// chain is whole. It returns how many there are.
func storedOnce(t *testing.T, g *trial.Ground, ch *chserver.Server, session string) (rows string) {
	t.Helper()
	numbers := strings.Fields(ch.Query(t, "SELECT count(), uniqExact(seq), max(seq) FROM reeve.events WHERE session = '"+session+"'"))
	if len(numbers) != 3 || numbers[0] != numbers[1] || numbers[1] != numbers[2] || numbers[0] == "0" {
		t.Errorf("rows, different numbers, last number: %v; want the same three times", numbers)
	}
	if r := g.Verb("verify", session, "--store", ch.URL("reeve")); r.Status != 0 {
		t.Errorf("verify: status %d: %s", r.Status, r.Text())
	}
	return numbers[0]
}

// TestCollectToClickHouse: a server of its own and `reeve collect` bring the records
// of a machine into ClickHouse. The store and, with REEVE_LONG, the server and the
// collector are killed on the way, each while records flow; every record is there
// once (E04). TestBrokerDown kills the server always.
func TestCollectToClickHouse(t *testing.T) {
	ch := chserver.Start(t)
	b, g := newBroker(t), trial.NewGround(t, false)
	b.start()
	line := []string{g.Reeve, "collect", "--nats", b.url(), "--store", ch.URL("reeve")}
	collector := start(t, g, line)
	collected := func() string {
		if out := ch.Query(t, "EXISTS reeve.events"); strings.TrimSpace(out) != "1" {
			return "0"
		}
		return strings.TrimSpace(ch.Query(t, "SELECT count() FROM reeve.events"))
	}
	kill := func(cmd *exec.Cmd) {
		_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()                                     // as killed
	}
	defer func() { kill(collector) }()

	o := trial.Options{Flags: []string{"--nats", b.url()}, NoEvents: true, KeepRunning: true, Timeout: 2 * time.Minute}
	ended := make(chan *trial.Result, 1)
	// Records flow until all have been killed.
	const script = `until test -e enough; do ./victim loop open 500 ok.txt > /dev/null; sleep 0.1; done`
	go func() { ended <- g.Supervised(o, "/bin/sh", "-c", script) }()

	more := func(when string) {
		t.Helper()
		was := collected()
		if !waitFor(t, 30*time.Second, func() bool { return collected() != was }) {
			t.Fatalf("%s: nothing arrives; %s rows", when, was)
		}
		t.Logf("%s: %s rows", when, collected())
	}
	more("at the start")
	// What a killed collector had fetched, and acks that a killed server had not
	// written, mean a minute's wait.
	long := os.Getenv("REEVE_LONG") != ""
	if long {
		b.kill()
		time.Sleep(700 * time.Millisecond)
		b.start()
		more("after the server was killed")
		kill(collector)
		collector = start(t, g, line)
		more("after the collector was killed")
	}
	ch.Kill(t)
	time.Sleep(300 * time.Millisecond)
	ch.Restart(t)
	more("after the store was killed")
	writeFile(t, g.Expand("{ws}/enough"), "", 0o644)
	if r := <-ended; r.Status != 0 {
		t.Fatalf("the run: status %d: %s", r.Status, r.Text())
	}
	here := g.Events("--session", "last")
	if !long && !waitFor(t, 30*time.Second, func() bool { return collected() == fmt.Sprint(len(here)) }) {
		t.Errorf("the collector stored %s of %d records", collected(), len(here))
	}
	kill(collector)
	if r := g.Verb("collect", "--once", "--nats", b.url(), "--store", ch.URL("reeve")); r.Status != 0 {
		t.Fatalf("collect --once: %s", r.Text())
	}
	whole(t, here, 1500)
	if rows := storedOnce(t, g, ch, here[0].Session); rows != fmt.Sprint(len(here)) {
		t.Errorf("%s rows, %d records were made", rows, len(here))
	}
	t.Logf("%d records", len(here))
}

// TestTooManyParts: ClickHouse refuses inserts since it has not merged the last ones
// (error 252). Records are kept, and stored when it is over, during the session or
// after it (E05).
func TestTooManyParts(t *testing.T) {
	const table = "ALTER TABLE reeve.events "
	for _, c := range []struct {
		name   string
		during bool
	}{{"over during the session", true}, {"over after it", false}} {
		t.Run("E05/"+c.name, func(t *testing.T) {
			ch := chserver.Start(t)
			g := trial.NewGround(t, false)
			o := trial.Options{Flags: []string{"--store", ch.URL("reeve")}, NoEvents: true, Timeout: 2 * time.Minute}
			if r := g.Supervised(o, "/bin/true"); r.Status != 0 { // makes the table
				t.Fatalf("the first run: %s", r.Text())
			}
			ch.Query(t, "SYSTEM STOP MERGES reeve.events")
			ch.Query(t, table+"MODIFY SETTING parts_to_throw_insert = 1")
			if c.during {
				over := make(chan struct{})
				defer func() { <-over }()
				go func() {
					defer close(over)
					time.Sleep(2 * time.Second)
					ch.Query(t, table+"RESET SETTING parts_to_throw_insert")
				}()
			}
			r := g.Supervised(o, "/bin/sh", "-c", busy)
			if r.Status != 0 {
				t.Fatalf("the run: status %d: %s", r.Status, r.Text())
			}
			if said := matches(`not all records are stored: .*252.*Too many parts`, r.Stderr); said == c.during {
				t.Errorf("the run says: %s", r.Stderr)
			}
			refused := strings.TrimSpace(ch.Query(t, "SELECT value FROM system.errors WHERE name = 'TOO_MANY_PARTS'"))
			if refused == "" || refused == "0" {
				t.Fatal("control: nothing was refused")
			}
			if !c.during {
				ch.Query(t, table+"RESET SETTING parts_to_throw_insert")
				if r := g.Supervised(o, "/bin/true"); r.Status != 0 || r.Stderr != "" {
					t.Fatalf("the next run: %s", r.Text())
				}
			}
			sessions := trial.SessionIDs(g.Verb("sessions", "ls", "--json", "--store", ch.URL("reeve")).Stdout)
			if len(sessions) < 2 {
				t.Fatalf("sessions in the store: %v", sessions)
			}
			whole(t, g.Events("--store", ch.URL("reeve"), "--session", sessions[1]), 6000)
			storedOnce(t, g, ch, sessions[1])
			t.Logf("%s inserts were refused", refused)
		})
	}
}

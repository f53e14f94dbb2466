package escapes_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/tests/trial"
)

// pendingFor is how long the question of TestAskHoldsNobodyElse waits.
const pendingFor = 60 * time.Second

// builder is a session that builds when it is told to.
type builder struct {
	g     *trial.Ground
	in    io.WriteCloser
	lines chan string
	cmd   *exec.Cmd
}

// newBuilder starts a session that runs first, and then builds once for each line.
func newBuilder(t *testing.T, nobody bool, first string) *builder {
	t.Helper()
	g, o := askGround(t, nobody)
	makefile := "all: $(addprefix t,$(shell seq 40))\nt%:\n\t@sh -c 'cat ok.txt > $@; wc -l < $@ > $@.n; rm $@'\n"
	writeFile(t, g.Workspace+"/Makefile", makefile, 0o644)
	o.Flags[len(o.Flags)-1] = pendingFor.String()
	line := g.Command(o, "sh", "-c", first+` while read -r _; do rm -f t*.n; make -s -j8; echo built $(ls t*.n | wc -l); done; wait`)
	b := &builder{g: g, lines: make(chan string), cmd: exec.Command(line[0], line[1:]...)}
	b.cmd.Dir, b.cmd.Env = g.Workspace, g.Environ()
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: g.Cred}
	b.cmd.Stderr = os.Stderr
	var err error
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.cmd.Process.Kill(); _ = b.cmd.Wait() })
	go func() {
		defer close(b.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			b.lines <- s.Text()
		}
	}()
	return b
}

// next is the next line that the session says.
func (b *builder) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-b.lines:
		return line
	case <-time.After(trial.Patience(2 * time.Minute)):
		t.Fatal("the session says nothing: is it held?")
	}
	return ""
}

// build builds once, and says how long it took.
func (b *builder) build(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := io.WriteString(b.in, "build\n"); err != nil {
		t.Fatal(err)
	}
	if line := b.next(t); line != "built 40" {
		t.Fatalf("%q", line)
	}
	return time.Since(began)
}

// TestAskHoldsNobodyElse: while a question waits for a minute make -j8 runs beside
// it again and again, and takes no longer than in a session that asks nothing; then
// the deadline answers with no (K18). Both build in turn, so that what else the
// machine does slows both.
func TestAskHoldsNobodyElse(t *testing.T) {
	trial.NeedProgram(t, "make")
	tiers(t, false, func(t *testing.T, nobody bool) {
		t.Parallel()
		asking := newBuilder(t, nobody, `(cat slow && echo read || echo denied) &`)
		plain := newBuilder(t, nobody, "")
		asking.pending(t)
		began := time.Now()
		plain.build(t)
		asking.build(t) // what is read for the first time counts for nobody
		var with, without []time.Duration
		for time.Since(began) < pendingFor-10*time.Second || len(with) < 3 {
			without = append(without, plain.build(t))
			with = append(with, asking.build(t))
			time.Sleep(100 * time.Millisecond)
		}
		if asking.pending(t); time.Since(began) > pendingFor {
			t.Fatalf("%d builds took longer than the question waits", len(with))
		}
		if line := asking.next(t); line != "denied" {
			t.Errorf("the question ended with %q", line)
		}
		slices.Sort(with)
		slices.Sort(without)
		a, b := with[len(with)/2], without[len(without)/2]
		t.Logf("%d builds each: median %v beside a question, %v without", len(with), a, b)
		if a > b*3/2 {
			t.Errorf("builds take %v beside a question and %v without", a, b)
		}
		asking.in.Close()
		plain.in.Close()
		if err := asking.cmd.Wait(); err != nil {
			t.Error(err)
		}
		events := asking.g.Events("--session", "last")
		trial.OneDenial(t, events, trial.Denial{Ops: []string{"open"}, Path: asking.g.Workspace + "/slow"})
		for _, e := range events {
			var r approval.Record
			if e.Op == "answer" && (json.Unmarshal([]byte(e.Detail), &r) != nil || time.Duration(r.AfterNS) < pendingFor || !strings.Contains(e.By, "deadline")) {
				t.Errorf("answer %v %s", &e, e.Detail)
			}
		}
	})
}

// pending waits until the session's question is listed.
func (b *builder) pending(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(trial.Patience(30 * time.Second)); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(b.g.Verb("asks").Stdout, b.g.Workspace+"/slow") {
			return
		}
	}
	t.Fatal("nothing is asked")
}

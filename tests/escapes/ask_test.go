package escapes_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// askPolicy denies a directory but for a file of it that asks.
const askPolicy = `
[permissions.ask]
extends = ":workspace"
[permissions.ask.filesystem.":workspace_roots"]
"." = "write"
"d" = "deny"
"d/ask" = "ask"
"slow" = "ask"
`

// askGround has a policy that asks, and files to ask about.
func askGround(t *testing.T, nobody bool) (*trial.Ground, trial.Options) {
	t.Helper()
	g := trial.NewGround(t, nobody)
	if err := os.Mkdir(g.Workspace+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"../ask.toml": askPolicy, "d/ask": "asked\n", "d/f": "TOKEN=" + g.Token + "\n", "slow": "slow\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(g.Workspace, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"--policy", filepath.Join(g.Base, "ask.toml"), "--profile", "ask", "--ask", "control", "--ask-timeout", "30s"}
	return g, trial.Options{Flags: flags}
}

func allow(trial.Question) []string { return []string{"allow"} }

// TestAskOnceIsExact: a yes to one file in a denied directory opens that file and
// nothing beside it, also when a thread flips the path meanwhile.
func TestAskOnceIsExact(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g, o := askGround(t, nobody)
		a := g.Approve(allow)
		r := g.Supervised(o, "sh", "-c", "cat d/ask; cat d/f; cat d/ask")
		a.Stop()
		if r.Stdout != "asked\nasked\n" {
			t.Errorf("got %q %q", r.Stdout, r.Stderr)
		}
		asked, _ := a.Asked()
		if len(asked) != 2 {
			t.Errorf("asked %d times, expected for each of two opens: once is once", len(asked))
		}
		g.KeptSecret(r)
		trial.OneDenial(t, r.Events, trial.Denial{Ops: []string{"open"}, Path: g.Workspace + "/d/f"})

		g, o = askGround(t, nobody)
		flip := []string{"{victim}", "flip-thread", attempts, "d/ask", "d/f"}
		trial.Won(t, "control: the denied side is reached", trial.ControlAttempts(300_000), func(n string) (bool, *trial.Result) {
			r := g.Native(trial.Options{}, raced(flip, n)...)
			return won(r), r
		})
		a = g.Approve(allow)
		o.Timeout = 3 * time.Minute
		trial.Won(t, "a flip is asked about", 30, func(n string) (bool, *trial.Result) {
			r = g.Supervised(o, raced(flip, n)...)
			if !strings.Contains(r.Stdout, "attempts=") || !strings.Contains(r.Stdout, "reached=0") {
				t.Fatalf("flipping: %q %q", r.Stdout, r.Stderr)
			}
			asked, _ := a.Asked()
			return len(asked) > 0, r
		})
		a.Stop()
		g.KeptSecret(r)
	})
}

// TestAskShows: what an approver sees is the resolved object, with the whole line
// of processes, whatever names the command chose.
func TestAskShows(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g, o := askGround(t, nobody)
		var listed string
		a := g.Approve(func(trial.Question) []string {
			listed = g.Verb("asks").Stdout
			return []string{"deny", "--reason", "not \x1b[2J today"}
		})
		r := g.Supervised(o, "bash", "-c", `ln -s d/ask $'link\e]0;pwned\a'; exec -a $'cat\e[31m' cat $'./link\e]0;pwned\a'`)
		a.Stop()
		asked, _ := a.Asked()
		if r.Status != 1 || len(asked) != 1 {
			t.Fatalf("status %d after %d questions: %s", r.Status, len(asked), r.Text())
		}
		q := asked[0]
		if q.Operation.Object.Path != g.Workspace+"/d/ask" || len(q.Ancestry) != 1 || q.Operation.Task.Exe != q.Ancestry[0].Task.Exe {
			t.Errorf("question %+v", q)
		}
		if strings.ContainsAny(listed, "\x1b\a") || !strings.Contains(listed, `pwned`) || !strings.Contains(listed, g.Workspace+"/d/ask") {
			t.Errorf("shown: %q", listed)
		}
		var talk []string
		for _, e := range r.Events {
			if e.Op == "ask" || e.Op == "answer" {
				talk = append(talk, e.Op+" "+e.Action)
			}
			if e.Op == "answer" && (!strings.Contains(e.By, "approver:") || e.Reason != "not \x1b[2J today") {
				t.Errorf("answer %+v", e)
			}
		}
		if strings.Join(talk, ",") != "ask ask,answer deny" {
			t.Errorf("recorded: %v", talk)
		}
	})
}

// TestAskedTaskGone: a task that is killed closes its question, and its number
// in another task's use gets nobody the answer (K05).
func TestAskedTaskGone(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g, o := askGround(t, nobody)
		var late string
		a := g.Approve(func(q trial.Question) []string {
			deadline := time.Now().Add(20 * time.Second)
			for time.Now().Before(deadline) { // until it is not asked any more
				if late = g.Verb("asks", "--json").Stdout; !strings.Contains(late, q.ID) {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			return []string{"allow"}
		})
		r := g.Supervised(o, "bash", "-c", `cat slow & p=$!; sleep 1; kill -9 $p; wait $p; i=0; while [ $i -lt 300 ]; do (:); i=$((i+1)); done; sleep 1; echo over`)
		a.Stop()
		_, said := a.Asked()
		if r.Stdout != "over\n" || len(said) != 1 {
			t.Errorf("got %q %v", r.Stdout, said)
		}
		for _, text := range said {
			if !strings.Contains(text, "is answered already: denied") && !strings.Contains(text, "no such question") {
				t.Errorf("a late answer was told %q", text)
			}
		}
		for _, e := range r.Events {
			if e.Op == "answer" && (e.Action != "deny" || !strings.Contains(e.Reason, "withdrawn")) {
				t.Errorf("answer %v", &e)
			}
			if e.Op == "open" && strings.HasSuffix(e.Object.Path, "/slow") {
				t.Errorf("a dead task's open was recorded as done: %v", &e)
			}
		}
	})
}

// TestAskStopped: a task that is stopped and continued while it is asked about
// asks again, and an answer to the old question is not used (K13).
func TestAskStopped(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g, o := askGround(t, nobody)
		n := 0
		a := g.Approve(func(trial.Question) []string {
			if n++; n == 1 {
				return nil
			}
			return []string{"allow"}
		})
		r := g.Supervised(o, "bash", "-c", `cat slow & p=$!; sleep 1; kill -STOP $p; sleep 1; grep -q 'State:.T' /proc/$p/status && echo stopped; kill -CONT $p; wait $p; echo $?`)
		a.Stop()
		if asked, _ := a.Asked(); r.Stdout != "stopped\nslow\n0\n" || len(asked) != 2 {
			t.Errorf("asked %d times: %s", len(asked), r.Text())
		}
	})
}

// TestNobodyToAsk: without an approver what asks is denied at once.
func TestNobodyToAsk(t *testing.T) {
	g, o := askGround(t, false)
	o.Flags = append(o.Flags[:len(o.Flags)-4], "--ask", "deny")
	r := g.Supervised(o, "cat", "slow")
	if r.Status != 1 || r.Took > 20*time.Second {
		t.Errorf("status %d after %v", r.Status, r.Took)
	}
	trial.OneDenial(t, r.Events, trial.Denial{Ops: []string{"open"}, Path: g.Workspace + "/slow"})
}

// TestAskNested: an inner session's question comes to the outer one's approver,
// with the reeve inside in its line.
func TestAskNested(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g, o := askGround(t, nobody)
		if err := os.Link(g.Reeve, g.Workspace+"/reeve"); err != nil {
			t.Fatal(err)
		}
		a := g.Approve(allow)
		r := g.Supervised(o, "sh", "-c", `./reeve run -q --profile read-only -- sh -c 'cat slow; true'`)
		a.Stop()
		asked, _ := a.Asked()
		if r.Stdout != "slow\n" || len(asked) != 1 {
			t.Fatalf("asked %d times: %s", len(asked), r.Text())
		}
		var line []string
		for _, t := range asked[0].Ancestry {
			line = append(line, filepath.Base(t.Task.Exe))
		}
		if got := strings.Join(line, " "); !regexp.MustCompile(`^(da)?sh reeve (da)?sh cat$`).MatchString(got) {
			t.Errorf("ancestry %s", got)
		}
	})
}

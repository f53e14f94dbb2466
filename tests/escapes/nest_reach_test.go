package escapes_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// What an inner session would reach that is not its own: the reeve that began it,
// and the end of its own record.

// plainly is inside without any reeve: $R only starts the command.
func plainly(t *testing.T, g *trial.Ground, script string) *trial.Result {
	t.Helper()
	own := g.Workspace + "/plain"
	text := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\n\"$@\"\nexit $?\n"
	if err := os.WriteFile(own, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return g.Native(trial.Options{Env: []string{"R=" + own}}, "bash", "-c", script)
}

// TestNestedLeavesItsClient: the reeve that began the session is the outer one's,
// to look into and to change.
func TestNestedLeavesItsClient(t *testing.T) {
	const script = `
		OUTERS=word $R run -q -- bash -c 'unset OUTERS
			{ for i in $(seq 0 9); do cat /proc/$((PPID + i))/environ; done; cat /proc/$PPID/task/$PPID/environ; } 2>/dev/null | tr "\0" "\n" | grep -q OUTERS && echo read
			cat /proc/$PPID/maps >/dev/null && echo mapped
			cat < /proc/$PPID/fd/9 && echo opened' 9<ok.txt
		$R run -q -- {victim} limits parent`
	tiers(t, false, func(t *testing.T, nobody bool) {
		c, g := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
		r := plainly(t, c, script)
		match(t, "control", `read\nmapped\nordinary\nopened\n`+limitsPass, r)
		r, events := inside(t, g, trial.Options{}, script)
		if matches(`read|mapped|ordinary|opened`, r.Stdout) {
			t.Errorf("the client was looked into: %s", r.Text())
		}
		match(t, "reeve", limitsHeld, r)
		trial.SomeDenial(t, events, trial.Denial{Ops: []string{"sched"}, Errno: "EPERM"})
		r, _ = inside(t, g, trial.Options{}, `
			$R run -q -- sh -c ': > up; sleep 60' & p=$!; for i in $(seq 300); do [ -e up ] && break; sleep 0.1; done
			cat /proc/$p/environ >/dev/null && echo seen; kill $p`)
		match(t, "the outer session", `seen\n`, r)
	})
}

// TestNestedEndsByItsClient: no task of a session ends its record.
func TestNestedEndsByItsClient(t *testing.T) {
	end := fmt.Sprintf(`{victim} call %d 0x72656576 2 's:{"status":0}' 12`, unix.SYS_PRCTL)
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r, events := inside(t, g, trial.Options{}, end+`; $R run -q --profile read-only -- bash -c '`+strings.ReplaceAll(end, "'", `'"'"'`)+`; echo x > inner; exit 7'; echo "status $?"`)
		if strings.Count(r.Stdout, "ret=-1 errno=1") != 2 || !strings.Contains(r.Stdout, "status 7\n") || strings.Contains(r.Stderr, "ended already") {
			t.Errorf("status %d: %s", r.Status, r.Text())
		}
		trial.SomeDenial(t, events, trial.Denial{Ops: []string{"create"}, Path: g.Workspace + "/inner"})
		denied, ended := 0, false
		for _, e := range events {
			if e.Op == "nest" && e.Action == "deny" && e.Errno == "EPERM" && e.Reason != "" {
				denied++
			}
			ended = ended || e.Op == "end" && e.Exit == 7
		}
		if denied != 2 || !ended {
			t.Errorf("%d ends are recorded as denied; its own end is recorded: %v", denied, ended)
		}
	})
}

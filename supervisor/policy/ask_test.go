package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

const askText = `
[permissions.q]
extends = ":workspace"
[permissions.q.filesystem]
"/srv" = "ask-write"
"/srv/in" = "ask"
"/usr/src" = "ask"
"/home/u/data" = "deny"
[permissions.q.filesystem.":workspace_roots"]
"src" = "ask-write"
"x" = "ask"
"node_modules" = "ask"
"node_modules/src" = "deny"
[permissions.q.exec]
"/usr/bin/x" = "ask"
`

// yesText is askText, and all protected configuration, after yes was said to
// everything.
const yesText = `
[permissions.q]
extends = ":workspace"
[permissions.q.filesystem]
"/srv" = "write"
"/srv/in" = "write"
"/usr/src" = "write"
"/home/u/data" = "deny"
[permissions.q.filesystem.":workspace_roots"]
"src" = "write"
"x" = "write"
"node_modules" = "write"
"node_modules/src" = "deny"
[permissions.q.protected.":workspace_roots"]
"**/.github" = "write"
"**/hooks" = "write"
"**/config" = "write"
"**/config.lock" = "write"
"**/.claude" = "write"
`

// TestAskMeansNothingElseDenies: a question is asked only about what nothing
// denies, so that a yes to it may let the whole operation pass; and what is
// asked is what the policy would allow if the answer were always yes.
func TestAskMeansNothingElseDenies(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	p, yes := load(t, "q", source(Session, askText)), load(t, "q", source(Session, yesText))
	asked := map[event.Op]int{}
	for range 60000 {
		req := randomRequest(r)
		if p.Decide(req).Action != event.ActionAsk {
			continue
		}
		asked[req.Op]++
		if d := yes.Decide(req); d.Action != event.ActionAllow && d.Action != event.ActionAsk && !widensElsewhere(d) {
			t.Fatalf("asks about %v %q %q (%v, born %v), which is denied after all: %+v", req.Op, req.Object.Path, req.Target.Path, req.Object.Kind, req.Born, d)
		}
	}
	for _, op := range []event.Op{event.OpOpen, event.OpDelete, event.OpRename, event.OpMkdir, event.OpChmod, event.OpExec} {
		if asked[op] == 0 {
			t.Errorf("no %v was asked about", op)
		}
	}
	t.Log(asked)
}

// widensElsewhere: where everything is allowed a new name of what is still denied
// below would widen more than where it asks.
func widensElsewhere(d event.Decision) bool {
	return d.Reason == reasonTree || d.Reason == reasonWidens || d.Reason == reasonPlants
}

package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// recordOf is the record of a request as a gate makes it: it looks at the
// repository if the policy asks, and refuses content if it is told to look at it.
func recordOf(p *Policy, req event.Request, born bool, content event.Action) event.Event {
	req.Born = false
	d := p.Decide(&req)
	if d.AskBorn && born {
		req.Born = true
		d = p.Decide(&req)
	}
	e := event.Event{
		Kind: event.KindRequest, Action: d.Action, Rule: d.Rule, Reason: d.Reason, By: d.By, Errno: d.Errno,
	}
	e.SetRequest(&req)
	if d.AskContent && content == event.ActionAllow {
		e.Action, e.Rule, e.Reason = content, "git tracking", "changes only what branches follow"
	}
	if d.GuardContent && content != event.ActionAllow {
		e.Action, e.Reason = content, "line 1 of config: core.hookspath"
	}
	return e
}

// TestReconsideredBySelf: what a policy decided it decides again.
func TestReconsideredBySelf(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	asks := source(Session, "[permissions.s]\nextends = \":workspace\"\n[permissions.s.filesystem]\n\"~/data\" = \"ask\"\n\"/etc\" = \"ask-write\"\n[permissions.s.exec]\n\"/usr/**\" = \"ask\"\n")
	counts := map[event.Action]int{}
	guarded := 0
	for _, p := range []*Policy{load(t, ""), load(t, "read-only"), load(t, "privileged-manual"), load(t, "observe"), load(t, "s", asks)} {
		for range 4000 {
			req := *randomRequest(r)
			req.Flags, req.Mode = uint64(r.IntN(4)), uint32(r.IntN(1<<13))
			if r.IntN(50) == 0 { // git's own way of writing its settings
				req = *ask("write /home/u/ws/.git/config.lock")
				req.Op, req.Target = event.OpRename, event.Object{Kind: event.ObjectFile, Path: "/home/u/ws/.git/config"}
				req.Flags, req.Object.Own = 0, r.IntN(2) == 0
			}
			content := event.ActionAllow
			if r.IntN(2) == 0 {
				content = event.ActionDeny
			}
			e := recordOf(p, req, r.IntN(2) == 0, content)
			if e.Action != p.Decide(&req).Action && e.Op == event.OpRename {
				guarded++
			}
			got := NewReview(Stack{p}, Stack{p}).Reconsider(&e)
			if !got.Asked || got.Open != "" || got.From != got.To {
				t.Fatalf("%s: %+v\nreconsidered as %+v", p.Name(), e, got)
			}
			counts[got.From]++
		}
	}
	for _, a := range []event.Action{event.ActionAllow, event.ActionAsk, event.ActionDeny} {
		if counts[a] < 100 {
			t.Errorf("%d requests were %s: the test shows little", counts[a], a)
		}
	}
	if guarded == 0 {
		t.Error("no content was refused: the test shows nothing about it")
	}
}

func TestReconsiderByAnother(t *testing.T) {
	own, narrow, wide := load(t, ""), load(t, "read-only"), load(t, "observe")
	manual := load(t, "privileged-manual")
	record := func(p *Policy, text string) event.Event { return recordOf(p, *ask(text), false, event.ActionAllow) }
	rename := *ask("write /home/u/ws/.git/config.lock")
	rename.Op, rename.Target = event.OpRename, event.Object{Kind: event.ObjectFile, Path: "/home/u/ws/.git/config"}
	tracking := rename
	tracking.Object.Own = true
	script := *ask("exec /home/u/ws/s")
	script.Interps = []event.Interp{{Path: "/home/u/.hidden/sh", Line: "/home/u/.hidden/sh"}}
	gate := event.Event{Kind: event.KindRequest, Op: event.OpUnknown, Action: event.ActionDeny, By: "gate", Reason: "no"}
	approved := record(manual, "write /opt/x")
	approved.Action, approved.By, approved.Reason = event.ActionAllow, "approver:root on the terminal", "go on"
	unanswered := record(manual, "write /opt/x")
	unanswered.Action, unanswered.Reason = event.ActionDeny, "asked for; asks, and there is nobody to ask"
	late := record(own, "read /usr/bin/ls")
	late.Action, late.Reason = event.ActionDeny, "altered"
	for _, tc := range []struct {
		name       string
		e          event.Event
		own, other *Policy
		want       string
	}{
		{"allow to deny", record(own, "write /home/u/ws/x"), own, narrow, "allow -> deny"},
		{"deny to allow", record(own, "read /opt/x"), own, wide, "deny -> allow"},
		{"deny to ask", record(own, "write /opt/x"), own, manual, "deny -> ask"},
		{"ask to deny, without approvals", record(manual, "write /opt/x"), manual, own, "ask -> deny"},
		{"ask to deny, answered", approved, manual, own, "ask -> deny"},
		{"ask to deny, unanswered", unanswered, manual, own, "ask -> deny"},
		{"asked again", approved, manual, manual, "ask -> ask"},
		{"a fact", event.Event{Kind: event.KindFact, Op: event.OpExec, By: "witness", Action: event.ActionAllow}, own, narrow, ""},
		{"a failure of its own", event.Event{Kind: event.KindRequest, Op: event.OpOpen, By: "kernel", Action: event.ActionAllow, Errno: 2}, own, narrow, ""},
		{"the gate's refusal", gate, own, narrow, ""},
		{"the gate's refusal, where nothing is held", gate, own, wide, "open"},
		{"an interpreter", recordOf(wide, script, false, event.ActionAllow), wide, own, "allow -> deny"},
		{"whose repository", recordOf(wide, *ask("write /home/u/ws/x.git/config"), false, event.ActionAllow), wide, own, "open"},
		{"content that nobody looked at", func() event.Event {
			e := recordOf(wide, rename, false, event.ActionAllow)
			e.Born = true
			return e
		}(), wide, own, "open"},
		{"a change of settings that was looked at", recordOf(own, tracking, false, event.ActionAllow), own, manual, "allow -> allow"},
		{"a change of settings that asked", recordOf(own, tracking, false, event.ActionDeny), own, manual, "ask -> ask"},
		{"a change of settings that nobody looked at", recordOf(wide, tracking, false, event.ActionAllow), wide, own, "open"},
		{"a record that does not fit its policy", late, own, wide, "open"},
	} {
		r := NewReview(Stack{tc.own}, Stack{tc.other}).Reconsider(&tc.e)
		got := ""
		switch {
		case r.Open != "":
			got = "open"
		case r.Asked:
			got = r.From.String() + " -> " + r.To.String()
		}
		if got != tc.want {
			t.Errorf("%s: %q (%+v), want %q", tc.name, got, r, tc.want)
		}
	}
}

// TestReconsiderInside: of a session inside another both policies hold.
func TestReconsiderInside(t *testing.T) {
	outer, inner := load(t, ""), load(t, "read-only")
	own := Stack{outer, inner}
	for text, want := range map[string][2]event.Action{
		"read /home/u/ws/x":  {event.ActionAllow, event.ActionAllow},
		"write /home/u/ws/x": {event.ActionDeny, event.ActionAllow},
		"read /opt/x":        {event.ActionDeny, event.ActionDeny},
	} {
		req := *ask(text)
		e := recordOf(outer, req, false, event.ActionAllow)
		if e.Action == event.ActionAllow {
			e = recordOf(inner, req, false, event.ActionAllow)
		}
		same, wide := NewReview(own, own).Reconsider(&e), NewReview(own, Stack{outer, load(t, "observe")}).Reconsider(&e)
		if same.Changed() || same.Open != "" || [2]event.Action{wide.From, wide.To} != want {
			t.Errorf("%s: %+v by its own, %+v under a wider one, want %v", text, same, wide, want)
		}
	}
	l := NewLearner(LearnConfig{})
	e := recordOf(outer, *ask("read /opt/x"), false, event.ActionAllow)
	if l.Add(&e, NewReview(own, own)); l.Propose().Rules() != 0 || len(l.LeftOut()) != 1 {
		t.Errorf("learned what the session outside denies")
	}
}

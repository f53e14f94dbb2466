package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// theirText is a person's own denial, and question, of names that are a secret's.
const theirText = `
[permissions.p]
extends = ":workspace"
[permissions.p.filesystem.":workspace_roots"]
"**/*.pem" = "deny"
"**/.env" = "ask"
`

// moving is a rename, or link, of what stands at from to a name at which to stands.
func moving(op event.Op, from, to string, toKind event.ObjectKind, flags uint64) *event.Request {
	return &event.Request{
		Op: op, Access: event.AccessDelete | event.AccessCreate, Task: event.Task{PID: 77, TID: 77}, Flags: flags,
		Object: event.Object{Kind: event.ObjectFile, Path: from}, Target: event.Object{Kind: toKind, Path: to},
	}
}

// TestOwnSecrets: a file that the session itself made is no secret by its name. It is to
// be asked about first; what a person's rule denies stays denied.
func TestOwnSecrets(t *testing.T) {
	const ws = "/home/u/ws/"
	theirs := load(t, "p", source(User, theirText))
	usual := load(t, "")
	file, missing := event.ObjectFile, event.ObjectMissing
	for _, tc := range []struct {
		name string
		p    *Policy
		req  *event.Request
		// own and ownTo say which of its files the session made.
		own, ownTo bool
		want       event.Action
		rule       string // of what is allowed
	}{
		{"read", usual, ask("read " + ws + "key.pem"), true, false, event.ActionAllow, ruleMade},
		{"write", usual, ask("write " + ws + "sub/.env"), true, false, event.ActionAllow, ruleMade},
		{"handle", usual, ask("stat " + ws + "key.pem"), true, false, event.ActionAllow, "O_PATH"},
		{"mode", usual, ask("chmod " + ws + "key.pem"), true, false, event.ActionAllow, ruleMade},
		{"delete", usual, ask("delete " + ws + "key.pem"), true, false, event.ActionAllow, ruleMade},
		{"run", usual, ask("exec " + ws + "key.pem"), true, false, event.ActionDeny, ""},
		{"in a secret directory", usual, ask("read " + ws + ".aws/x"), true, false, event.ActionAllow, ruleMade},
		{"a directory", usual, ask("read " + ws + ".aws/"), true, false, event.ActionDeny, ""},
		{"where nothing may be read", usual, ask("read /opt/key.pem"), true, false, event.ActionDeny, ""},
		{"reeve's own", usual, ask("read /var/lib/reeve/key.pem"), true, false, event.ActionDeny, ""},
		{"a person's rule", theirs, ask("read " + ws + "key.pem"), true, false, event.ActionDeny, ""},
		{"a person's question", theirs, ask("read " + ws + ".env"), true, false, event.ActionAsk, ""},
		{"by no person's rule", theirs, ask("read " + ws + "server.key"), true, false, event.ActionAllow, ruleMade},
		{"rename", usual, moving(event.OpRename, ws+"key.pem", ws+"server.pem", missing, 0), true, false, event.ActionAllow, ruleMade},
		{"rename to another secret's name", usual, moving(event.OpRename, ws+"key.pem", ws+".env", missing, 0), true, false, event.ActionAllow, ruleMade},
		{"rename over the host's", usual, moving(event.OpRename, ws+"key.pem", ws+".env", file, 0), true, false, event.ActionDeny, ""},
		{"rename of an ordinary file over the host's", usual, moving(event.OpRename, ws+"f", ws+".env", file, 0), true, false, event.ActionDeny, ""},
		{"rename over its own", usual, moving(event.OpRename, ws+"f", ws+".env", file, 0), false, true, event.ActionAllow, ruleMade},
		{"rename of the host's over its own", usual, moving(event.OpRename, ws+".env", ws+"key.pem", file, 0), false, true, event.ActionDeny, ""},
		{"exchange of its own", usual, moving(event.OpRename, ws+"key.pem", ws+".env", file, renameExchange), true, true, event.ActionAllow, ruleMade},
		{"exchange with an ordinary file", usual, moving(event.OpRename, ws+"key.pem", ws+"f", file, renameExchange), true, false, event.ActionAllow, ruleMade},
		{"exchange with the host's", usual, moving(event.OpRename, ws+"key.pem", ws+".env", file, renameExchange), true, false, event.ActionDeny, ""},
		{"exchange of the host's", usual, moving(event.OpRename, ws+".env", ws+"f", file, renameExchange), false, true, event.ActionDeny, ""},
		{"link", usual, moving(event.OpLink, ws+"key.pem", ws+"x", missing, 0), true, false, event.ActionAllow, ruleMade},
		{"link of the host's", usual, moving(event.OpLink, ws+"key.pem", ws+"x", missing, 0), false, false, event.ActionDeny, ""},
		{"rename from a person's denial", theirs, moving(event.OpRename, ws+"key.pem", ws+"x", missing, 0), true, false, event.ActionDeny, ""},
	} {
		d := tc.p.Decide(tc.req)
		if d.Action != event.ActionAllow && tc.want == event.ActionAllow && (!d.AskBorn || d.Action != event.ActionDeny) {
			t.Errorf("%s: asked first it is %+v, want a denial that asks whose it is", tc.name, d)
		}
		tc.req.Object.Own, tc.req.Target.Own = tc.own, tc.ownTo
		d = tc.p.Decide(tc.req)
		if d.Action != tc.want || tc.want == event.ActionAllow && (d.Rule != tc.rule || !d.Secret && d.Rule == ruleMade) {
			t.Errorf("%s: %+v, want %s by %q", tc.name, d, tc.want, tc.rule)
		}
	}
}

// TestOwnSecretsAreRemembered: what the gate is to remember for long it is told.
func TestOwnSecretsAreRemembered(t *testing.T) {
	p := load(t, "")
	for text, want := range map[string]bool{"make /home/u/ws/key.pem": true, "make /home/u/ws/f": false, "read /home/u/ws/f": false} {
		if d := p.Decide(ask(text)); d.Action != event.ActionAllow || d.Secret != want {
			t.Errorf("%s: %+v, want Secret %v", text, d, want)
		}
	}
	req := moving(event.OpRename, "/home/u/ws/f", "/home/u/ws/.env", event.ObjectMissing, 0)
	if d := p.Decide(req); d.Action != event.ActionAllow || !d.Secret {
		t.Errorf("a rename to a secret's name: %+v", d)
	}
}

// TestOwnSecretsUnderAnother: of two policies each must let it pass, and which of them
// denies is said.
func TestOwnSecretsUnderAnother(t *testing.T) {
	usual := load(t, "")
	theirs := load(t, "p", source(User, theirText))
	for _, stack := range []Stack{{usual, theirs}, {theirs, usual}, {usual, usual}} {
		for _, own := range []bool{false, true} {
			req := ask("read /home/u/ws/key.pem")
			req.Object.Own = own
			d := stack.decide(func(i int) event.Decision { return stack[i].Decide(req) })
			passes := own && stack[0] == stack[1]
			if (d.Action == event.ActionAllow) != passes || d.AskBorn != (stack[0] == stack[1] && !own) {
				t.Errorf("%s inside %s, own %v: %+v", stack[1].Name(), stack[0].Name(), own, d)
			}
		}
	}
}

// TestOwnSecretsReconsidered: a record tells whose a file was, where its policy asked.
func TestOwnSecretsReconsidered(t *testing.T) {
	usual, wide := load(t, ""), load(t, "observe")
	theirs := load(t, "p", source(User, theirText))
	for _, tc := range []struct {
		name       string
		own        bool
		was, other *Policy
		want       string
	}{
		{"by itself", true, usual, usual, "allow -> allow"},
		{"the host's, by itself", false, usual, usual, "deny -> deny"},
		{"by a person's rule", true, usual, theirs, "allow -> deny"},
		{"whose nobody asked, and no record tells", true, wide, usual, "allow -> deny"},
		{"the host's, where nothing is held", false, usual, wide, "deny -> allow"},
	} {
		req := ask("read /home/u/ws/key.pem")
		d := tc.was.Decide(req)
		if d.AskBorn { // as the gate does
			req.Object.Own = tc.own
			d = tc.was.Decide(req)
		}
		e := event.Event{Kind: event.KindRequest, Action: d.Action, Rule: d.Rule, Reason: d.Reason, By: d.By, Errno: d.Errno}
		e.SetRequest(req)
		r := NewReview(Stack{tc.was}, Stack{tc.other}).Reconsider(&e)
		got := r.Open
		if got == "" {
			got = r.From.String() + " -> " + r.To.String()
		}
		if !r.Asked || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestOwnSecretsExplained: who asks is told that it depends on who made the file.
func TestOwnSecretsExplained(t *testing.T) {
	p := load(t, "")
	notes := func(text string) string {
		var out []string
		e := p.Explain(ask(text))
		for _, l := range e.Layers {
			out = append(out, l.Note)
		}
		return strings.Join(out, "; ")
	}
	const unless = "unless the session itself made the file"
	for text, want := range map[string]bool{
		"read /home/u/ws/key.pem": true, "write /home/u/ws/key.pem": true, "exec /home/u/ws/key.pem": false, "read /home/u/ws/f": false,
	} {
		if got := notes(text); strings.Contains(got, unless) != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if !strings.Contains(p.Expand(), "secret files (built in): what it denies is no secret where the session itself made the file") {
		t.Error("check --expand does not say it")
	}
}

// TestRecordMade: where nobody asked whose a file was, the record tells by what was done
// before.
func TestRecordMade(t *testing.T) {
	const ws = "/home/u/ws/"
	usual, wide := load(t, ""), load(t, "observe")
	dirs := func(req *event.Request) *event.Request {
		req.Object.Kind = event.ObjectDir
		return req
	}
	file, missing := event.ObjectFile, event.ObjectMissing
	r := NewReview(Stack{wide}, Stack{usual})
	for _, step := range []struct {
		req  *event.Request
		want string
	}{
		{ask("read " + ws + ".env"), "allow -> deny"},
		{ask("make " + ws + "a.key"), "allow -> allow"},
		{ask("read " + ws + "a.key"), "allow -> allow"},
		{moving(event.OpRename, ws+"a.key", ws+"b", missing, 0), "allow -> allow"},
		{moving(event.OpRename, ws+"b", ws+"d/c.key", missing, 0), "allow -> allow"},
		{ask("read " + ws + "a.key"), "allow -> deny"},
		{dirs(moving(event.OpRename, ws+"d", ws+"e", missing, 0)), "allow -> allow"},
		{ask("write " + ws + "e/c.key"), "allow -> allow"},
		{moving(event.OpRename, ws+"e/c.key", ws+"f", file, renameExchange), "allow -> allow"},
		{ask("read " + ws + "e/c.key"), "allow -> deny"},
		{moving(event.OpRename, ws+"f", ws+"g.key", missing, 0), "allow -> allow"},
		{moving(event.OpLink, ws+"g.key", ws+"h.key", missing, 0), "allow -> allow"},
		{ask("delete " + ws + "g.key"), "allow -> allow"},
		{ask("read " + ws + "g.key"), "allow -> deny"},
		{ask("read " + ws + "h.key"), "allow -> allow"},
		{moving(event.OpRename, ws+"host", ws+"h.key", file, 0), "allow -> allow"},
		{ask("read " + ws + "h.key"), "allow -> deny"},
		{ask("write " + ws + "x.git/config"), "open"},
	} {
		e := recordOf(wide, *step.req, false, event.ActionAllow)
		got := r.Reconsider(&e)
		says := got.From.String() + " -> " + got.To.String()
		if got.Open != "" {
			says = "open"
		}
		if says != step.want {
			t.Errorf("%s of %s to %s: %s (%+v), want %s", e.Op, e.Object.Path, e.Target.Path, says, got, step.want)
		}
	}
}

// TestHooksOwnSecrets: of files that the session made the hooks let as much be opened as
// the policy does, and of others as little.
func TestHooksOwnSecrets(t *testing.T) {
	needsRoot(t)
	for _, p := range []*Policy{
		load(t, ""), load(t, "", source(Project, designText)), load(t, "always", source(Session, alwaysText+"\"/**/key.pem\" = \"deny\"\n")),
	} {
		j, err := lsm.NewJudge(hookRules(t, p))
		if err != nil {
			t.Fatal(err)
		}
		lifted := 0
		r := rand.New(rand.NewPCG(11, 12))
		dirs := []string{"/home/u/ws", "/home/u/ws/sub", "/home/u/ws/.aws", "/home/u/.ssh", "/home/u/.config/gh", "/home/u", "/srv", "/tmp", "/etc", "/usr/lib"}
		names := []string{"key.pem", ".env", "server.key", "id_rsa", "x.tfstate", "f", ".netrc", "token", "my-secret.key", "shadow", ".envrc", "cert.pem"}
		for range 1000 {
			accesses := []event.Access{event.AccessRead, event.AccessWrite, event.AccessRead | event.AccessWrite, event.AccessExec}
			req := &event.Request{Op: event.OpOpen, Access: accesses[r.IntN(len(accesses))], Task: event.Task{PID: 77, TID: 77}, Object: event.Object{
				Kind: event.ObjectFile, Path: dirs[r.IntN(len(dirs))] + "/" + names[r.IntN(len(names))], Own: r.IntN(2) == 0,
			}}
			if req.Access == event.AccessExec {
				req.Op = event.OpExec
			}
			d := p.Decide(req)
			explained(t, p, req, d)
			got, err := j.Ask(lsm.Question{Path: req.Object.Path, Need: req.Access, Mine: req.Object.Own})
			if err != nil {
				t.Fatal(err)
			}
			if got.Errno != opensWith(d) {
				t.Fatalf("%s: %s of %s, own %v: the hooks say %d, the policy %+v", p.Name(), req.Access, req.Object.Path, req.Object.Own, got.Errno, d)
			}
			if d.Rule == ruleMade {
				lifted++
			}
		}
		if lifted < 20 {
			t.Errorf("%s: %d of 1000 pass for who made them: the test is too easy", p.Name(), lifted)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package policy

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// envelopeTable has under "kept" what stays denied though the user's profile m,
// which the session runs under, opens it, and under "open" what that opens.
var envelopeTable = []struct {
	name, envelope, user string
	kept, open           []*event.Request
}{
	{
		name: "secrets and protected configuration", envelope: "[permissions.e.filesystem]\n\"/srv\" = \"deny\"\n",
		user: "[permissions.m.secrets]\n\"~/ws/.env\" = \"read\"\n[permissions.m.protected]\n\"~/ws/.github\" = \"write\"\n",
		kept: []*event.Request{ask("read /home/u/ws/.env"), ask("write /home/u/ws/.github/x"), ask("stat /home/u/ws/.env")},
		open: []*event.Request{ask("write /home/u/ws/x")},
	}, {
		name:     "an exception that the envelope lets be made",
		envelope: "[permissions.e.secrets]\n\"/\" = \"write\"\n",
		user:     "[permissions.m.secrets]\n\"~/ws/.env\" = \"read\"\n",
		kept:     []*event.Request{ask("read /home/u/ws/sub/.env"), ask("write /home/u/ws/.env")}, // letting is not making
		open:     []*event.Request{ask("read /home/u/ws/.env")},
	}, {
		name: "a listed socket", envelope: "[permissions.e.filesystem]\n\"/run\" = \"read\"\n",
		user: "network.unix_sockets = { \"/run/docker.sock\" = \"allow\", \"/tmp/ssh-1/agent\" = \"allow\", \"/tmp/s\" = \"allow\" }\n",
		kept: []*event.Request{unixConnect("/run/docker.sock"), unixConnect("/tmp/ssh-1/agent")}, open: []*event.Request{unixConnect("/tmp/s")},
	}, {
		name: "a socket under an envelope that is closed", envelope: "extends = \":workspace\"\n",
		user: "network.unix_sockets = { \"/tmp/s\" = \"allow\" }\n",
		kept: []*event.Request{unixConnect("/tmp/s")}, open: []*event.Request{unixConnect("/home/u/ws/s")},
	}, {
		name: "addresses, of the session's own ports too", envelope: "network.addresses = { \"127.0.0.1:8080\" = \"deny\", \"192.0.2.1\" = \"ask\" }\n",
		user: "network = { enabled = true, mode = \"full\" }\n",
		kept: []*event.Request{dial("connect 127.0.0.1 8080 own"), dial("connect 192.0.2.1 80")},
		open: []*event.Request{dial("connect 127.0.0.1 8081 own"), dial("connect 192.0.2.2 80")},
	},
}

func unixConnect(path string) *event.Request {
	return &event.Request{Op: event.OpConnect, Object: event.Object{Kind: event.ObjectSocket, Family: syscall.AF_UNIX, Path: path}}
}

func TestEnvelopeKeeps(t *testing.T) {
	for _, row := range envelopeTable {
		user := source(User, "[permissions.m]\nextends = \":workspace\"\n"+row.user)
		text := "[permissions.e]\n" + row.envelope
		if strings.HasPrefix(row.envelope, "[") {
			text = row.envelope
		}
		free, held := load(t, "m", user), load(t, "m", user, source(Envelope, "default_permissions = \"e\"\n"+text))
		for _, req := range row.kept {
			if d := held.Decide(req); d.Action == event.ActionAllow {
				t.Errorf("%s: %v %s%s: allowed by %q", row.name, req.Op, req.Object.Path, req.Object.Addr, d.Rule)
			}
		}
		for _, req := range row.open {
			for _, p := range []*Policy{free, held} {
				if d := p.Decide(req); d.Action != event.ActionAllow {
					t.Errorf("%s: %v %s%s: denied by %q: %s", row.name, req.Op, req.Object.Path, req.Object.Addr, d.Rule, d.Reason)
				}
			}
		}
	}
	own := dial("connect 127.0.0.1 8080 own")
	alone := source(Envelope, "default_permissions = \"e\"\n[permissions.e]\nextends = \":workspace\"\n"+envelopeTable[4].envelope)
	if d := load(t, "e", alone).Decide(own); d.Action == event.ActionAllow {
		t.Errorf("an envelope's rule about addresses does not hold where the session runs under it: %q", d.Rule)
	}
}

// TestEnvelopeMustSayWhichHolds: a session that chooses another name must not get
// around an envelope, nor one that gives its own profile the name of a built-in
// one that the envelope names.
func TestEnvelopeMustSayWhichHolds(t *testing.T) {
	_, err := Load([]Source{source(Envelope, "[permissions.e.filesystem]\n\"/srv\" = \"deny\"\n")}, "observe", testHost())
	if err == nil || !strings.Contains(err.Error(), "envelope.toml:1:14: the envelope has profiles and does not say which one holds; write default_permissions") {
		t.Errorf("got %v", err)
	}
	if _, err := Load([]Source{source(Envelope, "default_permissions = \"none\"\n")}, "", testHost()); err == nil {
		t.Error("an envelope that names what is not there was loaded")
	}
	envelope := source(Envelope, "default_permissions = \"read-only\"\n")
	p := load(t, "read-only", envelope, source(Session, "[permissions.read-only]\nextends = \":observe\"\n"))
	if d := p.Decide(ask("write /home/u/ws/x")); d.Action == event.ActionAllow {
		t.Errorf("a profile of a built-in one's name got around the envelope: %q", d.Rule)
	}
	for text, want := range map[string]string{"extends = \":read-only\"": "e", "signals = \"session\"": DefaultProfile} {
		if p := load(t, "", source(Envelope, "default_permissions = \"e\"\n[permissions.e]\n"+text+"\n")); p.Name() != want {
			t.Errorf("%s: a session that names no profile runs under %q, want %q", text, p.Name(), want)
		}
	}
	two := load(t, "observe", source(Envelope, "default_permissions = \"e\"\n[permissions.e.filesystem]\n\"/srv\" = \"deny\"\n"),
		Source{Name: "built-in.toml", Layer: Envelope, Text: []byte("default_permissions = \"f\"\n[permissions.f.filesystem]\n\"/opt\" = \"deny\"\n")})
	for text, want := range map[string]string{"read /srv/x": "no", "read /opt/x": "no", "read /var/x": "ok"} {
		if d := two.Decide(ask(text)); outcome(d) != want {
			t.Errorf("under two envelopes: %s: %s", text, outcome(d))
		}
	}
}

func TestEnvelopeOverExceptionsIsTold(t *testing.T) {
	p := load(t, "m", source(Envelope, "default_permissions = \"e\"\n[permissions.e.secrets]\n\"~/ws/.env\" = \"read\"\n"),
		source(User, "[permissions.m]\nextends = \":workspace\"\n[permissions.m.secrets]\n\"~/ws/.env\" = \"read\"\n\"~/.ssh\" = \"read\"\n[permissions.m.protected]\n\"~/ws/.github\" = \"write\"\n"))
	var told []string
	for _, f := range p.Check() {
		if strings.Contains(f.Text, "the envelope does not let it") {
			told = append(told, f.Rule)
		}
	}
	if !slices.Equal(told, []string{"~/.ssh", "~/ws/.github"}) {
		t.Errorf("told of %q", told)
	}
}

package policy

import (
	"slices"
	"testing"
	"time"
)

func source(layer Layer, text string) Source {
	return Source{Name: layer.String() + ".toml", Layer: layer, Text: []byte(text)}
}

// widen is a profile that opens everything.
func widen(name string) string { return "[permissions." + name + "]\nextends = \":observe\"\n" }

var layerTable = []struct {
	name, profile string
	sources       []Source
	want          map[string]string
	base          string
}{
	{
		name: "a project cannot widen", sources: []Source{source(Project, "default_permissions = \"p\"\n"+widen("p"))},
		want: map[string]string{"read /etc/shadow": "no", "write /home/u/x": "no", "write /home/u/ws/x": "ok"}, base: DefaultProfile,
	}, {
		name: "a project's profile, named, narrows the default", profile: "p", sources: []Source{source(Project, widen("p"))},
		want: map[string]string{"write /home/u/x": "no", "write /home/u/ws/x": "ok"}, base: "p",
	}, {
		name: "a project narrows what it names", sources: []Source{source(Project,
			"default_permissions = \"p\"\n[permissions.p.filesystem.\":workspace_roots\"]\n\"vendor\" = \"read\"\n\"keys\" = \"deny\"\n")},
		want: map[string]string{
			"write /home/u/ws/vendor/x": "no", "read /home/u/ws/vendor/x": "ok", "read /home/u/ws/keys/x": "no",
			"write /home/u/ws/x": "ok", "read /usr/bin/ls": "ok",
		}, base: DefaultProfile,
	}, {
		name: "a project makes no exceptions", sources: []Source{source(Project,
			"default_permissions = \"p\"\n[permissions.p.secrets]\n\"/\" = \"write\"\n[permissions.p.protected]\n\"/\" = \"write\"\n")},
		want: map[string]string{"read /home/u/ws/.env": "no", "write /home/u/ws/.git/config": "no"}, base: DefaultProfile,
	}, {
		name: "a user makes exceptions", sources: []Source{source(User, `default_permissions = "m"
[permissions.m]
extends = ":workspace"
[permissions.m.secrets]
"~/ws/.env" = "read"
"~/ws/tls/*.key" = "write"
[permissions.m.protected.":workspace_roots"]
".github" = "write"
`)},
		want: map[string]string{
			"read /home/u/ws/.env": "ok", "write /home/u/ws/.env": "no", "read /home/u/ws/sub/.env": "no",
			"write /home/u/ws/tls/a.key": "ok", "write /home/u/ws/.github/x": "ok", "write /home/u/ws/.gitlab-ci.yml": "no",
		}, base: "m",
	}, {
		name: "no exception from reeve's own", profile: "m", sources: []Source{source(Session, `[permissions.m]
extends = ":observe"
[permissions.m.secrets]
"/home/u/.local/state/reeve/x" = "write"
[permissions.m.filesystem]
"/home/u/.local/state/reeve/x" = "write"
`)},
		want: map[string]string{"read /home/u/.local/state/reeve/x": "no"}, base: "m",
	}, {
		name: "the envelope narrows what was named", profile: "observe", sources: []Source{source(Envelope, "default_permissions = \"e\"\n[permissions.e.filesystem]\n\"/srv\" = \"deny\"\n")},
		want: map[string]string{"read /srv/x": "no", "read /opt/x": "ok"}, base: "observe",
	}, {
		name: "the envelope's own profile can be named", profile: "e", sources: []Source{source(Envelope, "default_permissions = \"e\"\n[permissions.e]\nextends = \":workspace\"\n[permissions.e.filesystem]\n\"/srv\" = \"write\"\n")},
		want: map[string]string{"write /srv/x": "ok", "write /opt/x": "no"}, base: "e",
	}, {
		name: "the envelope may name a built-in profile", profile: "observe", sources: []Source{source(Envelope, "default_permissions = \"read-only\"\n")},
		want: map[string]string{"write /home/u/ws/x": "no", "read /home/u/ws/x": "ok", "read /home/u/x": "no"}, base: "observe",
	}, {
		name: "a user's default does not narrow what was named", profile: "observe", sources: []Source{source(User, "default_permissions = \"read-only\"\n")},
		want: map[string]string{"write /home/u/ws/x": "ok"}, base: "observe",
	}, {
		name: "a user's default narrows a session's file", sources: []Source{source(User, "default_permissions = \"read-only\"\n"), source(Session, "default_permissions = \"s\"\n"+widen("s"))},
		want: map[string]string{"write /home/u/ws/x": "no", "read /etc/passwd": "ok"}, base: "s",
	}, {
		name: "within a layer the more specific wins", profile: "s", sources: []Source{source(Session, `[permissions.s]
extends = ":workspace"
[permissions.s.filesystem]
"~/data" = "read"
"~/data/in" = "deny"
"~/data/in/open" = "write"
"~/data/**/x*" = "hide"
"~/data/exact" = "write"
`)},
		want: map[string]string{
			"read /home/u/data/a": "ok", "write /home/u/data/a": "no", "read /home/u/data/in/a": "no", "write /home/u/data/in/open/a": "ok",
			"read /home/u/data/xa": "ENOENT", "write /home/u/data/exact": "ok",
		}, base: "s",
	}, {
		name: "a child's pattern replaces its parent's", profile: "c", sources: []Source{source(Session, `[permissions.p]
extends = ":workspace"
[permissions.p.filesystem]
"~/data" = "deny"
[permissions.c]
extends = "p"
[permissions.c.filesystem]
"~/data/" = "read"
"/home/u/ws" = "read"
`)},
		want: map[string]string{"read /home/u/data/a": "ok", "write /home/u/ws/x": "no"}, base: "c",
	}, {
		name: "programs", profile: "s", sources: []Source{source(Session, `[permissions.s]
extends = ":workspace"
[permissions.s.exec]
"/usr/bin/curl" = "deny"
"/usr/bin/pyth*" = "ask"
`)},
		want: map[string]string{
			"exec /usr/bin/curl": "no", "read /usr/bin/curl": "no", "exec /usr/bin/python3": "no", "exec /usr/bin/ls": "ok", "stat /usr/bin/ls": "ok",
		}, base: "s",
	}, {
		name: "what holds always", profile: "s", sources: []Source{source(Session, `[permissions.p]
extends = ":workspace"
[permissions.p.filesystem]
"~/ws/keys/open.pem" = "write"
"~/data" = "write"
[permissions.p.always]
"/**/*.pem" = "deny"
"~/data/in" = "deny"
[permissions.s]
extends = "p"
[permissions.s.always]
"~/data/in/open" = "read"
":home" = "read"
[permissions.s.always.":workspace_roots"]
"hidden" = "hide"
`)},
		want: map[string]string{
			"read /home/u/ws/keys/open.pem": "no", "read /etc/ssl/x.pem": "no", "read /home/u/ws/a": "ok", "write /home/u/ws/a": "no", "read /home/u/data/a": "ok",
			"read /home/u/data/in/open/a": "no", "read /home/u/ws/hidden/a": "ENOENT", "exec /home/u/ws/run.pem": "no", "write /tmp/x": "ok",
		}, base: "s",
	}, {
		name: "asking is denied", profile: "s", sources: []Source{source(Session, "[permissions.s]\nextends = \":workspace\"\n[permissions.s.filesystem]\n\"~/a\" = \"ask\"\n\"~/b\" = \"ask-write\"\n")},
		want: map[string]string{"read /home/u/a": "no", "read /home/u/b": "ok", "write /home/u/b": "no"}, base: "s",
	},
}

func TestLayersOnlyNarrow(t *testing.T) {
	for _, row := range layerTable {
		p, err := Load(row.sources, row.profile, testHost())
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if p.Name() != row.base {
			t.Errorf("%s: profile %q", row.name, p.Name())
		}
		for text, want := range row.want {
			if d := p.Decide(ask(text)); outcome(d) != want {
				t.Errorf("%s: %s: %s (%s, %s), want %s", row.name, text, outcome(d), d.Rule, d.Reason, want)
			}
		}
	}
}

func TestPlanesNarrow(t *testing.T) {
	user := source(User, `[permissions.m]
extends = ":workspace"
[permissions.m.capabilities]
keep = ["CAP_CHOWN", "kill"]
[permissions.m.kernel]
allow = ["mount", "bpf"]
[permissions.m.limits]
memory = "4GiB"
processes = 100
[permissions.m.approval]
timeout = "60s"
`)
	project := source(Project, `default_permissions = "q"
[limits]
memory = "512MiB"
wall = "1h"
[permissions.q.capabilities]
keep = ["chown", "sys_admin"]
[permissions.q.kernel]
allow = ["bpf", "module"]
[permissions.q.network]
enabled = true
`)
	p := load(t, "m", user, project)
	if got := p.Capabilities(); !slices.Equal(got, []string{"chown"}) {
		t.Errorf("capabilities %v", got)
	}
	if got := p.kernel; !slices.Equal(got, []string{"bpf"}) {
		t.Errorf("kernel %v", got)
	}
	if l := p.Limits(); l.Memory != 512<<20 || l.Processes != 100 || l.Wall != time.Hour {
		t.Errorf("limits %+v", l)
	}
	if a := p.Approval(); a.Timeout != time.Minute {
		t.Errorf("approval %+v", a)
	}
	if d := p.Decide(dial("connect 203.0.113.9 443")); outcome(d) != "no" {
		t.Error("a project opened the network")
	}
	for _, name := range BuiltInProfiles() {
		caps := load(t, name).Capabilities()
		for _, never := range []string{"sys_admin", "sys_ptrace", "bpf", "net_raw", "sys_module", "*"} {
			if slices.Contains(caps, never) != (name == "observe" && never == "*") {
				t.Errorf("%s keeps %v", name, caps)
			}
		}
	}
}

func TestHostIsChecked(t *testing.T) {
	for _, h := range []Host{
		{Workspaces: []string{"relative"}}, {Workspaces: []string{"/a/../b"}}, {Tmp: "/tmp/"}, {Workspaces: []string{"/"}}, {Home: "/home/u\x00"},
	} {
		if _, err := Load(nil, "", h); err == nil {
			t.Errorf("%+v: loaded", h)
		}
	}
	if _, err := Load(nil, "", Host{}); err != nil {
		t.Errorf("an empty host: %v", err)
	}
	odd := testHost()
	odd.Workspaces = []string{"/home/u/w*s [1]{a,b}\\"}
	p, err := Load(nil, "", odd)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"write /home/u/w*s [1]{a,b}\\/x": "ok", "write /home/u/wxs [1]{a,b}\\/x": "no", "write /home/u/w*s [1]{a,b}\\/.git/config": "no",
	} {
		if d := p.Decide(ask(text)); outcome(d) != want {
			t.Errorf("%s: %s", text, outcome(d))
		}
	}
}

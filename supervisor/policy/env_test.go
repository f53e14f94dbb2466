package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestEnv(t *testing.T) {
	p := load(t, "")
	env, hidden := p.Env([]string{
		"PATH=/usr/bin", "HOME=/home/u", "LC_ALL=C", "TERM=xterm", "GOFLAGS=-v", "GOCACHE=/home/u/.cache/go-build", "GIT_AUTHOR_NAME=u",
		"npm_config_cache=/home/u/ws/.npm", "SSH_AUTH_SOCK=/x", "AWS_REGION=eu", "GITHUB_TOKEN=t", "MY_API_KEY=k", "LD_PRELOAD=/x", "REEVE_STATE=/x",
		"UNKNOWN=1", "PIP_INDEX_URL=https://u:p@example.com/", "PIP_NO_INPUT=1", "npm_config__authToken=x", "TMPDIR=/tmp", "=odd", "odd", "KEEP_TOKEN=1",
	}, "KEEP_TOKEN")
	for _, want := range []string{
		"PATH=/usr/bin", "HOME=/home/u", "LC_ALL=C", "TERM=xterm", "GOFLAGS=-v", "GIT_AUTHOR_NAME=u", "PIP_NO_INPUT=1", "KEEP_TOKEN=1",
		"TMPDIR=/tmp/reeve-01S", "GOCACHE=/tmp/reeve-01S/cache/go-build", "npm_config_cache=/home/u/ws/.npm", "PIP_CACHE_DIR=/tmp/reeve-01S/cache/pip",
		"XDG_CACHE_HOME=/tmp/reeve-01S/cache/xdg",
		"MAVEN_ARGS=-Dmaven.repo.local=/tmp/reeve-01S/cache/m2 -Dmaven.repo.local.tail=/home/u/.m2/repository",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("env lacks %s", want)
		}
	}
	wantHidden := []string{"AWS_REGION", "GITHUB_TOKEN", "LD_PRELOAD", "MY_API_KEY", "PIP_INDEX_URL", "REEVE_STATE", "SSH_AUTH_SOCK", "npm_config__authToken"}
	if !slices.Equal(hidden, wantHidden) {
		t.Errorf("hidden %v", hidden)
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(wantHidden, name) || name == "UNKNOWN" || name == "" || name == "odd" {
			t.Errorf("env holds %s", kv)
		}
	}
	if !slices.IsSorted(env) {
		t.Error("env is not sorted")
	}
}

func TestEnvRules(t *testing.T) {
	user := source(User, `[permissions.m]
extends = ":workspace"
[permissions.m.env]
inherit = ["PATH", "MY_*", "SEEN"]
deny = ["MY_SECRET*"]
mask = ["MY_MASK"]
set = { EXTRA = "{home}/x", MY_SET = "1" }
private_caches = false
`)
	project := source(Project, "default_permissions = \"q\"\n[permissions.q.env]\ndeny = [\"SEEN\"]\nset = { PATH = \"/evil\" }\n")
	p := load(t, "m", user, project)
	env, hidden := p.Env([]string{"PATH=/usr/bin", "MY_A=1", "MY_SECRET1=2", "MY_MASK=3", "SEEN=4", "HOME=/home/u", "MY_SET=0"})
	want := []string{"EXTRA=/home/u/x", "MY_A=1", "MY_MASK=" + maskText, "MY_SET=1", "PATH=/usr/bin", "TEMP=/tmp/reeve-01S", "TMP=/tmp/reeve-01S", "TMPDIR=/tmp/reeve-01S"}
	if !slices.Equal(env, want) {
		t.Errorf("env %v", env)
	}
	if !slices.Equal(hidden, []string{"MY_SECRET1", "SEEN"}) {
		t.Errorf("hidden %v", hidden)
	}
	if links := p.CacheLinks(); len(links) != 0 {
		t.Errorf("links %v", links)
	}
}

func TestEnvOfProfilesThatSayNothing(t *testing.T) {
	p := load(t, "m", source(Session, "[permissions.m.filesystem]\n\"/usr\" = \"read\"\n"))
	env, hidden := p.Env([]string{"PATH=/usr/bin", "GITHUB_TOKEN=x", "OTHER=1"})
	if slices.Contains(env, "OTHER=1") || !slices.Contains(env, "PATH=/usr/bin") || !slices.Equal(hidden, []string{"GITHUB_TOKEN"}) {
		t.Errorf("env %v hidden %v", env, hidden)
	}
	all, _ := load(t, "observe").Env([]string{"PATH=/usr/bin", "GITHUB_TOKEN=x", "TMPDIR=/tmp"})
	if !slices.Equal(all, []string{"GITHUB_TOKEN=x", "PATH=/usr/bin", "TMPDIR=/tmp"}) {
		t.Errorf("observe %v", all)
	}
}

func TestCacheLinks(t *testing.T) {
	links := load(t, "").CacheLinks()
	want := CacheLink{"/tmp/reeve-01S/cache/npm/_cacache/content-v2", "/home/u/.npm/_cacache/content-v2", []string{"node*"}}
	if !slices.ContainsFunc(links, func(l CacheLink) bool { return reflect.DeepEqual(l, want) }) {
		t.Errorf("links %v", links)
	}
	p := load(t, "")
	for _, l := range links {
		if d := p.Decide(ask("read " + l.Target + "/x")); outcome(d) != "ok" {
			t.Errorf("%s is not readable: %s", l.Target, d.Reason)
		}
		if d := p.Decide(ask("make " + l.Target + "/x")); outcome(d) == "ok" {
			t.Errorf("%s is writable", l.Target)
		}
	}
	if links := load(t, "workspace-edit-net-allowlist").CacheLinks(); len(links) != 0 {
		t.Errorf("links where a session may download: %v", links)
	}
}

// serveHost is a host with a build cache of go.
func serveHost(change func(h *Host)) Host {
	h := testHost()
	h.Reeve, h.GoCache = "/opt/reeve/bin/reeve", "/srv/gocache"
	h.CacheDirs = []string{h.GoCache}
	if change != nil {
		change(&h)
	}
	return h
}

func TestEnvServesTheHostsCache(t *testing.T) {
	const served = "/opt/reeve/bin/reeve go-cache /srv/gocache"
	noExec := source(Session, "[permissions.m]\nextends = \":workspace\"\n[permissions.m.exec]\n\"/opt/reeve/bin/reeve\" = \"deny\"\n")
	for _, tc := range []struct {
		name, profile string
		host          func(h *Host)
		sources       []Source
		env           []string
		want          string // "-" is none
	}{
		{name: "default", want: served},
		{name: "read-only", profile: "read-only", want: served},
		{name: "no private caches", profile: "observe", want: "-"},
		{name: "no cache", host: func(h *Host) { h.GoCache = "" }, want: "-"},
		{name: "program unknown", host: func(h *Host) { h.Reeve = "" }, want: "-"},
		{name: "cache that may not be read", host: func(h *Host) { h.CacheDirs = nil }, want: "-"},
		{name: "program that may not run", profile: "m", sources: []Source{noExec}, want: "-"},
		{name: "program that may not run, served outside", profile: "m", sources: []Source{noExec}, env: []string{"GOCACHEPROG=" + served}, want: "-"},
		{name: "served outside", env: []string{"GOCACHEPROG=" + served}, want: served},
		{name: "a person's own", env: []string{"GOCACHEPROG=/usr/bin/mine x"}, want: "/usr/bin/mine x"},
		{name: "switched off", env: []string{"GOCACHEPROG="}, want: ""},
		{name: "own cache in the workspace", env: []string{"GOCACHE=/home/u/ws/.gocache"}, want: "-"},
		{name: "host's cache in the workspace", host: func(h *Host) { h.GoCache, h.CacheDirs = "/home/u/ws/.gocache", []string{"/home/u/ws/.gocache"} }, env: []string{"GOCACHE=/home/u/ws/.gocache"}, want: "-"},
		{name: "host's cache in the workspace that may only be read", profile: "read-only", host: func(h *Host) { h.GoCache, h.CacheDirs = "/home/u/ws/.gocache", []string{"/home/u/ws/.gocache"} }, env: []string{"GOCACHE=/home/u/ws/.gocache"}, want: "/opt/reeve/bin/reeve go-cache /home/u/ws/.gocache"},
		{name: "own cache elsewhere", env: []string{"GOCACHE=/srv/gocache"}, want: served},
		{name: "of the policy", profile: "m", sources: []Source{source(Session, "[permissions.m]\nextends = \":workspace\"\n[permissions.m.env]\nset = { GOCACHEPROG = \"{home}/prog\" }\n")}, want: "/home/u/prog"},
		{name: "space", host: func(h *Host) {
			h.Reeve, h.GoCache, h.CacheDirs = "/usr/bin/a reeve", "/srv/it's", []string{"/srv/it's"}
		}, want: `'/usr/bin/a reeve' go-cache "/srv/it's"`},
		{name: "cannot be quoted", host: func(h *Host) { h.GoCache, h.CacheDirs = `/srv/it's "x"`, []string{`/srv/it's "x"`} }, want: "-"},
		{name: "program in the workspace", host: func(h *Host) { h.Reeve = "/home/u/ws/reeve" }, want: "/home/u/ws/reeve go-cache /srv/gocache"},
	} {
		p, err := Load(tc.sources, tc.profile, serveHost(tc.host))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		env, _ := p.Env(append(tc.env, "PATH=/usr/bin"))
		got, ok := lookup(env, "GOCACHEPROG")
		if !ok {
			got = "-"
		}
		if got != tc.want {
			t.Errorf("%s: GOCACHEPROG=%s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestOwnProgram: reeve may be run, and a rule for it takes nothing away.
func TestOwnProgram(t *testing.T) {
	for file, want := range map[string]string{
		"/opt/reeve/bin/reeve": "ok no", "/home/u/.local/share/reeve": "ok no", "/home/u/ws/reeve": "ok ok", "/tmp/x/reeve": "ok ok",
	} {
		p, err := Load(nil, "", serveHost(func(h *Host) { h.Reeve = file }))
		if err != nil {
			t.Fatal(err)
		}
		if got := outcome(p.Decide(ask("exec "+file))) + " " + outcome(p.Decide(ask("write "+file))); got != want {
			t.Errorf("%s: exec and write: %s, want %s", file, got, want)
		}
		if d := p.Decide(ask("exec " + file + "2")); file == "/opt/reeve/bin/reeve" && outcome(d) == "ok" {
			t.Errorf("what stands beside %s may run", file)
		}
	}
}

// TestGoCacheIsReadOnly: what is served can be read and no more.
func TestGoCacheIsReadOnly(t *testing.T) {
	p, err := Load(nil, "", serveHost(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/srv/gocache", "/home/u/.cache/go-build"} {
		for text, want := range map[string]string{"read ": "ok", "write ": "no", "make ": "no", "delete ": "no", "chmod ": "no"} {
			if got := outcome(p.Decide(ask(text + dir + "/00/00ff-a"))); got != want {
				t.Errorf("%s%s: %s, want %s", text, dir, got, want)
			}
		}
	}
}

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

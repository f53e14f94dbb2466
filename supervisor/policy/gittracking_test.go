package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

const standingConfig = `[core]
	repositoryformatversion = 0
	bare = false
[remote "origin"]
	url = https://example.org/a.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
[branch "fork"]
	remote = origin
	merge = refs/heads/fork
	pushRemote = mine
	mergeOptions = --no-ff
[user]
	name = A
	name = B
`

// TestTracking: of settings that stood there before only what git notes of branches
// changes, however it is written.
func TestTracking(t *testing.T) {
	p := load(t, "")
	check := func(was, then string) event.Decision {
		req := &event.Request{Op: event.OpRename, Target: event.Object{Path: "/home/u/ws/.git/config"}}
		return p.CheckChange(req, []byte(was), []byte(then))
	}
	add := func(text string) string { return standingConfig + text }
	edit := func(old, now string) string { return strings.Replace(standingConfig, old, now, 1) }
	fork := standingConfig[strings.Index(standingConfig, "[branch \"fork\"]"):strings.Index(standingConfig, "[user]")]
	for name, then := range map[string]string{
		"nothing":            standingConfig,
		"a comment":          add("# comment\n"),
		"written otherwise":  strings.ReplaceAll(standingConfig, "\n", "\r\n"),
		"a branch":           add("[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n\trebase = true\n"),
		"of this repository": add("[branch \"x\"]\n\tremote = .\n\tmerge = refs/heads/main\n"),
		"by another name":    edit(`"fork"`, `"topic/fork"`),
		"gone":               edit(fork, ""),
		"follows another":    edit("refs/heads/main", "refs/heads/next"),
		"follows nothing":    edit("\tremote = origin\n\tmerge = refs/heads/main\n", ""),
		"copied without":     add("[branch \"copy\"]\n\tremote = origin\n\tmerge = refs/heads/fork\n"),
	} {
		if d := check(standingConfig, then); d.Action != event.ActionAllow || d.Reason == "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for name, then := range map[string]string{
		"hooks":                   add("[core]\n\thooksPath = x\n"),
		"a setting that is data":  add("[core]\n\tautocrlf = input\n"),
		"a user":                  edit("name = B", "name = C"),
		"the order of others":     edit("\tname = A\n\tname = B\n", "\tname = B\n\tname = A\n"),
		"one of two":              edit("\tname = B\n", ""),
		"the first section":       edit("\tbare = false\n", ""),
		"an empty file":           "",
		"a remote":                edit("https://example.org/a.git", "https://example.net/a.git"),
		"another remote":          add("[remote \"evil\"]\n\turl = /tmp/x\n[branch \"x\"]\n\tremote = evil\n"),
		"a remote without url":    add("[branch \"x\"]\n\tremote = mine\n"),
		"an address":              add("[branch \"x\"]\n\tremote = /tmp/x\n"),
		"a transport":             add("[branch \"x\"]\n\tremote = ext::sh\n"),
		"an option":               add("[branch \"x\"]\n\tremote = --upload-pack=x\n"),
		"pushes elsewhere":        add("[branch \"x\"]\n\tpushRemote = origin\n"),
		"pushes no more there":    edit("\tpushRemote = mine\n", ""),
		"another's pushes":        edit("\tremote = origin\n\tmerge = refs/heads/main\n", "\tremote = origin\n\tmerge = refs/heads/main\n\tpushRemote = mine\n"),
		"copied with":             add(strings.Replace(fork, "fork", "copy", 1)),
		"a new name, and more":    edit(fork, strings.Replace(fork, `"fork"`, `"topic"`, 1)+"\tdescription = x\n"),
		"over another branch":     edit(fork, "") + strings.Replace(fork, `"fork"`, `"main"`, 1),
		"a strategy":              add("[branch \"x\"]\n\tmergeOptions = -s evil\n"),
		"no ref":                  add("[branch \"x\"]\n\tmerge = --upload-pack\n"),
		"another rebase":          add("[branch \"x\"]\n\trebase = interactive\n"),
		"no value":                add("[branch \"x\"]\n\trebase\n"),
		"of all branches":         add("[branch]\n\tautoSetupRebase = always\n"),
		"of a branch of no name":  add("[branch \"\"]\n\tpushRemote = origin\n"),
		"included":                add("[include]\n\tpath = x\n"),
		"unreadable":              add("[branch \"x\"\n"),
		"unreadable, and old one": add("[branch \"x\"]\n\tremote = \"origin\n"),
		"a NUL":                   add("\x00"),
	} {
		if d := check(standingConfig, then); d.Action != event.ActionDeny || d.Errno == 0 || d.Reason == "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := check("[core\n", "[core\n"); d.Action != event.ActionDeny {
		t.Errorf("settings that nobody can read: %+v", d)
	}
}

// TestTrackingAsks: in a repository that stood there before only a lock that the
// session made may be written, and only what it would say is asked for, where
// it is moved over the settings.
func TestTrackingAsks(t *testing.T) {
	const git = "/home/u/ws/.git"
	own := func(req *event.Request) *event.Request {
		req.Object.Own = true
		return req
	}
	rename := func(to string) *event.Request { return own(gitLine("rename " + git + "/config.lock " + to + " over")) }
	exchange := rename(git + "/config")
	exchange.Flags = renameExchange
	dir := rename(git + "/config")
	dir.Object.Kind = event.ObjectDir
	for _, tc := range []struct {
		name    string
		req     *event.Request
		action  event.Action
		content bool
	}{
		{"made", own(ask("make " + git + "/config.lock")), event.ActionAllow, false},
		{"made, and known no more", ask("make " + git + "/config.lock"), event.ActionAsk, false},
		{"written", own(ask("write " + git + "/config.lock")), event.ActionAllow, false},
		{"somebody's", ask("write " + git + "/config.lock"), event.ActionAsk, false},
		{"removed", own(gitLine("delete " + git + "/config.lock")), event.ActionAllow, false},
		{"somebody's, removed", gitLine("delete " + git + "/config.lock"), event.ActionAsk, false},
		{"moved over", rename(git + "/config"), event.ActionAsk, true},
		{"somebody's, moved over", gitLine("rename " + git + "/config.lock " + git + "/config over"), event.ActionAsk, false},
		{"exchanged", exchange, event.ActionAsk, false},
		{"a directory", dir, event.ActionAsk, false},
		{"over another", rename("/home/u/ws/x.git/config"), event.ActionAsk, false},
		{"to a hook", rename(git + "/hooks/pre-commit"), event.ActionAsk, false},
		{"to any file", rename("/home/u/ws/x"), event.ActionDeny, false},
		{"the settings", own(ask("write " + git + "/config")), event.ActionAsk, false},
		{"settings made", own(ask("make " + git + "/config")), event.ActionAsk, false},
	} {
		if d := load(t, "").Decide(tc.req); d.Action != tc.action || d.AskContent != tc.content {
			t.Errorf("%s: %+v", tc.name, d)
		}
	}
	narrow := load(t, "s", source(Session, "[permissions.s]\nextends = \":workspace\"\n[permissions.s.filesystem.\":workspace_roots\"]\n\"**/config\" = \"ask-write\"\n"))
	if d := narrow.Decide(rename(git + "/config")); d.Action != event.ActionAsk || d.AskContent {
		t.Errorf("a person's own rule that asks: %+v", d)
	}
	readOnly := load(t, "read-only")
	for _, req := range []*event.Request{rename(git + "/config"), own(ask("make " + git + "/config.lock"))} {
		if d := Stricter(load(t, "").Decide(req), readOnly.Decide(req)); d.Action != event.ActionDeny || d.AskContent {
			t.Errorf("inside a session that may only read: %+v", d)
		}
	}
}

// TestTrackingNames: a reason names what changes, what git might run first.
func TestTrackingNames(t *testing.T) {
	p := load(t, "")
	for then, want := range map[string]string{
		standingConfig + "[user]\n\temail = x\n":                                                  "changes user.email, not only",
		standingConfig + "[user]\n\temail = x\n[core]\n\thooksPath = x\n":                         "changes core.hookspath, user.email, not only",
		strings.Replace(standingConfig, "name = A\n\tname = B", "name = B\n\tname = A", 1):        "changes user.name, not only",
		standingConfig + "[a]\nb\nc\nd\n[core]\neol = lf\nabbrev = 9\npager = x\ncommentchar = x": "changes a.b, a.c, a.d, core.pager, core.abbrev, 2 more, not only",
	} {
		d := p.CheckChange(&event.Request{Op: event.OpRename}, []byte(standingConfig), []byte(then))
		if !strings.HasPrefix(d.Reason, want) {
			t.Errorf("%q, want %q", d.Reason, want)
		}
	}
}

// TestTrackingManySettings: whatever the session writes, it is judged at once.
func TestTrackingManySettings(t *testing.T) {
	p := load(t, "")
	for name, text := range map[string]string{
		"settings": "[a]\n" + strings.Repeat("b\n", maxGitConfig/2-100),
		"branches": strings.Repeat("[branch \"x\"]a=b\n", maxGitConfig/16-100),
		"parts":    strings.Repeat("[branch.x]\na=b\n", maxGitConfig/16-100),
	} {
		began := time.Now()
		d := p.CheckChange(&event.Request{Op: event.OpRename}, []byte(standingConfig), []byte(text))
		if took := time.Since(began); d.Action != event.ActionDeny || took > 5*time.Second {
			t.Errorf("%s: %v after %v", name, d.Action, took)
		}
	}
}

package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// learned is what a profile learns from requests it refuses, as a policy file.
func learned(t *testing.T, base *Policy, sources []Source, sensitive bool, reqs ...*event.Request) (string, *Learner) {
	t.Helper()
	l := NewLearner(LearnConfig{Sensitive: sensitive})
	var events []event.Event
	for i, req := range reqs {
		e := recordOf(base, *req, false, event.ActionAllow)
		e.Session, e.Seq, e.Task.Exe = "01S", uint64(i+1), "/usr/bin/tool"
		events = append(events, e)
		l.Add(&e, NewReview(Stack{base}, Stack{base}))
	}
	p := l.Propose()
	extends, file, err := Extendable(sources, base.Name())
	if err != nil {
		t.Fatal(err)
	}
	text := LearnText{Name: "learned", Extends: extends, Base: file, Sessions: []string{"01S"}}
	doc := l.Text(p, text)
	text.Why = true
	if _, err := Load([]Source{{Name: "why", Layer: Session, Text: []byte(l.Text(p, text))}}, "learned", base.host); err != nil {
		t.Fatalf("the proposal with its reasons does not load: %v\n%s", err, l.Text(p, text))
	}
	text.Why = false
	others := []Source{{Name: "proposal", Layer: Session, Text: []byte(doc)}}
	for _, s := range sources {
		if s.Layer != Session {
			others = append(others, s)
		}
	}
	over, err := Load(others, "learned", base.host)
	if err != nil {
		t.Fatalf("the proposal does not load: %v\n%s", err, doc)
	}
	for i := range events {
		if l.Check(&events[i], NewReview(Stack{base}, Stack{base}), NewReview(Stack{base}, Stack{over})) && !sensitive { // an exception for a "file" narrows what random requests do below it
			t.Errorf("%v is allowed by the base and not by the proposal\n%s", reqs[i], doc)
		}
	}
	ours := strings.Count(string(file), "\n") + 1
	for _, f := range over.Check() {
		if f.Severity == Warning && f.Pos.File == "proposal" && f.Pos.Line > ours && !sensitive {
			t.Errorf("the proposal is warned of: %v\n%s", f, doc)
		}
	}
	return l.Text(p, text), l
}

func asksFor(texts ...string) []*event.Request {
	var out []*event.Request
	for _, text := range texts {
		if strings.HasPrefix(text, "connect ") || strings.HasPrefix(text, "bind ") {
			out = append(out, dial(text))
		} else {
			out = append(out, ask(text))
		}
	}
	return out
}

var learnRows = []struct {
	name      string
	base      string
	sources   []Source
	sensitive bool
	reqs      []string
	want, not []string
	left      string // what one of the reasons to leave something out holds
}{
	{name: "one file", reqs: []string{"read /srv/data/a.json"}, want: []string{`"/srv/data/a.json" = "read"`}, not: []string{`"/srv/data" =`, "network", "exec"}},
	{name: "two files", reqs: []string{"read /srv/data/a.json", "read /srv/data/b.json"}, want: []string{`"/srv/data/a.json" = "read"`, `"/srv/data/b.json" = "read"`}},
	{name: "a pattern", reqs: []string{"read /srv/data/a.json", "read /srv/data/b.json", "read /srv/data/c.json"}, want: []string{`"/srv/data/*.json" = "read"`}, not: []string{"a.json"}},
	{name: "a directory", reqs: []string{"read /srv/data/a.json", "read /srv/data/b", "write /srv/data/c.txt", "write /srv/data/d", "make /srv/data/e"}, want: []string{`"/srv/data" = "write"`}, not: []string{"/srv/data/"}},
	{name: "directories of a directory", reqs: func() (out []string) {
		for _, d := range []string{"a", "b", "c"} {
			for i := range 3 {
				out = append(out, fmt.Sprintf("read /srv/data/%s/f%d", d, i), fmt.Sprintf("read /srv/data/%s/g%c", d, 'x'+i))
			}
		}
		return out
	}(), want: []string{`"/srv/data" = "read"`}},
	{name: "a read inside what is written", reqs: []string{"write /srv/d/a", "write /srv/d/b", "write /srv/d/c", "read /srv/d/x"}, want: []string{`"/srv/d" = "write"`}, not: []string{"/srv/d/x"}},
	{name: "never the root, its directories, or the home directory", reqs: []string{
		"read /a", "read /b", "read /c", "write /srv/a", "write /srv/b", "write /srv/c", "read /home/u/a", "read /home/u/b", "read /home/u/c.txt", "read /home/u/d.txt", "read /home/u/e.txt",
	}, want: []string{`"/a" = "read"`, `"/srv/a" = "write"`, `"~/a" = "read"`, `"~/c.txt" = "read"`}, not: []string{`"/" =`, `"/srv" =`, `"~" =`, "*"}},
	{name: "a directory that is listed", reqs: []string{"read /srv/data/"}, want: []string{`"/srv/data" = "list"`}},
	{name: "a directory as an object", reqs: []string{"chmod /srv/", "chmod /srv/data/"}, want: []string{`"/srv/data" = "write"`}, left: "would open all that is below /srv"},
	{name: "what exists already", reqs: []string{"mkdir /srv/data/"}, left: "exists already"},
	{name: "versions", reqs: []string{"read /opt/t/v1.2.3/lib", "read /opt/t/v1.2.4/lib", "read /opt/t/v2.0.1/bin"}, want: []string{`"/opt/t/v*/lib" = "read"`, `"/opt/t/v*/bin" = "read"`}},
	{name: "two versions are not several", reqs: []string{"read /opt/t/v1.2.3/lib", "read /opt/t/v1.2.4/lib"}, want: []string{`v1.2.3`, `v1.2.4`}},
	{name: "hashes", reqs: []string{"write /opt/c/build-1a2b3c4d/x", "write /opt/c/build-9f8e7d6c/x", "write /opt/c/build-0a1b2c3d/x"}, want: []string{`"/opt/c/build-*/x" = "write"`}},
	{name: "a store of hashes", reqs: []string{
		"write /opt/c/5a/5a11223344-a", "write /opt/c/cc/cc55667788-a", "write /opt/c/a0/a099aabbcc-a", "write /opt/c/17/17ddeeff00-d",
	}, want: []string{`"/opt/c/*/*-a" = "write"`, "-d\" = \"write\""}, not: []string{"5a"}},
	{name: "strange tasks' state", reqs: []string{"read /proc/12/environ", "read /proc/13/environ"}, not: []string{"/proc/12"}, left: "private state"},
	{name: "strange tasks", reqs: []string{"read /proc/1234/limits", "read /proc/99/limits"}, want: []string{`"/proc/[0-9]*/limits" = "read"`}, not: []string{"1234"}},
	{name: "the session's own places", base: "read-only", reqs: []string{"write /home/u/ws/out/x.o"}, want: []string{`[permissions.learned.filesystem.":workspace_roots"]`, `"out/x.o" = "write"`}},
	{name: "odd names", reqs: []string{`read /srv/a"b\c` + "\n\u202e*[x]", "read /srv/\xff"}, want: []string{`"/srv/a\"b\\\\c\u000A\u202E\\*\\[x\\]" = "read"`}, left: "not UTF-8"},
	{name: "secrets", reqs: []string{"read /home/u/.ssh/id_rsa", "read /home/u/ws/.env", "write /home/u/ws/.git/config"}, not: []string{`id_rsa" =`, `.env" =`, "secrets]"}, left: "secret"},
	{name: "secrets that are asked for", sensitive: true, reqs: []string{"read /home/u/.ssh/id_rsa", "read /home/u/ws/.env", "write /home/u/ws/.github/x"}, want: []string{
		"[permissions.learned.secrets]", `"~/.ssh/id_rsa" = "read"`, `[permissions.learned.secrets.":workspace_roots"]`, `".env" = "read"`,
		`[permissions.learned.protected.":workspace_roots"]`, `".github/x" = "write"`, "[permissions.learned.filesystem]",
	}},
	{name: "reeve's own", sensitive: true, reqs: []string{"read /home/u/.local/state/reeve/reeve.db"}, not: []string{"reeve.db\" ="}, left: "closed to every session"},
	{name: "the envelope", base: DefaultProfile, sensitive: true, sources: []Source{source(Envelope, "default_permissions = \"e\"\n[permissions.e.filesystem]\n\"/srv\" = \"deny\"\n")},
		reqs: []string{"read /srv/x", "read /opt/x"}, want: []string{`"/opt/x" = "read"`}, not: []string{`"/srv/x" =`}, left: "envelope"},
	{name: "denied by name", base: "s", sources: []Source{source(Session, "[permissions.s]\nextends = \":workspace\"\n[permissions.s.filesystem]\n\"~/data\" = \"deny\"\n[permissions.s.exec]\n\"/usr/bin/curl\" = \"deny\"\n")},
		reqs: []string{"read /home/u/data/x", "exec /usr/bin/curl", "read /opt/x"}, want: []string{`extends = "s"`, `"/opt/x" = "read"`}, not: []string{`"~/data/x" =`, "exec]\n\"/usr/bin/curl\" = \"allow\""}, left: "denies it by name"},
	{name: "asked", base: "s", sources: []Source{source(Session, "[permissions.s]\nextends = \":workspace\"\n[permissions.s.filesystem]\n\"~/data\" = \"ask\"\n\"~/more\" = \"ask-write\"\n[permissions.s.exec]\n\"/usr/bin/curl\" = \"ask\"\n")},
		reqs: []string{"read /home/u/data/x", "write /home/u/more/x", "exec /usr/bin/curl"},
		want: []string{`"~/data/x" = "ask-write"`, `"~/more/x" = "write"`, "[permissions.learned.exec]\n\"/usr/bin/curl\" = \"allow\""}},
	{name: "a pattern of the base that a directory would overrule", base: "s", sources: []Source{source(Session, "[permissions.s]\nextends = \":workspace\"\n[permissions.s.filesystem]\n\"/srv/**/*.key2\" = \"deny\"\n")},
		reqs: []string{"read /srv/d/a", "read /srv/d/b", "read /srv/d/c"}, want: []string{`"/srv/d/a" = "read"`}, not: []string{`"/srv/d" =`}},
	{name: "addresses", reqs: []string{"connect 203.0.113.9 443", "connect 127.0.0.1 5432"}, want: []string{"enabled = true", `mode = "limited"`, `"203.0.113.9:443" = "allow"`, `"127.0.0.1:5432" = "allow"`}},
	{name: "a metadata service", reqs: []string{"connect 169.254.169.254 80"}, not: []string{"network"}, left: "credentials"},
	{name: "listening", reqs: []string{"bind 0.0.0.0 80"}, want: []string{`bind = "any"`, "enabled = true", `mode = "limited"`}},
	{name: "an open network keeps its mode", base: "s", sources: []Source{source(Session, "[permissions.s]\nextends = \":workspace\"\n[permissions.s.network]\nenabled = true\nprivate = \"deny\"\n")},
		reqs: []string{"connect 192.168.1.1 80"}, want: []string{`mode = "full"`, `"192.168.1.1:80" = "allow"`}, not: []string{"limited"}},
}

func TestLearn(t *testing.T) {
	for _, tc := range learnRows {
		t.Run(tc.name, func(t *testing.T) {
			base, err := Load(tc.sources, tc.base, testHost())
			if err != nil {
				t.Fatal(err)
			}
			doc, l := learned(t, base, tc.sources, tc.sensitive, asksFor(tc.reqs...)...)
			for _, w := range tc.want {
				if !strings.Contains(doc, w) {
					t.Errorf("the proposal lacks %s\n%s", w, doc)
				}
			}
			for _, w := range tc.not {
				if strings.Contains(doc, w) {
					t.Errorf("the proposal holds %s\n%s", w, doc)
				}
			}
			reasons := ""
			for _, o := range l.LeftOut() {
				reasons += o.Why + "\n"
			}
			if !strings.Contains(reasons, tc.left) || tc.left == "" && reasons != "" {
				t.Errorf("left out for %q, want %q\n%s", reasons, tc.left, doc)
			}
		})
	}
}

func TestLearnOtherPlanes(t *testing.T) {
	base := load(t, "")
	reqs := []*event.Request{
		{Op: event.OpConnect, Object: event.Object{Kind: event.ObjectSocket, Path: "/srv/app/db.sock", Family: 1}},
		{Op: event.OpConnect, Object: event.Object{Kind: event.ObjectSocket, Path: "/run/docker.sock", Family: 1}},
		{Op: event.OpConnect, Object: event.Object{Kind: event.ObjectAbstract, Path: "x", Family: 1}},
		{Op: event.OpSocket, Object: event.Object{Kind: event.ObjectAddr, Family: 16}},
		{Op: event.OpSocket, Object: event.Object{Kind: event.ObjectAddr, Family: 17}},
		{Op: event.OpMount, Object: event.Object{Kind: event.ObjectKernel, Path: "mount"}},
		{Op: event.OpSignal, Object: event.Object{Kind: event.ObjectTask, Path: "1"}},
		{Op: event.OpExec, Access: event.AccessExec, Object: event.Object{Kind: event.ObjectMem, Path: "/memfd:x (deleted)"}},
		{Op: event.OpIPC, Object: event.Object{Kind: event.ObjectKernel, Path: "shmget"}},
		{Op: event.OpRename, Object: event.Object{Kind: event.ObjectFile, Path: "/srv/a"}, Target: event.Object{Kind: event.ObjectMissing, Path: "/srv/b"}},
	}
	doc, _ := learned(t, base, nil, false, reqs...)
	for _, w := range []string{
		"[permissions.learned.network.unix_sockets]\n\"/srv/app/db.sock\" = \"allow\"", `families = ["netlink"]`, `"/srv/a" = "write"`, `"/srv/b" = "write"`,
		"acts for whoever reaches", "abstract socket", "surface of the kernel", "signals to tasks outside", "which nobody can know", "go round the rules", "queues of other programs",
	} {
		if !strings.Contains(doc, w) {
			t.Errorf("the proposal lacks %s\n%s", w, doc)
		}
	}
	doc, _ = learned(t, base, nil, true, reqs...)
	for _, w := range []string{`"/run/docker.sock" = "allow"`, `families = ["netlink", "packet"]`, `allow = ["mount"]`, `signals = "any"`, `":memory" = "allow"`} {
		if !strings.Contains(doc, w) {
			t.Errorf("with what is sensitive, the proposal lacks %s\n%s", w, doc)
		}
	}
}

// TestLearnReaches: whatever was refused passes under the proposal or is left out
// with a reason, what passed still passes, and nothing of the built-in layers
// opens.
func TestLearnReaches(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	src := source(Session, strings.Replace(poorText, "\"/\" = \"read\"", "\"/srv\" = \"read\"", 1))
	for _, tc := range []struct {
		base    string
		sources []Source
	}{{"", nil}, {"read-only", nil}, {"privileged-manual", nil}, {"", []Source{src}}} {
		base, err := Load(tc.sources, tc.base, testHost())
		if err != nil {
			t.Fatal(err)
		}
		for round := range 6 {
			var reqs []*event.Request
			for range 60 {
				req := randomRequest(r)
				req.Born = false
				reqs = append(reqs, req)
			}
			doc, _ := learned(t, base, tc.sources, round%2 == 1, reqs...)
			if added := doc[strings.Index(doc, "# Proposed"):]; round%2 == 0 && (strings.Contains(added, ".secrets") || strings.Contains(added, ".protected")) {
				t.Errorf("an exception was proposed\n%s", added)
			}
		}
	}
}

func TestSkeleton(t *testing.T) {
	for name, want := range map[string]string{
		"python3.11": "python*", "v1.2.3": "v*", "1.2": "*", "main.go": "main.go", "build-1a2b3c4d": "build-*", "libc.so.6": "libc.so.*",
		"01J8Z3K4M5N6P7Q8R9S0T1V2W3": "*", "550e8400-e29b-41d4-a716-446655440000": "*", "a*b": "a*b", "node_modules": "node_modules", "sha256": "*",
	} {
		if got := skeleton(name); got != want {
			t.Errorf("skeleton(%q) = %q, want %q", name, got, want)
		}
	}
}

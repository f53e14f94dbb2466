package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// linked is a host on which some programs are links.
func linked(t *testing.T, text string) *Policy {
	t.Helper()
	h := testHost()
	h.Follow = func(path string) string {
		links := map[string]string{
			"/usr/bin/python3": "/usr/bin/python3.11", "/bin/python3": "/usr/bin/python3.11", "/usr/bin/wget": "/usr/bin/busybox",
			"/usr/bin/gone": "",
		}
		if to, ok := links[path]; ok {
			return to
		}
		return path
	}
	p, err := Load([]Source{source(Session, text)}, "", h)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const programsText = `default_permissions = "x"
[permissions.x]
extends = ":workspace"
[permissions.x.exec]
"/bin/python3" = "deny"
"/usr/bin/wget" = "deny"
"/usr/bin/gone" = "deny"
"/usr/bin/curl" = "deny"
"/usr/bin/busybox" = "allow"
`

// TestProgramRules: a rule about a program holds through links, for what is the
// same file or has the same content, and for one of many in a file.
func TestProgramRules(t *testing.T) {
	p := linked(t, programsText)
	for _, c := range []struct{ line, alike, want string }{
		{"@/usr/bin/python3.11 python3 x.py", "", "deny /bin/python3"},
		{"@/usr/bin/python3.12 python3 x.py", "", "allow :system"},
		{"@/home/u/ws/x x", "/usr/bin/python3.11", "deny /bin/python3"},
		{"@/home/u/ws/x x", "/usr/bin/curl", "deny /usr/bin/curl"},
		{"@/home/u/ws/x x", "/usr/bin/git", "allow :workspace_roots"},
		{"@/home/u/ws/x x push --force", "/usr/bin/git", "ask commands.destructive: git push --force"},
		{"@/usr/bin/busybox wget http://x", "", "deny /usr/bin/wget"},
		{"@/usr/bin/busybox busybox wget http://x", "", "deny /usr/bin/wget"},
		{"@/usr/bin/busybox busybox busybox wget", "", "deny /usr/bin/wget"},
		{"@/usr/bin/busybox ls", "", "allow :system"},
		{"@/usr/bin/busybox busybox ls wget", "", "allow :system"},
		{"@/home/u/ws/bb wget", "/usr/bin/busybox", "deny /usr/bin/wget"},
		{"@/home/u/ws/bb ls", "/usr/bin/busybox", "allow :workspace_roots"},
		{"@/bin/ls wget", "/usr/bin/busybox", "deny /usr/bin/wget"},
		{"@/bin/rm ls -r src", "/usr/bin/busybox", "allow :system"}, // hard links: argv[0] says what runs
	} {
		req := execute(c.line)
		req.Object.Raw = ""
		if c.alike != "" {
			req.Alike = []string{c.alike}
		}
		d := p.Decide(req)
		if got := strings.TrimSpace(d.Action.String() + " " + d.Rule); got != c.want && (c.want != "allow :system" || got != "allow :minimal") {
			t.Errorf("%s alike %q: %s (%s), want %s", c.line, c.alike, got, d.Reason, c.want)
		}
	}
	if got := p.NamedPrograms(); !slices.Contains(got, "/usr/bin/python3.11") || !slices.Contains(got, "/usr/bin/curl") || slices.Contains(got, "/usr/bin/busybox") {
		t.Errorf("named programs: %q", got)
	}
	var text strings.Builder
	for _, f := range p.Check() {
		text.WriteString(f.String() + "\n")
	}
	for _, want := range []string{
		"session.toml:5:1: note: /bin/python3: is a symbolic link: the rule is about /usr/bin/python3.11, to which it leads",
		"session.toml:6:1: note: /usr/bin/wget: is wget of /usr/bin/busybox, which is many programs",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("check does not say %q:\n%s", want, text.String())
		}
	}
}

// TestInterpreters: exec can speak of interpreters as a class; the stricter of it
// and commands counts.
func TestInterpreters(t *testing.T) {
	p := linked(t, "default_permissions = \"x\"\n[permissions.x]\nextends = \":workspace\"\n[permissions.x.exec]\n\":interpreters\" = \"ask\"\n")
	for _, line := range []string{"@/usr/bin/python3.11 python3", "bash -c x", "@/usr/bin/busybox sh", "@/home/u/ws/py py"} {
		req := execute(line)
		if strings.Contains(line, "/ws/") {
			req.Alike = []string{"/usr/bin/python3.11"}
		}
		if d := p.Decide(req); d.Action != event.ActionAsk || d.Risk != "interpreter" {
			t.Errorf("%s: %+v", line, d)
		}
	}
	if d := p.Decide(execute("ls")); d.Action != event.ActionAllow {
		t.Errorf("ls: %+v", d)
	}
	p = linked(t, "default_permissions = \"x\"\n[permissions.x]\nextends = \":workspace\"\n[permissions.x.exec]\n\":interpreters\" = \"allow\"\n[permissions.x.commands]\ninterpreter = \"deny\"\n")
	if d := p.Decide(execute("bash -c x")); d.Action != event.ActionDeny {
		t.Errorf("allow in exec lifts deny in commands: %+v", d)
	}
}

// TestLoads: the program that a loader is given.
func TestLoads(t *testing.T) {
	p := load(t, "")
	for line, want := range map[string]int{
		"/lib64/ld-linux-x86-64.so.2 x /usr/bin/ls":                     1,
		"/lib64/ld-linux-x86-64.so.2 --library-path /l /usr/bin/ls --x": 3,
		"/lib64/ld-linux-x86-64.so.2 --argv0 a --preload b ./x":         5,
		"/lib/ld-musl-x86_64.so.1 --library-path=/l ./x":                2,
		"/lib64/ld-linux-x86-64.so.2 --list ./x":                        0,
		"/lib64/ld-linux-x86-64.so.2 --version":                         0,
		"/lib64/ld-linux-x86-64.so.2":                                   0,
		"/usr/bin/ls x":                                                 0,
		"/lib64/ld-linux-x86-64.so.2 --library-path":                    0,
	} {
		argv := words(line)
		path := argv[0]
		if len(argv) > 1 && argv[1] == "x" {
			argv = append(argv[:1:1], argv[2:]...)
		}
		if got := p.Loads(path, argv); got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
}

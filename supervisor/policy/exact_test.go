package policy

import (
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// run is an exec of a command line in a directory.
func run(line, cwd string) *event.Request {
	req := execute(line)
	req.Task.Cwd = cwd
	return req
}

const exactText = `default_permissions = "x"
[permissions.base]
extends = ":workspace"
[[permissions.base.commands.rule]]
program = "/usr/bin/git"
argv = ["git", "push", "--force", ""]
cwd = "/home/u/ws"
action = "allow"
[[permissions.base.commands.rule]]
program = "/usr/bin/ls"
argv = ["ls", "-R"]
action = "deny"
reason = "takes for ever"
[[permissions.base.commands.rule]]
program = "git"
sub = "push"
action = "ask"
[permissions.x]
extends = "base"
`

// TestExactRules: a rule with argv is about one command, before other rules of its
// profile, and about nothing beside it.
func TestExactRules(t *testing.T) {
	p := load(t, "", source(Session, exactText))
	push := func(change func(*event.Request)) *event.Request {
		req := run("git push --force", "/home/u/ws")
		req.Argv = append(req.Argv, "")
		change(req)
		return req
	}
	for name, c := range map[string]struct {
		req  *event.Request
		want string
	}{
		"the command":        {push(func(*event.Request) {}), "allow commands.rule: git with these arguments"},
		"a word less":        {run("git push --force", "/home/u/ws"), "ask commands.rule: git push"},
		"a word more":        {push(func(r *event.Request) { r.Argv = append(r.Argv, "x") }), "ask commands.rule: git push"},
		"another word":       {push(func(r *event.Request) { r.Argv[2] = "-f" }), "ask commands.rule: git push"},
		"another directory":  {push(func(r *event.Request) { r.Task.Cwd = "/home/u/ws/sub" }), "ask commands.rule: git push"},
		"no known directory": {push(func(r *event.Request) { r.Task.Cwd = "" }), "ask commands.rule: git push"},
		"another program":    {push(func(r *event.Request) { r.Object.Path = "/usr/local/bin/git" }), "ask commands.rule: git push"},
		"a copy of another":  {push(func(r *event.Request) { r.Alike = []string{"/usr/bin/ssh"} }), "allow commands.rule: git with these arguments"},
		"denied":             {run("ls -R", "/srv"), "deny commands.rule: ls with these arguments"},
		"beside the denied":  {run("ls -R .", "/srv"), "allow :system"},
	} {
		d := p.Decide(c.req)
		if got := d.Action.String() + " " + d.Rule; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// The profile that extends says it before.
	p = load(t, "", source(Session, exactText+"[[permissions.x.commands.rule]]\nprogram = \"git\"\naction = \"deny\"\n"))
	if d := p.Decide(push(func(*event.Request) {})); d.Action != event.ActionDeny {
		t.Errorf("a profile's own rule: %v", d)
	}
	// Another layer says it besides.
	p = load(t, "", source(Envelope, "default_permissions = \"e\"\n[permissions.e.commands]\ndestructive = \"ask\"\n"), source(Session, exactText))
	if d := p.Decide(push(func(*event.Request) {})); d.Action != event.ActionAsk {
		t.Errorf("a layer above: %v", d)
	}
}

// asking is a user's file whose profile asks about commands.
const asking = `default_permissions = "mine"
[permissions.mine]
extends = ":workspace"
[permissions.mine.commands]
install = "ask"
remote = "deny"
`

// TestAmendCommand: always, said to a question about a command, allows that very
// command, in that directory.
func TestAmendCommand(t *testing.T) {
	const ws = "/home/u/ws"
	session := Source{"/home/u/build.toml", Session, []byte("default_permissions = \"s\"\n[permissions.s]\nextends = \":workspace\"\n")}
	project := Source{ws + "/.reeve.toml", Project, []byte("default_permissions = \"p\"\n[permissions.p.commands]\npublish = \"ask\"\n")}
	odd := run("git push", ws)
	odd.Argv = append(odd.Argv, "a \"b\"\\\n", "")
	bytes := run("git push", ws)
	bytes.Argv = append(bytes.Argv, "\xff")
	long := run("git push", ws)
	long.Argv = append(long.Argv, strings.Repeat("x", maxExactBytes))
	none := run("git push", ws)
	none.Argv = nil
	memory := run("git push", ws)
	memory.Object.Path, memory.Object.Kind = "/memfd:git (deleted)", event.ObjectMem
	setuid := run("passwd", ws)
	setuid.Object.Mode |= 0o4000
	interpreter := run("node /usr/bin/npm publish", ws)
	interpreter.Interprets = true
	inline := "[permissions.mine]\nextends = \":workspace\"\ncommands = { install = \"ask\" }\n"
	listed := "[permissions.mine]\nextends = \":workspace\"\n[permissions.mine.commands]\nrule = [{ program = \"git\", action = \"ask\" }]\n"
	for _, c := range []struct {
		name, user, profile string
		others              []Source
		req                 *event.Request
		lines, fault        string
	}{
		{"in a file that is there", asking, "", nil, run("git push --force origin", ws),
			"[[permissions.mine.commands.rule]]\nprogram = \"/usr/bin/git\"\nargv = [\"git\", \"push\", \"--force\", \"origin\"]\ncwd = \"" + ws + "\"\naction = \"allow\"\n", ""},
		{"the first rule", "", "", nil, run("git push", ws),
			"[permissions.workspace-edit-no-net]\nextends = \":workspace-edit-no-net\"\n[[permissions.workspace-edit-no-net.commands.rule]]\n", ""},
		{"odd words", asking, "", nil, odd, `argv = ["git", "push", "a \"b\"\\\u000A", ""]`, ""},
		{"a script", asking, "", nil, run("@/home/u/ws/npm npm publish", ws), "program = \"/home/u/ws/npm\"\nargv = [\"npm\", \"publish\"]\n", ""},
		{"its interpreter", asking, "", nil, run("npm publish", ws), "program = \"/usr/bin/npm\"\n", ""},
		{"set-user-ID", strings.Replace(asking, "install", "privileged", 1), "", nil, setuid, "argv = [\"passwd\"]", ""},
		{"another class", asking, "", nil, run("npm ci", ws), "argv = [\"npm\", \"ci\"]", ""},
		{"one's own rule", asking + "[[permissions.mine.commands.rule]]\nprogram = \"ls\"\naction = \"ask\"\n", "", nil, run("ls", ws), "program = \"/usr/bin/ls\"\n", ""},
		{"one's own rule about it", asking + "[[permissions.mine.commands.rule]]\nprogram = \"/usr/bin/ls\"\nargv = [\"ls\"]\naction = \"ask\"\n", "", nil, run("ls", ws), "", "just this"},
		{"denied", asking, "", nil, run("ssh host", ws), "", "denies it"},
		{"not UTF-8", asking, "", nil, bytes, "", "not UTF-8"},
		{"too long", asking, "", nil, long, "", "at most 512 words"},
		{"no arguments", asking, "", nil, none, "", ""},
		{"no file", asking, "", nil, memory, "", "a program without a file"},
		{"no directory", asking, "", nil, run("git push", ""), "", "where it runs is not known"},
		{"the session's own directory", asking, "", nil, run("git push", testHost().Tmp+"/x"), "", "goes with the session"},
		{"the project asks", "", "", []Source{project}, run("git push", ws), "", "(project), " + ws + "/.reeve.toml:"},
		{"a named file asks", "", "", []Source{session}, run("git push", ws), "", "stricter counts"},
		{"inline", inline, "mine", nil, run("git push", ws), "", "write it as [permissions.mine.commands]"},
		{"a list in the line", listed, "mine", nil, run("git push", ws), "", "write [[permissions.mine.commands.rule]] over each"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "no arguments" {
				if d := load(t, "", userSource(asking)).Decide(none); d.Action != event.ActionAllow {
					t.Errorf("git without arguments: %v", d)
				}
				return
			}
			exactRow(t, c.user, c.profile, c.others, c.req, c.lines, c.fault)
		})
	}
}

func exactRow(t *testing.T, user, profile string, others []Source, req *event.Request, lines, fault string) {
	t.Helper()
	amendRow(t, user, profile, others, req, lines, fault)
	if fault != "" {
		return
	}
	am, err := Amend(others, profile, testHost(), userSource(user), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	before, after := load(t, profile, append(others, userSource(user))...), load(t, profile, append(others, userSource(string(am.Text)))...)
	for name, change := range map[string]func(*event.Request){
		"a word more":       func(r *event.Request) { r.Argv = append(append([]string{}, r.Argv...), "--all") },
		"another directory": func(r *event.Request) { r.Task.Cwd += "/sub" },
		"another program":   func(r *event.Request) { r.Object.Path = "/usr/local" + r.Object.Path },
		"another name":      func(r *event.Request) { r.Argv = append([]string{"./" + r.Argv[0]}, r.Argv[1:]...) },
	} {
		other := *req
		change(&other)
		if a, b := before.Decide(&other), after.Decide(&other); a.Action != b.Action || a.Rule != b.Rule {
			t.Errorf("%s: was %v, is %v", name, a, b)
		}
	}
}

// TestLearnExact: what a command means is learned as the command that was run.
func TestLearnExact(t *testing.T) {
	const ws = "/home/u/ws"
	src := []Source{userSource(asking)}
	base := load(t, "", src...)
	cut := run("npm ci --long", ws)
	cut.Task.ArgvLen = 99999
	said := func(req *event.Request) *event.Request { // as a record has it
		req.Task.Argv = req.Argv
		return req
	}
	doc, _ := learned(t, base, src, false, said(run("npm ci", ws)), said(run("npm ci", ws)), said(run("pip3 install x", ws+"/a")), said(run("git push --force", ws)), said(run("ssh host", ws)), said(cut))
	for _, want := range []string{
		"\n[[permissions.learned.commands.rule]]  # 2 operations\nprogram = \"/usr/bin/npm\"\nargv = [\"npm\", \"ci\"]\ncwd = \"/home/u/ws\"\naction = \"allow\"\n",
		"argv = [\"pip3\", \"install\", \"x\"]\ncwd = \"/home/u/ws/a\"\n", "git push --force (--include-sensitive proposes it)", "recorded in part",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %q in:\n%s", want, doc)
		}
	}
	if strings.Contains(doc, "\"push\"") || strings.Contains(doc, "--long\"]") {
		t.Errorf("proposed without being asked for:\n%s", doc)
	}
	doc, _ = learned(t, base, src, true, said(run("git push --force", ws)))
	if !strings.Contains(doc, "argv = [\"git\", \"push\", \"--force\"]") {
		t.Errorf("not proposed:\n%s", doc)
	}
}

package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// designText is the form that other tools write already. It must load unchanged.
const designText = `default_permissions = "project-edit"
[permissions.project-edit]
description = "Project editing with narrow filesystem and network access."
extends = ":workspace"
[permissions.project-edit.filesystem]
":minimal" = "read"
[permissions.project-edit.filesystem.":workspace_roots"]
"." = "write"
".devcontainer" = "read"
".git" = "read"
"**/*.env" = "deny"
"**/*secret*" = "deny"
"**/*credential*" = "deny"
[permissions.project-edit.network]
enabled = true
[permissions.project-edit.network.domains]
"api.openai.com" = "allow"
"*.github.com" = "allow"
"tracking.example.com" = "deny"
`

func TestDesignExample(t *testing.T) {
	for _, layer := range []Layer{Session, User, Envelope} {
		p := load(t, "", Source{Name: "design.toml", Layer: layer, Text: []byte(designText)})
		if p.Name() != "project-edit" {
			t.Errorf("%v: profile %q", layer, p.Name())
		}
		for text, want := range map[string]string{
			"write /home/u/ws/main.go":                "ok",
			"read /home/u/ws/prod.env":                "no",
			"read /home/u/ws/a/b/prod.env":            "no",
			"read /home/u/ws/my-secrets.txt":          "no",
			"read /home/u/ws/my-secrets/x":            "no",
			"read /home/u/ws/aws-credentials":         "no",
			"write /home/u/ws/.git/index":             "no",
			"read /home/u/ws/.git/index":              "ok",
			"read /home/u/ws/.devcontainer/x":         "ok",
			"write /home/u/ws/.devcontainer/x":        "no",
			"read /usr/bin/ls":                        "ok",
			"read /home/u/notes":                      "no",
			"exec /usr/bin/ls":                        "ok",
			"read /etc/localtime":                     "ok",
			"read /usr/lib/python3/secrets.py":        "ok",
			"read /home/u/go/pkg/mod/x/credential.go": "ok",
		} {
			if d := p.Decide(ask(text)); outcome(d) != want {
				t.Errorf("%v: %s: %s (%s, %s), want %s", layer, text, outcome(d), d.Rule, d.Reason, want)
			}
		}
		d := p.Decide(dial("connect 140.82.112.3 443"))
		if outcome(d) != "no" || !strings.Contains(d.Reason, "domains are not enforced") {
			t.Errorf("%v: connect: %+v", layer, d)
		}
		d = p.Decide(ask("read /home/u/ws/prod.env"))
		if d.Rule != "**/*.env" || d.By != "policy:project-edit" {
			t.Errorf("%v: rule %q by %q", layer, d.Rule, d.By)
		}
		e := p.Explain(ask("read /home/u/ws/prod.env"))
		if e.Pos != (Pos{"design.toml", 11, 1}) || e.Enforced != "gate" || e.Decision.Action != event.ActionDeny {
			t.Errorf("%v: explained at %v by %q, %v", layer, e.Pos, e.Enforced, e.Decision.Action)
		}
	}
}

const head = "[permissions.x]\nextends = \":workspace\"\n"

var faultTable = []struct{ text, want string }{
	{"default_permission = \"x\"", `p.toml:1:1: unknown key "default_permission" in the file; did you mean "default_permissions"?`},
	{"default_permissions = 3", "p.toml:1:23: the file.default_permissions is a number; expected a text in quotes"},
	{"[permissions.x]\nextend = \":workspace\"", `p.toml:2:1: unknown key "extend" in permissions.x; did you mean "extends"?`},
	{head + "[permissions.x.filesystem]\n\"/x\" = \"wirte\"", `p.toml:4:8: permissions.x.filesystem."/x" is "wirte"; did you mean "write"?`},
	{head + "[permissions.x.filesystem]\n\"src\" = \"write\"", `p.toml:4:1: pattern "src" in permissions.x.filesystem is not absolute; begin it with /`},
	{head + "[permissions.x.filesystem]\n\"~v/x\" = \"read\"", "only ~/ is expanded"},
	{head + "[permissions.x.filesystem]\n\":minmal\" = \"read\"", `unknown special ":minmal" in permissions.x.filesystem; did you mean ":minimal"?`},
	{head + "[permissions.x.filesystem]\n\":minimal\" = { \".\" = \"read\" }", `":minimal" cannot be a table`},
	{head + "[permissions.x.filesystem.\":workspace_roots\"]\n\"/etc\" = \"read\"", `pattern "/etc" below ":workspace_roots" is not relative`},
	{head + "[permissions.x.filesystem.\":workspace_roots\"]\n\"../x\" = \"read\"", `p.toml:4:1: pattern "../x"`},
	{head + "[permissions.x.filesystem]\n\"/a[\" = \"read\"", `p.toml:4:1: pattern "/a["`},
	{head + "[permissions.x.filesystem]\n\"/a\" = \"read\"\n\"/a\" = \"read\"", `p.toml:5:1: key "/a" is written twice, first at p.toml:4:1`},
	{head + head, `p.toml:3:14: the table is written twice, first at p.toml:1:14`},
	{"[[permissions]]", "a list of tables"},
	{head + "[permissions.x.commands]\ndestructve = \"ask\"", `unknown key "destructve" in permissions.x.commands; did you mean "destructive"?`},
	{head + "[permissions.x.commands]\nremote = \"aks\"", `p.toml:4:10: permissions.x.commands.remote is "aks"; did you mean "ask"?`},
	{head + "[permissions.x.commands]\nbulk = { files = 5 }", "p.toml:4:8: permissions.x.commands.bulk needs files, window and action"},
	{head + "[permissions.x.commands]\nbulk = { files = 999999, window = \"1s\", action = \"ask\" }", "more than 10000"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"git\"", "p.toml:3:26: a rule of permissions.x.commands.rule needs either a class or an action"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"git\"\nclass = \"remote\"\naction = \"deny\"", "needs either a class or an action"},
	{head + "[[permissions.x.commands.rule]]\naction = \"deny\"", "names no program"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/usr/bin/git\"\naction = \"deny\"", "is not the name of a program; a program is called by its file name"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"git\"\nargv = [\"git\"]\naction = \"allow\"", "p.toml:3:26: a rule of permissions.x.commands.rule with argv needs one program by its absolute path"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/bin/../git\"\nargv = [\"git\"]\naction = \"allow\"", "by its absolute path"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/bin/git\"\nargv = []\naction = \"allow\"", "has no argv"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/bin/git\"\ncwd = \"/x\"\naction = \"allow\"", "has no argv"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/bin/git\"\nargv = [\"git\", 5]\naction = \"allow\"", "p.toml:5:16: permissions.x.commands.rule.argv holds a number"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/bin/git\"\nargv = [\"git\", \"\\u0000\"]\naction = \"allow\"", "holds a NUL"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/bin/git\"\nargv = [\"git\"]\ncwd = \"x\"\naction = \"allow\"", "cwd of a rule of permissions.x.commands.rule is no absolute path"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/bin/git\"\nargv = [\"git\"]\ncwd = \"/x\"\naction = \"deny\"", "has cwd and does not allow; leave cwd out"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"/bin/git\"\nargv = [\"git\"]\nsub = \"push\"\naction = \"deny\"", `unknown key "sub" in permissions.x.commands.rule`},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"git\"\nflags = [\"force\"]\naction = \"deny\"", `p.toml:5:1: "force" in permissions.x.commands.rule.flags is no option`},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"git\"\noperands = [\":outsde\"]\naction = \"deny\"", `did you mean ":outside"?`},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"git\"\nvalues = \"-c\"\naction = \"deny\"", "has only one of values and texts"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"git\"\nklass = \"remote\"\naction = \"deny\"", `unknown key "klass"`},
	{head + "[permissions.x.commands]\nrule = 3", "permissions.x.commands.rule is a number; write [[permissions.x.commands.rule]] over each"},
	{head + "[permissions.x.commands.rule]\nprogram = \"git\"", "permissions.x.commands.rule is a table; write [[permissions.x.commands.rule]] over each"},
	{head + "[[permissions.x.commands.rule]]\nprogram = \"git\"\naction = \"deny\"\n[permissions.x.commands.rule]", "the table is written twice"},
	{head + "[permissions.x.exec]\n\":interpreters\" = \"read\"", `is "read"; expected one of: allow, ask, deny`},
	{"[permissions.x]\nextends = \"y\"", `p.toml:2:11: profile "x" extends "y", which is not there`},
	{"[permissions.x]\nextends = \"y\"\n[permissions.y]\nextends = \"x\"", "profiles extend one another in a circle: x → y → x"},
	{"[permissions.x]\nextends = \"x\"", "in a circle: x → x"},
	{"[permissions.x]\nextends = \":workspce\"", `did you mean ":workspace"?`},
	{"default_permissions = \"x\"", `there is no profile "x"`},
	{"[permissions.x.network]\nenabled = \"yes\"", "p.toml:2:11: permissions.x.network.enabled is a text; expected true or false"},
	{"[permissions.x.network.domains]\n\"1.2.3.4/8\" = \"allow\"", "is not a domain"},
	{"[permissions.x.network.domains]\n\"a.example\" = \"read\"", `is "read"; expected one of: allow, ask, deny`},
	{"[permissions.x.network.addresses]\n\"300.1.1.1\" = \"allow\"", "is not an address"},
	{"[permissions.x.network.addresses]\n\"1.2.3.4:0\" = \"allow\"", "is not an address"},
	{"[permissions.x.network]\nmode = \"limitd\"", `did you mean "limited"?`},
	{"[permissions.x.kernel]\nallow = [\"muont\"]", `did you mean "mount"?`},
	{"[permissions.x.capabilities]\nkeep = [\"CAP_CHOWNN\"]", `did you mean "chown"?`},
	{"[permissions.x.env]\ndeny = [\"A=B\"]", "is not a pattern of names"},
	{"[permissions.x.env]\ninherit = [\":defalt\"]", "is not a pattern of names"},
	{"[permissions.x.env.set]\n\"A=B\" = \"c\"", "cannot be an environment variable"},
	{"[permissions.x.limits]\nmemory = \"4 gigs\"", `expected a size such as "512MiB"`},
	{"[permissions.x.limits]\nprocesses = 0", "expected a whole number above zero"},
	{"[permissions.x.approval]\ntimeout = \"soon\"", "expected a time above zero"},
	{"[permissions.x.exec]\n\":memory\" = \"ask\"", `expected one of: allow, deny`},
	{"[permissions.x.secrets]\n\"/x\" = \"deny\"", "expected one of: read, write"},
	{"[permissions.\":x\"]", "names with : in front are built in"},
	{"a = ", "p.toml:1:"},
	{"[permissions.x\n", "p.toml:1:"},
	{"\xff", "not valid UTF-8"},
}

func TestFaults(t *testing.T) {
	for _, row := range faultTable {
		_, err := Load([]Source{{Name: "p.toml", Layer: Session, Text: []byte(row.text)}}, "x", testHost())
		if err == nil {
			_, err = Load([]Source{{Name: "p.toml", Layer: Session, Text: []byte(row.text)}}, "", testHost())
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q:\n got %v\nwant %s", row.text, err, row.want)
			continue
		}
		var faults Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Errorf("%q: %T is no Faults", row.text, err)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	text := "x = 1\n[permissions.a]\ny = 2\n[permissions.a.filesystem]\n\"/a\" = \"z\"\n"
	_, err := Load([]Source{{Name: "p.toml", Layer: Session, Text: []byte(text)}}, "", testHost())
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Fatalf("%v", err)
	}
	for i, line := range []int{1, 3, 5} {
		if faults[i].Pos.Line != line {
			t.Errorf("fault %d at %v", i, faults[i].Pos)
		}
	}
}

func TestUnknownProfile(t *testing.T) {
	_, err := Load(nil, "workspace-edit-nonet", testHost())
	if err == nil || !strings.Contains(err.Error(), `did you mean "workspace-edit-no-net"?`) {
		t.Errorf("%v", err)
	}
}

func TestTooLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString("[permissions.x.filesystem]\n")
	words := []string{"deny", "read", "write", "ask"} // outcomes that cannot be grouped
	for i := range 200 {
		b.WriteString("\"/**/*" + strings.Repeat(string(rune('a'+i%26)), 3+i) + "*x*y*z*\" = \"" + words[i%len(words)] + "\"\n")
	}
	_, err := Load([]Source{{Name: "p.toml", Layer: Session, Text: []byte(b.String())}}, "x", testHost())
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v", err)
	}
}

func TestManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("[permissions.x]\nextends = \":workspace\"\n[permissions.x.filesystem]\n")
	for i := range 500 {
		word := []string{"read", "deny", "write", "hide"}[i%4]
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		pattern := []string{"~/" + name + "/**/x" + name, "~/p" + name, "~/q/*" + name + ".txt", "~/r/**/" + name + "*.c"}[i%4]
		b.WriteString("\"" + pattern + "\" = \"" + word + "\"\n")
	}
	if _, err := Load([]Source{{Name: "p.toml", Layer: Session, Text: []byte(b.String())}}, "x", testHost()); err != nil {
		t.Error(err)
	}
}

func TestBuiltInTexts(t *testing.T) {
	for _, name := range BuiltInProfiles() {
		text, ok := BuiltInText(name)
		if !ok {
			t.Errorf("%s: no text", name)
		}
		// A person's copy under another name is the same policy.
		src := Source{Name: "copy.toml", Layer: Session, Text: []byte(strings.ReplaceAll(text, "permissions."+name, "permissions.copy"))}
		mine, theirs := load(t, "copy", src), load(t, name)
		for _, row := range profileTable {
			text, _, _ := strings.Cut(row, "|")
			req := ask(strings.TrimSpace(text))
			if a, b := mine.Decide(req), theirs.Decide(req); a.Action != b.Action || a.Errno != b.Errno {
				t.Errorf("%s: %s: copy %v, built in %v", name, text, a, b)
			}
		}
	}
}

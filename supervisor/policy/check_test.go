package policy

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", file, got)
	}
}

const poorText = `default_permissions = "poor"
[permissions.poor]
description = "Everything that check has a word for."
extends = ":workspace"
[permissions.poor.filesystem]
"/" = "read"
"~" = "read"
"~/*" = "read"
"/home" = "read"
"~/data" = "write"
"~/data/**" = "deny"
"~/hidden" = "hide"
"/usr/**/*.conf" = "deny"
"~/q" = "ask-write"
[permissions.poor.exec]
"/usr/bin/curl" = "deny"
[permissions.poor.secrets]
"/**/.env" = "read"
"/usr/**" = "read"
[permissions.poor.network]
enabled = true
mode = "full"
[permissions.poor.network.domains]
"example.com" = "allow"
[permissions.poor.network.addresses]
"*" = "allow"
[permissions.poor.kernel]
allow = ["bpf"]
[permissions.poor.limits]
processes = 10
`

const projectText = `default_permissions = "p"
[permissions.p.secrets]
"/ws/.env" = "read"
[permissions.p.env.set]
PATH = "/x"
[permissions.p.network.domains]
"a.example" = "deny"
`

func TestCheck(t *testing.T) {
	var b strings.Builder
	for _, sources := range [][]Source{{source(Session, poorText), source(Project, projectText)}, {source(User, designText)}} {
		for _, f := range load(t, "", sources...).Check() {
			b.WriteString(f.String() + "\n")
		}
		b.WriteString("\n")
	}
	golden(t, "check.golden", b.String())
	for _, name := range BuiltInProfiles() {
		if found := load(t, name).Check(); len(found) != 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
	h := testHost()
	h.Workspaces = []string{"/home/u"}
	p, err := Load(nil, "", h)
	if err != nil {
		t.Fatal(err)
	}
	if found := p.Check(); len(found) != 1 || !strings.Contains(found[0].Text, "holds the home directory") {
		t.Errorf("a workspace that is the home directory: %v", found)
	}
}

func TestExpand(t *testing.T) {
	golden(t, "expand.golden", load(t, "", source(Session, poorText)).Expand())
}

// TestNeverDecides: a rule for which no path is left is warned of, with its line; one
// for which there is a path is not, and alone each of them decides.
func TestNeverDecides(t *testing.T) {
	const head = "default_permissions = \"n\"\n[permissions.n]\nextends = \":workspace\"\n[permissions.n.filesystem]\n"
	for _, c := range []struct {
		name, dead string // the rule in question
		others     []string
		path       string // that it alone would decide
		alive      bool
	}{
		{"everything below has another rule", `"~/c/**" = "read"`, []string{`"~/c/*" = "deny"`}, "/home/u/c/x/y", false},
		{"each alternative has another rule", `"~/q[ab]" = "deny"`, []string{`"~/qa" = "read"`, `"~/qb" = "read"`}, "/home/u/qa", false},
		{"one alternative has none", `"~/q[abc]" = "deny"`, []string{`"~/qa" = "read"`, `"~/qb" = "read"`}, "/home/u/qc", true},
		{"a longer prefix matches all of it", `"~/{dx,dy}" = "deny"`, []string{`"~/d*" = "read"`}, "/home/u/dx", false},
		{"a longer prefix matches a part", `"~/{dx,e}" = "deny"`, []string{`"~/d*" = "read"`}, "/home/u/e", true},
		{"as specific and stricter", `"~/e/**/*.x" = "read"`, []string{`"~/e/**/*.*x" = "deny"`}, "/home/u/e/f.x", false},
		{"as specific and milder", `"~/e/**/*.x" = "deny"`, []string{`"~/e/**/*.y" = "read"`}, "/home/u/e/f.x", true},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			warned := func(rules ...string) (at []Pos) {
				for _, f := range load(t, "", source(Session, head+strings.Join(rules, "\n")+"\n")).Check() {
					if strings.HasPrefix(f.Text, "never decides") && f.Severity == Warning {
						at = append(at, f.Pos)
					}
				}
				return at
			}
			rule, _, _ := strings.Cut(strings.TrimPrefix(c.dead, `"`), `"`)
			if d := load(t, "", source(Session, head+c.dead+"\n")).Decide(ask("read " + c.path)); d.Rule != rule {
				t.Errorf("control: alone, %s is decided by %q", c.path, d.Rule)
			}
			if at := warned(c.dead); len(at) != 0 {
				t.Errorf("alone, it is warned of: %v", at)
			}
			at := warned(append(c.others, c.dead)...)
			if want := (Pos{"session.toml", 5 + len(c.others), 1}); (len(at) == 1 && at[0] == want) == c.alive || len(at) > 1 {
				t.Errorf("warnings at %v, want one at %v: %v", at, want, !c.alive)
			}
			if d := load(t, "", source(Session, head+strings.Join(append(c.others, c.dead), "\n")+"\n")).Decide(ask("read " + c.path)); (d.Rule == rule) != c.alive {
				t.Errorf("%s is decided by %q", c.path, d.Rule)
			}
		})
	}
}

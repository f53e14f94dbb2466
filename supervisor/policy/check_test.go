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

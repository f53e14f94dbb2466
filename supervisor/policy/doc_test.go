package policy

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedLanguage loads every example of the package's documentation.
func TestDocumentedLanguage(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var text, block strings.Builder
	examples := 0
	flush := func() {
		if b := block.String(); strings.Contains(b, "[permissions.") {
			text.WriteString(b)
			examples++
		}
		block.Reset()
	}
	for _, line := range strings.Split(string(doc), "\n") {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			block.WriteString(code + "\n")
		} else if line != "//" {
			flush()
		}
	}
	if examples < 6 {
		t.Fatalf("only %d examples found", examples)
	}
	p := load(t, "", source(Session, text.String()))
	for text, want := range map[string]string{
		"read /home/u/data/x": "ok", "write /home/u/data/x": "no", "read /srv/a/b.sqlite": "no", "write /home/u/ws/x": "ok", "read /home/u/ws/a/b.pem": "no",
		"exec /usr/bin/curl": "no", "write /home/u/ws/.github/x": "ok",
	} {
		if d := p.Decide(ask(text)); outcome(d) != want {
			t.Errorf("%s: %s (%s, %s), want %s", text, outcome(d), d.Rule, d.Reason, want)
		}
	}
	if d := p.Decide(dial("connect 192.0.2.7 443")); outcome(d) != "ok" {
		t.Errorf("connect: %s", d.Reason)
	}
}

// TestReadmePolicies loads every policy that README shows.
func TestReadmePolicies(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```toml\n")[1:]
	if len(blocks) < 2 {
		t.Fatalf("%d policies found", len(blocks))
	}
	for _, b := range blocks {
		text, _, _ := strings.Cut(b, "```")
		p := load(t, "", source(Session, text))
		if p.Name() != "agent" {
			continue
		}
		for text, want := range map[string]string{
			"write /home/u/.claude.json": "ok", "make /home/u/.claude.json.tmp.1.a": "ok", "make /home/u/.claude/projects/x/y.jsonl": "ok",
			"read /home/u/.claude/.credentials.json": "ok", "write /home/u/.claude/settings.json": "no", "make /home/u/.claude/hooks/x": "no",
			"read /home/u/.ssh/id_rsa": "no", "write /home/u/ws/x": "ok", "write /home/u/ws/.claude/settings.json": "no",
		} {
			if d := p.Decide(ask(text)); outcome(d) != want {
				t.Errorf("%s: %s (%s, %s), want %s", text, outcome(d), d.Rule, d.Reason, want)
			}
		}
		if d := p.Decide(dial("connect 192.0.2.7 443")); outcome(d) != "ok" {
			t.Errorf("connect: %s", d.Reason)
		}
	}
}

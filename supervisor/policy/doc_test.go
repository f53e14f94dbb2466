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

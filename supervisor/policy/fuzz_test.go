package policy

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// FuzzParse: whatever the bytes, loading ends in a policy or in faults with a
// place, and a policy that loads can be asked, lowered and explained.
func FuzzParse(f *testing.F) {
	f.Add(designText)
	f.Add(poorText)
	f.Add(projectText)
	f.Add(netText)
	for _, name := range BuiltInProfiles() {
		text, _ := BuiltInText(name)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Load([]Source{{Name: "f.toml", Layer: Session, Text: []byte(text)}}, "", testHost())
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		for _, path := range []string{"/usr/bin/ls", "/home/u/ws/.git/config", "/home/u/.ssh/id_rsa"} {
			req := ask("read " + path)
			if d, e := p.Decide(req), p.Explain(req); d != e.Decision {
				t.Errorf("%s: decided %+v, explained %+v", path, d, e.Decision)
			}
		}
		if d := p.Decide(ask("read /home/u/.local/state/reeve/x")); outcome(d) == "ok" {
			t.Error("a policy opens reeve's own state")
		}
		if _, err := p.Lower(); err != nil {
			t.Error(err)
		}
		p.Check()
		p.Env([]string{"PATH=/usr/bin", "X_TOKEN=1"})
	})
}

// FuzzGitConfig: what we read of git's settings is what git reads.
func FuzzGitConfig(f *testing.F) {
	git, err := exec.LookPath("git")
	if err != nil {
		f.Skip("git is not installed")
	}
	for _, text := range []string{"[core]\n\tbare = false\n", "[a \"b\\\"c\"] k = \"x;y\" # z\n", "[a.b]\nk\n", "[a]k=v\\\n w\r\n", "[include]\npath=x\n"} {
		f.Add(text)
	}
	p, err := Load(nil, "", testHost())
	if err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(f.TempDir(), "config")
	f.Fuzz(func(t *testing.T, text string) {
		checkGit(p, "/home/u/ws/.git/config", text)
		compareGit(t, git, file, text)
	})
}

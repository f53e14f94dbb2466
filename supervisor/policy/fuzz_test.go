package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// fuzzImport: whatever the bytes, an import ends in a policy that loads, or in
// faults that say something; never in a bug of ours, and never in an opening of
// reeve's own.
func fuzzImport(f *testing.F, from, name string, seeds ...string) {
	files, err := filepath.Glob("testdata/import/*" + filepath.Ext(name))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := Import(from, Source{Name: name, Text: text}, importHost())
		switch {
		case err != nil && (err.Error() == "" || strings.Contains(err.Error(), "bug:")):
			t.Fatalf("%q", err)
		case err != nil:
			return
		}
		p, err := Load([]Source{{Name: "i.toml", Layer: Session, Text: []byte(out.Text)}}, "", importHost())
		if err != nil {
			t.Fatal(err)
		}
		if d := p.Decide(ask("read /home/u/.local/state/reeve/x")); outcome(d) == "ok" {
			t.Error("an import opens reeve's own state")
		}
		for _, tr := range out.Translations {
			if tr.String() == "" || tr.Text == "" {
				t.Errorf("a translation without words: %+v", tr)
			}
		}
	})
}

func FuzzImportSRT(f *testing.F)    { fuzzImport(f, "srt", "s.json") }
func FuzzImportClaude(f *testing.F) { fuzzImport(f, "claude-code", "c.json") }
func FuzzImportCodex(f *testing.F) {
	fuzzImport(f, "codex", "c.toml", "[permissions.a]\nextends = \"b\"\n[permissions.b]\nextends = \"a\"\n")
}
func FuzzImportCodexRules(f *testing.F) {
	fuzzImport(f, "codex", "c.rules", "prefix_rule(pattern=['a', ['b', 'c'], '-xy', '--z'], decision='prompt')")
}
func FuzzImportAgentsh(f *testing.F) {
	fuzzImport(f, "agentsh", "a.yaml", "a: &a [*a]\n", "file_rules: [{paths: ['{a/b,c}', '[', '\\\\'], decision: x}]\n")
}

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// importHost is the host of the golden files: a workspace in the home directory.
func importHost() Host {
	return Host{Home: "/home/u", User: "u", UID: 1000, Workspaces: []string{"/home/u/ws"}, Tmp: "/tmp/reeve-01S", StateDir: "/home/u/.local/state/reeve"}
}

var importFiles = []struct {
	from, file string
	fidelity   Fidelity
}{
	{"srt", "srt.json", FidelityOpen}, {"srt", "srt-plain.json", FidelityStricter}, {"claude-code", "claude.json", FidelityOpen}, {"claude-code", "claude-plain.json", FidelityOpen},
	{"codex", "codex.toml", FidelityOpen}, {"codex", "codex-read-only.toml", FidelityExact}, {"codex", "codex-permissions.toml", FidelityStricter}, {"codex", "codex.rules", FidelityStricter},
	{"agentsh", "agentsh.yaml", FidelityOpen},
}

// TestImport compares what each file becomes with its golden: the policy, and
// every part that did not come over by itself. What it becomes loads, and check
// finds nothing wrong with it but what the file itself says.
func TestImport(t *testing.T) {
	for _, row := range importFiles {
		text, err := os.ReadFile(filepath.Join("testdata/import", row.file))
		if err != nil {
			t.Fatal(err)
		}
		out, err := Import(row.from, Source{Name: row.file, Text: text}, importHost())
		if err != nil {
			t.Errorf("%s: %v", row.file, err)
			continue
		}
		if out.Fidelity() != row.fidelity {
			t.Errorf("%s: %v, want %v", row.file, out.Fidelity(), row.fidelity)
		}
		var b strings.Builder
		for _, tr := range out.Translations {
			b.WriteString("# " + tr.String() + "\n")
		}
		golden(t, "import/"+row.file+".golden", b.String()+out.Text)
		p := load(t, "", Source{Name: "imported.toml", Layer: Session, Text: []byte(out.Text)})
		for _, f := range p.Check() {
			if f.Severity == Warning && !strings.Contains(f.Text, "names are not enforced yet") && !strings.Contains(f.Text, "opens the whole file system") {
				t.Errorf("%s: %s", row.file, f)
			}
		}
	}
}

var importFaults = []struct{ from, name, text, want string }{
	{"srt", "s.json", "{", "s.json:1:1: unexpected end of JSON input"},
	{"srt", "s.json", "{\"a\": 1, \"a\": 2}", `s.json:1:10: key "a" is written twice, first at s.json:1:2`},
	{"srt", "s.json", "[1]", "s.json:1:1: the file is not a JSON object"},
	{"srt", "s.json", "{} {}", "s.json:1:4: invalid character '{' after top-level value"},
	{"srt", "s.json", "{\n  // no\n}", "s.json:2:3: invalid character '/'"},
	{"srt", "s.json", "{\"network\": {\"allowedDomains\": \"x\\ud800\", \"allowLocalBinding\": 3}}", "s.json:1:64: network.allowLocalBinding is a number; expected a truth value"},
	{"srt", "s.json", "{\"filesystem\": {\"denyRead\": [1, {}]}}", "s.json:1:33: filesystem.denyRead holds a table; expected a text"},
	{"srt", "s.json", "{\"filesystem\": null}", "s.json:1:16: null says nothing; leave the key out"},
	{"srt", "s.json", "\xff", "the file is not valid UTF-8"},
	{"srt", "s.json", strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested deeper than"},
	{"claude-code", "c.json", "{\"permissions\": {\"allow\": 1}}", "c.json:1:27: permissions.allow is a number; expected a list"},
	{"claude-code", "c.json", "{\"env\": {\"A=B\": \"x\"}}", "env.A=B is not a variable"},
	{"codex", "c.toml", "a = = 1", "c.toml:1:5: "},
	{"codex", "c.toml", "[permissions.x]\nextends = \"y\"\n", `profile "x" extends "y", which is not there`},
	{"codex", "c.toml", "[permissions.x.filesystem]\n\"/a\" = 3\n", "c.toml:2:8: permissions.x.filesystem./a is a number"},
	{"codex", "c.rules", "prefix_rule(pattern=[\"a\"], decision=\"maybe\")", "c.rules:1:1: the rule has no pattern, or a decision that is not known"},
	{"codex", "c.rules", "x = 1", "c.rules:1:3: something else than a call"},
	{"codex", "c.rules", "prefix_rule(pattern=[f(x)])", "c.rules:1:22: a value of another kind"},
	{"codex", "c.rules", "define_rule(a='b')", "c.rules:1:1: define_rule is not a rule"},
	{"codex", "c.rules", "prefix_rule(pattern=['a\n'])", "a text that does not end"},
	{"agentsh", "a.yaml", "a: [", "a.yaml:"},
	{"agentsh", "a.yaml", "a: 1\na: 2\n", `a.yaml:2:1: key "a" is written twice, first at a.yaml:1:1`},
	{"agentsh", "a.yaml", "- a\n", "the file is not a YAML mapping"},
	{"agentsh", "a.yaml", "a: 1\n---\nb: 2\n", "more than one document"},
	{"agentsh", "a.yaml", "file_rules: 3\n", "a.yaml:1:13: file_rules is a number; expected a list"},
	{"agentsh", "a.yaml", "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n", "more than 50000 values"},
	{"agentsh", "a.yaml", "a: !!binary aGk=\n", "a value with the tag"},
}

func TestImportFaults(t *testing.T) {
	for _, row := range importFaults {
		out, err := Import(row.from, Source{Name: row.name, Text: []byte(row.text)}, importHost())
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "bug:") {
			t.Errorf("%.60q: got %v %v, want %q", row.text, err, out, row.want)
		}
	}
	if _, err := Import("cursor", Source{}, importHost()); err == nil || !strings.Contains(err.Error(), "expected one of: codex") {
		t.Errorf("an unknown tool: %v", err)
	}
}

// importTable has single rules of other tools and what becomes of them: part of
// the policy, and part of what is said.
var importTable = []struct{ from, name, text, policy, said string }{
	{"claude-code", "c.json", `{"permissions":{"deny":["Read(!x)"]}}`, "", "not held: permissions.deny Read(!x): takes something out"},
	{"claude-code", "c.json", `{"permissions":{"deny":["Read(x{y})"]}}`, `"**/x\\{y\\}" = "deny"`, ""},
	{"claude-code", "c.json", `{"permissions":{"deny":["Read(../x)"]}}`, `"/home/u/x" = "deny"`, "note: permissions.deny Read(../x): is /home/u/x"},
	{"claude-code", "c.json", `{"permissions":{"deny":["Read"]}}`, "[permissions.claude-code.always.\":home\"]\n\".\" = \"deny\"", "not held: permissions.deny Read: holds in the workspace"},
	{"claude-code", "c.json", `{"permissions":{"deny":["Bash(git:*)"]}}`, "program = \"git\"\naction = \"deny\"", ""},
	{"claude-code", "c.json", `{"permissions":{"deny":["Bash(git*)"]}}`, "program = \"git\"\naction = \"deny\"", "not held: permissions.deny Bash(git*): holds for \"git\" only"},
	{"claude-code", "c.json", `{"permissions":{"deny":["Bash(find * -delete)"]}}`, "program = \"find\"\naction = \"deny\"", "stricter: permissions.deny Bash(find * -delete): holds for every call of \"find\""},
	{"claude-code", "c.json", `{"permissions":{"deny":["Bash(find -delete:*)"]}}`, "program = \"find\"\naction = \"deny\"", "holds for every call of \"find\""},
	{"claude-code", "c.json", `{"permissions":{"deny":["Bash(curl x | sh)"]}}`, "program = \"curl\"\nsub = \"x\"\naction = \"deny\"", "stricter"},
	{"claude-code", "c.json", `{"permissions":{"deny":["Bash(FOO=1 make:*)"]}}`, "program = \"make\"\naction = \"deny\"", "stricter"},
	{"claude-code", "c.json", `{"permissions":{"deny":["Bash"]}}`, "", "not held: permissions.deny Bash: no rule is written: it is about every command"},
	{"claude-code", "c.json", `{"permissions":{"deny":["WebFetch"]}}`, `"*" = "deny"`, "not held: permissions.deny WebFetch"},
	{"claude-code", "c.json", `{"permissions":{"defaultMode":"bypassPermissions"}}`, "", "stricter: permissions.defaultMode bypassPermissions: opens more"},
	{"claude-code", "c.json", `{"permissions":{"defaultMode":"plan"}}`, "[permissions.claude-code.filesystem.\":workspace_roots\"]\n\".\" = \"read\"", "Claude Code refuses commands"},
	{"claude-code", "c.json", `{"permissions":{"allow":["Edit(~/docs/**)","Read(~/docs/a/**)"]}}`, "\"~/docs/**\" = \"write\"  # line 1\n\n", ""},
	{"claude-code", "c.json", `{"permissions":{"allow":["Read(~/.ssh/config)"]}}`, `"~/.ssh/config" = "read"`, "stays closed, as a secret"},
	{"srt", "s.json", `{"network":{"allowedDomains":["api.x.com","b.org"],"deniedDomains":["*.x.com"]}}`, "\"b.org\" = \"allow\"  # line 1\n\"*.x.com\" = \"deny\"", ""},
	{"srt", "s.json", `{"network":{"allowedDomains":["[::1]:80","::2","a b"],"deniedDomains":["10.0.0.0/8:22"]}}`, "\"[::1]:80\" = \"allow\"  # line 1\n\"[::2]\" = \"allow\"", "is not a name that can be told here"},
	{"srt", "s.json", `{"network":{"allowAllDomains":true,"allowAllUnixSockets":true},"filesystem":{"disabled":true,"denyRead":["/etc"]}}`, `mode = "full"`, "filesystem.denyRead /etc: what programs cannot start without"},
	{"srt", "s.json", `{"filesystem":{"allowWrite":["../out"],"denyWrite":["a[b"]}}`, `"/home/u/out" = "write"`, "not held: filesystem.denyWrite a[b: is not a path or pattern here"},
	{"codex", "c.toml", "sandbox_mode = \"danger-full-access\"\n", "[permissions.codex.filesystem.\":workspace_roots\"]\n\".\" = \"write\"", "stricter: sandbox_mode danger-full-access: opens more"},
	{"codex", "c.toml", "sandbox_mode = \"workspace-write\"\n[shell_environment_policy]\ninherit = \"none\"\n", "inherit = [\"" + noVariable + "\"]", ""},
	{"codex", "c.toml", "default_permissions = \":danger\"\n[permissions.x]\n", "", "stricter: default_permissions :danger: is not known"},
	{"codex", "c.toml", "surprise = 1\n", "", "not held: surprise: reeve does not know this key"},
	{"agentsh", "a.yaml", "file_rules:\n- {name: a, paths: ['${NOPE}/x'], decision: deny}\n", "", "not held: file_rules a ${NOPE}/x: is left out"},
	{"agentsh", "a.yaml", "file_rules:\n- {name: a, paths: ['${GIT_ROOT:-${PROJECT_ROOT}}/x/**'], operations: [read], decision: allow}\n", `"x/**" = "read"`, ""},
	{"agentsh", "a.yaml", "file_rules:\n- {name: a, paths: ['/data/*.db'], decision: deny}\n- {name: b, paths: ['/data/**'], decision: allow}\n", `"/data/*.db" = "deny"`, ""},
	{"agentsh", "a.yaml", "network_rules:\n- {name: a, domains: ['*'], decision: allow}\n", `mode = "full"`, ""},
	{"agentsh", "a.yaml", "network_rules:\n- {name: a, cidrs: ['fd00::/8'], ports: [443], decision: allow}\n", `"[fd00::]/8:443" = "allow"`, ""},
	{"agentsh", "a.yaml", "command_rules:\n- {name: a, commands: [rm], decision: allow}\n- {name: b, commands: [rm], args_patterns: ['-rf'], decision: deny}\n", "", "no rule is written"},
}

func TestImportRules(t *testing.T) {
	for _, row := range importTable {
		out, err := Import(row.from, Source{Name: row.name, Text: []byte(row.text)}, importHost())
		if err != nil {
			t.Errorf("%s: %v", row.text, err)
			continue
		}
		var all strings.Builder
		for _, tr := range out.Translations {
			all.WriteString(tr.String() + "\n")
		}
		if !strings.Contains(out.Text, row.policy) || !strings.Contains(all.String(), row.said) {
			t.Errorf("%s: want %q and %q, got\n%s%s", row.text, row.policy, row.said, all.String(), out.Text)
		}
	}
}

// TestImportEscapes: a \ of another tool's pattern means what it means there.
func TestImportEscapes(t *testing.T) {
	for _, row := range []struct{ from, pattern, path, other string }{
		{"claude-code", `Read(a\\*b)`, "a*b", "axb"}, {"claude-code", `Read(\\!x)`, "!x", "x"}, {"claude-code", `Read(c\\[d)`, "c[d", "cd"},
		{"claude-code", `Read(\\#x)`, "#x", "x"}, {"claude-code", `Read(s/\\e)`, "s/e", `s/\e`}, {"claude-code", `Read(a\\\\b)`, `a\b`, "ab"},
		{"claude-code", `Read(x[\\]y]z)`, "x]z", "xz"}, {"claude-code", `Read(x[]y]z)`, "x]z", "xz"}, {"claude-code", `Read(x[!y]z)`, "x!z", "xyz"},
		{"claude-code", `Read(k{a,b})`, "k{a,b}", "ka"}, {"claude-code", `Read(k[{]a)`, "k{a", "ka"}, {"claude-code", `Read(\\~/x)`, "", ""},
		{"claude-code", `Read(a\\)`, "", ""}, {"claude-code", `Read(a[[:digit:]])`, "", ""},
	} {
		text := `{"permissions": {"deny": ["` + row.pattern + `"]}}`
		out, err := Import(row.from, Source{Name: "c.json", Text: []byte(text)}, importHost())
		if err != nil {
			t.Errorf("%s: %v", row.pattern, err)
			continue
		}
		held := true
		for _, tr := range out.Translations {
			held = held && (tr.Fidelity != FidelityOpen || !strings.Contains(tr.Rule, "Read("))
		}
		if held != (row.path != "") {
			t.Errorf("%s: held %v: %v", row.pattern, held, out.Translations)
		}
		if !held || row.path == "" {
			continue
		}
		p, err := Load([]Source{{Name: "i.toml", Layer: Session, Text: []byte(out.Text)}}, "", importHost())
		if err != nil {
			t.Errorf("%s: %v", row.pattern, err)
			continue
		}
		ws := importHost().Workspaces[0] + "/"
		if d := p.Decide(ask("read " + ws + row.path)); outcome(d) != "no" {
			t.Errorf("%s: %s is read", row.pattern, row.path)
		}
		if d := p.Decide(ask("read " + ws + row.other)); outcome(d) != "ok" {
			t.Errorf("%s: %s: %s", row.pattern, row.other, d.Reason)
		}
	}
}

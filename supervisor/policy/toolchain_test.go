package policy

import (
	"slices"
	"testing"
)

func TestInstallPrefix(t *testing.T) {
	table := []struct{ dir, prefix string }{
		{"/usr/bin", "/usr"}, {"/bin", "/bin"}, {"/sbin", "/sbin"}, {"/usr/local/sbin", "/usr/local"}, {"/usr/games", "/usr"},
		{"/usr/local/go/bin", "/usr/local/go"}, {"/opt/x/bin", "/opt/x"}, {"/opt/bin", "/opt/bin"}, {"/opt/x", "/opt/x"}, {"/opt", ""},
		{"/", ""}, {"/home", ""}, {"/home/u", ""}, {"relative/bin", ""}, {"", ""}, {"/tmp", ""}, {"/tmp/bin", "/tmp/bin"},
		{"/home/u/bin", "/home/u/bin"}, {"/home/u/.local/bin", "/home/u/.local/bin"}, {"/home/u/go/bin", "/home/u/go/bin"},
		{"/home/u/.pyenv/shims", "/home/u/.pyenv"}, {"/home/u/.pyenv/bin", "/home/u/.pyenv"}, {"/home/u/.cargo/bin", "/home/u/.cargo"},
		{"/home/u/.nvm/versions/node/v20/bin", "/home/u/.nvm/versions/node/v20"}, {"/home/u/miniconda3/bin", "/home/u/miniconda3"},
		{"/home/u/miniconda3/condabin", "/home/u/miniconda3"}, {"/home/u/sdk/go1.26/bin", "/home/u/sdk/go1.26"}, {"/home/u/work/bin", "/home/u/work/bin"},
		{"/home/u/work/proj/bin", "/home/u/work/proj/bin"}, {"/home/u/.local/share/x/bin", "/home/u/.local/share/x"}, {"/home/u/.config", ""},
		{"/home/u/ws/node_modules/.bin", "/home/u/ws/node_modules/.bin"}, {"/home/v/bin", "/home/v/bin"}, {"/home/v", ""},
		{"/home/linuxbrew/.linuxbrew/bin", "/home/linuxbrew/.linuxbrew"}, {"/root/bin", "/root/bin"}, {"/root/.deno/bin", "/root/.deno"}, {"/root", ""},
		{"/home/u/../../etc/bin", "/etc/bin"}, {"/bin/", "/bin"},
	}
	for _, row := range table {
		prefix, ok := InstallPrefix(row.dir, "/home/u")
		if prefix != row.prefix || ok != (row.prefix != "") {
			t.Errorf("%s: %q %v, want %q", row.dir, prefix, ok, row.prefix)
		}
	}
	if prefix, _ := InstallPrefix("/root/.pyenv/shims", "/root"); prefix != "/root/.pyenv" {
		t.Errorf("root: %q", prefix)
	}
}

// TestNoPathOpensHome: whatever stands on the PATH, a home directory is never
// opened as a whole.
func TestNoPathOpensHome(t *testing.T) {
	h := testHost()
	for _, dir := range []string{"/", "/home", "/home/u", "/home/u/bin", "/home/u/go/bin", "/home/u/.local/bin", "/home/u/x", "/home/u/.config/x/bin"} {
		h.PathDirs = []string{dir}
		p, err := Load(nil, "", h)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/home/u/file", "/home/u/.config/secret", "/home/u/.local/share/x", "/home/u/go/src/x", "/home/v/x"} {
			if d := p.Decide(ask("read " + path)); outcome(d) == "ok" {
				t.Errorf("PATH %s opens %s by %q", dir, path, d.Rule)
			}
		}
	}
}

func TestCompanions(t *testing.T) {
	tables, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"/home/u/.cargo/bin": "/home/u/.rustup", "/home/u/.local/bin": "/home/u/.local/lib", "/home/u/.nvm/versions/node/v20/bin": "/home/u/.nvm",
	} {
		if got := tables.toolchains.ground(dir, "/home/u"); !slices.Contains(got, want) {
			t.Errorf("%s: %v lacks %s", dir, got, want)
		}
	}
}

func TestMatchWild(t *testing.T) {
	for _, row := range []struct {
		pattern, text string
		want          bool
	}{
		{"*TOKEN*", "MY_TOKEN_X", true}, {"*TOKEN*", "TOKEN", true}, {"*TOKEN*", "TOKE", false}, {"A?C", "ABC", true}, {"A?C", "AC", false},
		{"*_KEY", "API_KEY", true}, {"*_KEY", "API_KEYS", false}, {"", "", true}, {"*", "", true}, {"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXbYbZ", false},
	} {
		if got := matchWild(row.pattern, row.text); got != row.want {
			t.Errorf("%q %q: %v", row.pattern, row.text, got)
		}
	}
}

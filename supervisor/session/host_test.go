package session

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// tree makes files (names ending in "/" are directories, "a -> b" symlinks) below
// a resolved temp directory. Files are executable.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func under(root string, names ...string) []string {
	out := []string{}
	for _, n := range names {
		out = append(out, filepath.Join(root, n))
	}
	return out
}

func TestCollect(t *testing.T) {
	deep := strings.Repeat("d/", repoDepth) + "d" // where nobody looks any more
	root := tree(t,
		"home/.cargo/bin/cargo", "home/.cargo/registry/", "home/gone -> nowhere",
		"opt/node-22/bin/node", "usr/local/bin/node -> ../../../opt/node-22/bin/node", "usr/local/bin/plain -> node",
		"usr/local/bin/broken -> /none/x", "usr/local/bin/data -> ../../../opt/data/readme",
		"versions/3/bin/python", "current -> versions/3",
		"gomod/cache/", "ws/.git/HEAD", "ws/sub/mod/.git", "ws/node_modules/x/.git/HEAD", "ws/a/b/c/d/e/.git/HEAD", "ws/"+deep+"/.git/HEAD",
		"policy.toml", "link.toml -> policy.toml",
	)
	readme := filepath.Join(root, "opt/data/readme")
	if err := errors.Join(os.MkdirAll(filepath.Dir(readme), 0o755), os.WriteFile(readme, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"PATH=" + strings.Join([]string{
			root + "/usr/local/bin", "relative/bin", "", root + "/current/bin", root + "/home/.cargo/bin", root + "/absent", root + "/usr/local/bin", root + "/home", "/",
		}, ":"),
		"GOMODCACHE=" + root + "/gomod/cache", "CARGO_HOME=" + root + "/home/.cargo", "UV_CACHE_DIR=" + root + "/home", "PIP_CACHE_DIR=/", "DENO_DIR=" + root,
	}
	h, notes := Collect(Facts{
		User: User{Name: "u", UID: 7, Home: root + "/home"}, Workspaces: []Workspace{{Path: root + "/ws"}, {Path: root + "/ws"}}, Env: env,
		TempDir: "/tmp/t", StateDir: "/state", ConfigFiles: []string{root + "/link.toml", root + "/none.toml"},
	})
	for _, tc := range []struct {
		what      string
		got, want []string
	}{
		{"PATH", h.PathDirs, under(root, "usr/local/bin", "opt/node-22/bin", "versions/3/bin", "home/.cargo/bin")},
		{"caches", h.CacheDirs, under(root, "gomod/cache", "home/.cargo/registry")},
		{"workspaces", h.Workspaces, under(root, "ws")},
		{"repositories", h.Repositories, under(root, "ws", "ws/sub/mod", "ws/a/b/c/d/e")},
		{"configuration", h.ConfigFiles, under(root, "link.toml", "policy.toml")},
		{"notes", notes, []string{}},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s:\n got %q\nwant %q", tc.what, tc.got, tc.want)
		}
	}
	if _, err := policy.Load(nil, "", h); err != nil {
		t.Errorf("the policy does not take the facts: %v", err)
	}
}

// The search for repositories must not make a session wait.
func TestRepositoriesIsBounded(t *testing.T) {
	root := tree(t, "r/.git/HEAD")
	for i := range repoDirs + 10 {
		if err := os.Mkdir(filepath.Join(root, "d"+string(rune('a'+i%26))+filepath.Base(t.Name())+strings.Repeat("x", i/26)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, whole := repositories(root); whole {
		t.Error("looked into more directories than it may")
	}
	if roots, _, whole := repositories(filepath.Join(root, "r")); !whole || len(roots) != 1 {
		t.Errorf("control: %q, whole %v", roots, whole)
	}
}

func TestSources(t *testing.T) {
	root := tree(t, "config/reeve/", "ws/", "a.toml")
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(root, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("config/reeve/policy.toml", "user", 0o600)
	write("ws/"+ProjectFile, "project", 0o644)
	named := write("a.toml", "session", 0o600)
	cfg := SourceConfig{
		Envelope: filepath.Join(root, "none/envelope.toml"), ConfigDir: root + "/config",
		Workspaces: []Workspace{{Path: root + "/ws"}}, Named: []string{named},
	}
	layers := func() string {
		sources, files, err := Sources(cfg)
		if err != nil {
			return err.Error()
		}
		if len(files) != len(sources) {
			t.Errorf("%d files for %d sources", len(files), len(sources))
		}
		var out []string
		for _, s := range sources {
			out = append(out, s.Layer.String()+"="+string(s.Text))
		}
		return strings.Join(out, " ")
	}
	if got := layers(); got != "user=user project=project session=session" {
		t.Errorf("got %s", got)
	}
	cfg.Named = []string{root + "/none.toml"}
	if got := layers(); !strings.Contains(got, "none.toml: no such file") {
		t.Errorf("a named file that is not there: %s", got)
	}
	cfg.Named = []string{root + "/ws"}
	if got := layers(); !strings.Contains(got, "is a directory") {
		t.Errorf("a named directory: %s", got)
	}
	fifo := filepath.Join(root, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Named = []string{fifo}
	if got := layers(); !strings.Contains(got, "not a regular file") {
		t.Errorf("a named FIFO: %s", got)
	}
	cfg.Named = []string{write("big.toml", strings.Repeat("#", policy.MaxSource+1), 0o600)}
	if got := layers(); !strings.Contains(got, "larger than") {
		t.Errorf("a file that is too large: %s", got)
	}
}

func TestPolicyCache(t *testing.T) {
	c := openState(t).PolicyCache()
	if _, ok := c.Get("k"); ok {
		t.Error("an empty cache has a value")
	}
	c.Put("k", []byte("v"))
	if v, ok := c.Get("k"); !ok || string(v) != "v" {
		t.Errorf("got %q, %v", v, ok)
	}
	c.Put("../escape", []byte("v"))
	if _, err := os.Stat(filepath.Join(filepath.Dir(c.dir), "escape")); err == nil {
		t.Error("a key wrote outside the cache")
	}
	info, err := os.Stat(filepath.Join(c.dir, "k"))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestUsers(t *testing.T) {
	home := tree(t, "real/", "link -> real")
	u := CurrentUser(func(k string) string { return map[string]string{"HOME": home + "/link"}[k] })
	if u.UID != os.Geteuid() || u.Home != home+"/real" {
		t.Errorf("got %+v", u)
	}
	if u := CurrentUser(func(k string) string { return map[string]string{"HOME": "/none/such"}[k] }); u.Home != "" {
		t.Errorf("a home that is not there: %q", u.Home)
	}
	byName, err := LookupUser("root")
	if err != nil || byName.UID != 0 || byName.Groups == nil {
		t.Errorf("root: %+v, %v", byName, err)
	}
	if byID, err := LookupUser("0"); err != nil || byID.Name != "root" {
		t.Errorf("0: %+v, %v", byID, err)
	}
	if _, err := LookupUser("no-such-user"); err == nil {
		t.Error("a user that is not there was found")
	}
}

func TestTarget(t *testing.T) {
	st := openState(t)
	s := create(t, st)
	want := Target{Store: "clickhouse://u:p@h/d", NATS: "nats://h"}
	if err := s.WriteTarget(want); err != nil {
		t.Fatal(err)
	}
	crash(t, s)
	c, err := st.Claim(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Target(); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := c.Stored(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Target(); err != nil || got != (Target{}) {
		t.Errorf("after storing: %+v, %v", got, err)
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestSeed(t *testing.T) {
	st := openState(t)
	s := create(t, st)
	defer func() {
		if err := s.Close(true); err != nil {
			t.Error(err)
		}
	}()
	host := t.TempDir()
	large := strings.Repeat("x", mirrorCopy+1)
	write(t, host+"/content/ab/small", "one")
	write(t, host+"/content/ab/large", large)
	write(t, host+"/index/cd", "two")
	write(t, host+"/taken/ef", "three")
	links := []policy.CacheLink{
		{Name: s.TempDir + "/cache/npm/content", Target: host + "/content"},
		{Name: s.TempDir + "/cache/npm/gone", Target: host + "/gone"},
		{Name: s.TempDir + "/cache/npm/taken", Target: host + "/taken"},
		{Name: s.TempDir + "/cache/out/index", Target: host + "/index"},
	}
	x, err := s.Seeder(links, &Owner{os.Geteuid(), os.Getegid()})
	if err != nil {
		t.Fatal(err)
	}
	// A task was faster: one place is its own, another leads out of its directory.
	out := t.TempDir()
	write(t, s.TempDir+"/cache/npm/taken", "mine")
	if err := os.Symlink(out, s.TempDir+"/cache/out"); err != nil {
		t.Fatal(err)
	}
	if err := x.Seed(); err == nil {
		t.Error("nothing was said of a place that leads out of the session's temp directory")
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(out); err != nil || len(names) > 0 {
		t.Errorf("made outside: %v, %v", names, err)
	}
	for name, want := range map[string]string{"content/ab/small": "one", "content/ab/large": large, "taken": "mine"} {
		if got, err := os.ReadFile(s.TempDir + "/cache/npm/" + name); err != nil || string(got) != want {
			t.Errorf("%s has %d bytes, %v", name, len(got), err)
		}
	}
	if got, err := os.Readlink(s.TempDir + "/cache/npm/content/ab/large"); err != nil || got != host+"/content/ab/large" {
		t.Errorf("the large file leads to %q, %v", got, err)
	}
	if err := os.WriteFile(s.TempDir+"/cache/npm/content/ab/small", []byte("new"), 0); err != nil {
		t.Errorf("the small file cannot be written: %v", err)
	}
	if got, err := os.ReadFile(host + "/content/ab/small"); err != nil || string(got) != "one" {
		t.Errorf("the host's file is %q, %v", got, err)
	}
	for _, name := range []string{"/etc/x", s.TempDir + "/../x", s.TempDir} {
		if _, err := s.Seeder([]policy.CacheLink{{Name: name, Target: host}}, nil); err == nil {
			t.Errorf("a link at %s was taken", name)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestGitSettingsAreFiles: what stands in the place of a repository's settings does not
// make a session wait.
func TestGitSettingsAreFiles(t *testing.T) {
	root := tree(t, "ws/.git/HEAD", "ws/loop/.git -> .git", "ws/self/.git/config -> config", "ws/wide/.git/hooks -> ../..")
	if err := unix.Mkfifo(filepath.Join(root, "ws/.git/config"), 0o644); err != nil {
		t.Fatal(err)
	}
	h, _ := Collect(Facts{User: User{Home: root}, Workspaces: []Workspace{{Path: filepath.Join(root, "ws")}}})
	if slices.Contains(h.Protected, root) || slices.Contains(h.Protected, filepath.Join(root, "ws")) {
		t.Errorf("a workspace is protected as a whole: %q", h.Protected)
	}
}

package session

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// TestGoBuildCache: the directory is where the go command would look.
func TestGoBuildCache(t *testing.T) {
	root := tree(t, "home/.cache/go-build/00/", "moved/go/00/", "xdg/go-build/00/", "real/00/", "link -> real", "strange/file", "home/.config/go/env", "other/env", "odd/env/", "00/")
	home := root + "/home"
	for _, tc := range []struct {
		name, written, want string
		env                 []string
	}{
		{name: "default", want: "home/.cache/go-build"},
		{name: "GOCACHE", env: []string{"GOCACHE=" + root + "/moved/go", "XDG_CACHE_HOME=" + root + "/xdg"}, want: "moved/go"},
		{name: "XDG", env: []string{"XDG_CACHE_HOME=" + root + "/xdg", "GOCACHE="}, want: "xdg/go-build"},
		{name: "link", env: []string{"GOCACHE=" + root + "/link"}, want: "real"},
		{name: "go env -w", written: "GOFLAGS=-v\nodd\n=\nGOCACHE=" + root + "/moved/go\nGOPATH=/x", want: "moved/go"},
		{name: "go env -w, and the environment", written: "GOCACHE=" + root + "/moved/go\n", env: []string{"GOCACHE=" + root + "/real"}, want: "real"},
		{name: "go env -w, and an empty one", written: "GOCACHE=" + root + "/moved/go\n", env: []string{"GOCACHE="}, want: "moved/go"},
		{name: "GOENV", written: "GOCACHE=" + root + "/moved/go\n", env: []string{"GOENV=" + root + "/other/env"}, want: "home/.cache/go-build"},
		{name: "GOENV=off", written: "GOCACHE=" + root + "/moved/go\n", env: []string{"GOENV=off"}, want: "home/.cache/go-build"},
		{name: "GOENV is a directory", env: []string{"GOENV=" + root + "/odd/env"}, want: "home/.cache/go-build"},
		{name: "off", env: []string{"GOCACHE=off"}},
		{name: "relative", env: []string{"GOCACHE=moved/go"}},
		{name: "none", env: []string{"GOCACHE=" + root + "/none"}},
		{name: "something else", env: []string{"GOCACHE=" + root + "/strange"}},
		{name: "what holds the home directory", env: []string{"GOCACHE=" + root}},
		{name: "own program", env: []string{"GOCACHEPROG=mine"}},
		{name: "own program by go env -w", written: "GOCACHEPROG=mine\n"},
	} {
		file := filepath.Join(home, ".config/go/env")
		if err := os.WriteFile(file, []byte(tc.written), 0o644); err != nil {
			t.Fatal(err)
		}
		h, _ := Collect(Facts{User: User{Name: "u", Home: home}, Env: tc.env, TempDir: "/tmp/t"})
		want := tc.want
		if want != "" {
			want = filepath.Join(root, want)
		}
		if h.GoCache != want || want != "" && !slices.Contains(h.CacheDirs, want) {
			t.Errorf("%s: %q in %q, want %q", tc.name, h.GoCache, h.CacheDirs, want)
		}
	}
	if h, _ := Collect(Facts{User: User{Name: "u"}, TempDir: "/tmp/t"}); h.GoCache != "" {
		t.Errorf("a user without a home has %s", h.GoCache)
	}
}

// TestCachesInside: inside a session the host's caches are those that it knows.
func TestCachesInside(t *testing.T) {
	root := tree(t, "host/00/", "private/00/", "mod/", "home/.cache/go-build/00/")
	outside := policy.Host{GoCache: root + "/host", Reeve: "/opt/reeve", CacheDirs: under(root, "mod", "host")}
	h, _ := Collect(Facts{
		User: User{Home: root + "/home"}, Env: []string{"GOCACHE=" + root + "/private", "GOCACHEPROG=reeve go-cache"}, TempDir: "/tmp/t", Program: "/bin/sh", Outside: &outside,
	})
	if h.GoCache != outside.GoCache || h.Reeve != outside.Reeve || !slices.Equal(h.CacheDirs, under(root, "mod", "host")) {
		t.Errorf("%q, %q, %q", h.GoCache, h.Reeve, h.CacheDirs)
	}
}

func TestOwnProgram(t *testing.T) {
	root := tree(t, "bin/reeve", "link -> bin/reeve", "plain", "dir/")
	me, other := User{UID: os.Geteuid()}, User{UID: os.Geteuid() + 1}
	if err := os.Chmod(root+"/plain", 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		file, want string
		user       User
	}{
		{"bin/reeve", "bin/reeve", me}, {"link", "bin/reeve", me}, {"plain", "", me}, {"dir", "", me}, {"none", "", me},
		{"bin/reeve", "", other}, // temp directories of tests are closed to others
	} {
		want := tc.want
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got := ownProgram(filepath.Join(root, tc.file), tc.user); got != want {
			t.Errorf("%s: %q, want %q", tc.file, got, want)
		}
	}
	if got := ownProgram("reeve", me); got != "" {
		t.Errorf("a relative path is %s", got)
	}
	if got := ownProgram("/bin/sh", other); got == "" {
		t.Error("/bin/sh is not everybody's")
	}
}

package session

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// goVariables are those of the go command by which a person moves its caches.
var goVariables = []string{"GOCACHE", "GOCACHEPROG", "GOMODCACHE", "GOPATH"}

// goSettings adds to an environment what `go env -w` has set and it does not say.
func goSettings(env []string, home string) []string {
	file := filepath.Join(configHome(env, home), "go/env")
	switch name, _ := lookupEnv(env, "GOENV"); {
	case name != "":
		file = name
	case home == "":
		return env
	}
	if !filepath.IsAbs(file) { // or "off"
		return env
	}
	out := slices.Clone(env)
	text, _ := readSmall(file)
	for line := range strings.SplitSeq(text, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if said, _ := lookupEnv(env, name); ok && said == "" && slices.Contains(goVariables, name) {
			out = append(slices.DeleteFunc(out, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }), name+"="+value)
		}
	}
	return out
}

// goBuildCache is the directory in which the go command keeps what it builds, "" when
// there is none, or when a program of the person's own keeps it. env is that of
// goSettings.
func goBuildCache(env []string, home string) string {
	if program, _ := lookupEnv(env, "GOCACHEPROG"); program != "" {
		return ""
	}
	dir, _ := lookupEnv(env, "GOCACHE")
	if dir == "" {
		cache, _ := lookupEnv(env, "XDG_CACHE_HOME")
		switch {
		case cache != "":
			dir = filepath.Join(cache, "go-build")
		case home != "":
			dir = filepath.Join(home, ".cache/go-build")
		}
	}
	dir = cacheDir(dir, home)
	if dir == "" || resolvedDir(filepath.Join(dir, "00")) == "" { // one of its 256
		return ""
	}
	return dir
}

// ownProgram is the program file by its resolved path, "" when u could not run it. For
// another user than reeve's it must be everybody's.
func ownProgram(file string, u User) string {
	if !filepath.IsAbs(file) {
		return ""
	}
	path, err := filepath.EvalSymlinks(file)
	if err != nil {
		return ""
	}
	if there, err := checkExecutable(path); !there || err != nil {
		return ""
	}
	if u.UID == os.Geteuid() {
		return path
	}
	for p := path; ; p = filepath.Dir(p) {
		if info, err := os.Stat(p); err != nil || info.Mode()&0o001 == 0 {
			return ""
		}
		if p == "/" {
			return path
		}
	}
}

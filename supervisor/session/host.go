package session

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// Facts are what Collect starts from.
type Facts struct {
	User       User
	Workspaces []Workspace
	// Env is the environment of the person who starts the session: its PATH is
	// the session's, its cache variables say where caches are.
	Env []string
	// TempDir is the session's; StateDir and ConfigFiles are to be closed to it.
	TempDir, StateDir string
	ConfigFiles       []string
}

// The bounds of the search for repositories below a workspace: a session must
// not wait for a walk through everything that somebody keeps there.
const (
	repoDepth = 4
	repoDirs  = 2000
)

// Collect looks at the machine and says what a policy needs to know about it:
// resolved paths only. The notes are what a person should know, one clause each.
func Collect(f Facts) (policy.Host, []string) {
	h := policy.Host{
		Home: f.User.Home, User: f.User.Name, UID: f.User.UID,
		Tmp: f.TempDir, StateDir: f.StateDir, Follow: follow, Links: map[string]string{},
	}
	var notes []string
	if h.Home == "" {
		notes = append(notes, fmt.Sprintf("user %s has no home directory", f.User.Name))
	}
	for _, ws := range f.Workspaces {
		h.Workspaces = appendNew(h.Workspaces, ws.Path)
	}
	for _, file := range f.ConfigFiles {
		for _, path := range linkChain(file) {
			h.ConfigFiles = appendNew(h.ConfigFiles, path)
		}
	}
	path, _ := lookupEnv(f.Env, "PATH")
	h.PathDirs = programDirs(strings.Split(path, ":"), h.Home)
	h.CacheDirs = cacheDirs(f.Env, h.Home)
	for _, ws := range h.Workspaces {
		repos, whole := repositories(ws)
		h.Repositories = append(h.Repositories, repos...)
		for _, repo := range repos {
			h.Protected = append(h.Protected, hooksPaths(repo)...)
		}
		if !whole {
			notes = append(notes, fmt.Sprintf(
				"workspace %s has more than %d directories: repositories deeper inside were not looked for", ws, repoDirs))
		}
	}
	return h, notes
}

// linkChain is a file that is there with the links that lead to it: who can replace one
// of them replaces the file.
func linkChain(file string) (chain []string) {
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	for range maxLinks {
		dir, name := filepath.Split(file) // not cleaned: dir/.. may be a link's
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return chain
		}
		at := filepath.Join(dir, name)
		chain = append(chain, at)
		to, err := os.Readlink(at)
		if err != nil {
			return chain
		}
		if file = to; !filepath.IsAbs(to) {
			file = dir + "/" + to
		}
	}
	return chain
}

// maxLinks is how many links the kernel follows (MAXSYMLINKS).
const maxLinks = 40

// follow is where a path leads, "" when nothing stands there.
func follow(path string) string {
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return to
}

var hooksPath = regexp.MustCompile(`(?im)^[ \t]*hooksPath[ \t]*=[ \t]*"?([^"\r\n#;]+)`)

// maxGitConfig is how much of a repository's settings is looked at.
const maxGitConfig = 1 << 20

// hooksPaths are the directories that a repository's settings make git run
// programs from, instead of .git/hooks: they are protected like those.
func hooksPaths(repo string) []string {
	f, err := os.Open(filepath.Join(repo, ".git", "config"))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxGitConfig))
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range hooksPath.FindAllSubmatch(text, -1) {
		dir := strings.TrimSpace(string(m[1]))
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(repo, dir)
		}
		if dir = resolvedDir(dir); dir != "" && dir != "/" {
			out = appendNew(out, dir)
		}
	}
	return out
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// programDirs resolves the directories of a PATH, and adds those that their
// programs lead to: /usr/local/bin/node may be a link into /opt/node/bin, and
// ~/.nvm/current/bin one into a directory of versions.
func programDirs(dirs []string, home string) []string {
	var out []string
	for _, dir := range dirs {
		if dir = resolvedDir(dir); dir == "" || slices.Contains(out, dir) {
			continue
		}
		out = append(out, dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.Type()&os.ModeSymlink != 0 {
				out = appendLinked(out, dir, e.Name())
			}
		}
	}
	return slices.DeleteFunc(out, func(dir string) bool { return dir == "/" || dir == home })
}

// appendLinked adds the directory that a program's link leads to.
func appendLinked(dirs []string, dir, name string) []string {
	target, err := os.Readlink(filepath.Join(dir, name))
	// A plain name stays in the directory: most links are such ones.
	if err != nil || !strings.Contains(target, "/") {
		return dirs
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return dirs
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return dirs
	}
	return appendNew(dirs, filepath.Dir(path))
}

// cacheVariables say where a person moved a tool's cache to, and what of it a
// session may read.
var cacheVariables = []struct{ name, below string }{
	{"GOMODCACHE", ""}, {"GOPATH", "pkg/mod"},
	{"CARGO_HOME", "registry"}, {"CARGO_HOME", "git"},
	{"npm_config_cache", "_cacache"}, {"NPM_CONFIG_CACHE", "_cacache"},
	{"YARN_CACHE_FOLDER", ""}, {"PIP_CACHE_DIR", ""}, {"UV_CACHE_DIR", ""}, {"POETRY_CACHE_DIR", ""},
	{"DENO_DIR", ""}, {"BUN_INSTALL_CACHE_DIR", ""}, {"NUGET_PACKAGES", ""}, {"COMPOSER_CACHE_DIR", ""},
	{"GRADLE_USER_HOME", "caches"}, {"GRADLE_USER_HOME", "wrapper"}, {"PLAYWRIGHT_BROWSERS_PATH", ""},
}

// cacheDirs are the tool caches that stand where a variable says. One that holds
// the home directory, or is a directory right below the root, is no cache.
func cacheDirs(env []string, home string) []string {
	var out []string
	for _, v := range cacheVariables {
		value, ok := lookupEnv(env, v.name)
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(value) {
			dir = resolvedDir(filepath.Join(dir, v.below))
			if dir == "" || filepath.Dir(dir) == "/" || home == dir || strings.HasPrefix(home, dir+"/") {
				continue
			}
			out = appendNew(out, dir)
		}
	}
	return out
}

// notRepositories are directories in which nobody keeps repositories of their
// own, and which are large.
var notRepositories = []string{".git", "node_modules", "vendor", "target", "__pycache__", ".venv", "venv", ".tox", ".cache"}

// repositories finds the roots of the repositories in a workspace, level by
// level; whole is false when there was more to look at than a start may take.
func repositories(workspace string) (roots []string, whole bool) {
	level := []string{workspace}
	looked := 0
	for depth := 0; depth <= repoDepth && len(level) > 0; depth++ {
		var next []string
		for _, dir := range level {
			if looked++; looked > repoDirs {
				return roots, false
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if e.Name() == ".git" {
					roots = append(roots, dir)
				}
				if e.IsDir() && !slices.Contains(notRepositories, e.Name()) {
					next = append(next, filepath.Join(dir, e.Name()))
				}
			}
		}
		level = next
	}
	return roots, true
}

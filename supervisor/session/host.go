package session

import (
	"fmt"
	"os"
	"path/filepath"
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
	// Program is the file that reeve was started from.
	Program string
	// Outside is the host as the session knows it that this one is inside; nil for
	// one that is inside none.
	Outside *policy.Host
}

// The bounds of the search for repositories below a workspace: a session must
// not wait for a walk through everything that somebody keeps there.
const (
	repoDepth = 16
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
		// Who can replace a link to it replaces the file.
		if links, end := trail(file); exists(end) {
			for _, path := range append(links, end) {
				h.ConfigFiles = appendNew(h.ConfigFiles, path)
			}
		}
	}
	path, _ := lookupEnv(f.Env, "PATH")
	h.PathDirs = programDirs(strings.Split(path, ":"), h.Home)
	caches(&h, f)
	git := gitGround{home: h.Home, workspaces: h.Workspaces, xdg: configHome(f.Env, h.Home)}
	for _, ws := range h.Workspaces {
		repos, bare, whole := repositories(ws)
		h.Repositories = append(h.Repositories, repos...)
		git.around(ws)
		for _, repo := range repos {
			git.repository(repo)
		}
		for _, dir := range bare {
			git.directory(dir, dir)
		}
		if !whole {
			notes = append(notes, fmt.Sprintf(
				"workspace %s has more than %d directories: repositories deeper inside were not looked for", ws, repoDirs))
		}
	}
	h.GitDirs, h.Protected = git.dirs, git.files
	if h.Reeve != "" { // it may stand where a session can write
		h.Protected = appendNew(h.Protected, h.Reeve)
	}
	return h, notes
}

// caches finds the host's tool caches. Inside a session the environment names the
// private ones, and the host's are those that it found.
func caches(h *policy.Host, f Facts) {
	env := goSettings(f.Env, h.Home)
	h.CacheDirs = cacheDirs(env, h.Home)
	if f.Outside == nil {
		h.GoCache, h.Reeve = goBuildCache(env, h.Home), ownProgram(f.Program, f.User)
	} else {
		h.GoCache, h.Reeve = f.Outside.GoCache, f.Outside.Reeve
		for _, dir := range f.Outside.CacheDirs {
			h.CacheDirs = appendNew(h.CacheDirs, dir)
		}
	}
	if h.GoCache != "" {
		h.CacheDirs = appendNew(h.CacheDirs, h.GoCache)
	}
}

// follow is where a path leads, "" when nothing stands there.
func follow(path string) string {
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return to
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
			if dir = cacheDir(filepath.Join(dir, v.below), home); dir != "" {
				out = appendNew(out, dir)
			}
		}
	}
	return out
}

// cacheDir is a tool cache by its resolved path, "" when there is none.
func cacheDir(dir, home string) string {
	dir = resolvedDir(dir)
	if dir == "" || filepath.Dir(dir) == "/" || home == dir || strings.HasPrefix(home, dir+"/") {
		return ""
	}
	return dir
}

// notRepositories are directories in which nobody keeps repositories of their
// own, and which are large.
var notRepositories = []string{".git", "node_modules", "vendor", "target", "__pycache__", ".venv", "venv", ".tox", ".cache"}

// repositories finds the roots of the repositories in a workspace, and the bare ones
// whose names do not tell, level by level; whole is false when there was more to look
// at than a start may take.
func repositories(workspace string) (roots, bare []string, whole bool) {
	level := []string{workspace}
	looked := 0
	for depth := 0; depth <= repoDepth && len(level) > 0; depth++ {
		var next []string
		for _, dir := range level {
			if looked++; looked > repoDirs {
				return roots, bare, false
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			git := 0 // of the names that make a directory a repository
			for _, e := range entries {
				switch e.Name() {
				case ".git":
					roots = append(roots, dir)
				case "HEAD", "objects", "refs":
					git++
				}
				if e.IsDir() && !slices.Contains(notRepositories, e.Name()) {
					next = append(next, filepath.Join(dir, e.Name()))
				}
			}
			if git == 3 {
				bare = append(bare, dir)
			}
		}
		level = next
	}
	return roots, bare, true
}

package session

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// What git runs or obeys does not all stand in directories that are called .git: that
// may be a link, or say where the repository is; a hook may be a link; settings include
// further files, name another directory of hooks, and programs. What of it a session
// might change is protected as .git/hooks and .git/config are.

// gitGround gathers that.
type gitGround struct {
	home, xdg  string
	workspaces []string
	// dirs and files are for policy.Host's GitDirs and Protected.
	dirs, files []string
	seen        map[string]bool
}

const (
	// maxGitConfig is how much of a file of settings is read, maxGitFiles how many of
	// them are, and maxHooks at how many entries of a directory of hooks one looks.
	maxGitConfig = 1 << 20
	maxGitFiles  = 1000
	maxHooks     = 1000
)

// hookNames are the hooks of githooks(5), for a directory of which not all is git's.
var hookNames = strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg
	post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction
	push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman p4-changelist p4-prepare-changelist p4-post-changelist
	p4-pre-submit post-index-change`)

// around looks for the repository that a workspace lies in.
func (g *gitGround) around(workspace string) {
	for dir := workspace; dir != "/"; {
		dir = filepath.Dir(dir)
		if exists(filepath.Join(dir, ".git")) {
			g.repository(dir)
			return
		}
	}
}

// repository looks at one whose work tree is root.
func (g *gitGround) repository(root string) {
	links, dir := trail(filepath.Join(root, ".git"))
	g.guard(links...)
	if text, ok := readSmall(dir); ok {
		to, is := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
		if !is {
			return
		}
		links, dir = trail(beside(filepath.Dir(dir), to))
		g.guard(links...)
	}
	g.directory(dir, root)
}

// directory looks at a repository's own directory, whose work tree is root.
func (g *gitGround) directory(dir, root string) {
	if !g.first(dir + "\x00" + root) {
		return
	}
	if !named(dir) && g.reached(dir) {
		g.dirs = appendNew(g.dirs, dir)
	}
	g.hooks(filepath.Join(dir, "hooks"))
	for _, name := range []string{"config", "config.worktree"} {
		g.settings(filepath.Join(dir, name), root)
	}
	for _, file := range []string{"/etc/gitconfig", filepath.Join(g.home, ".gitconfig"), filepath.Join(g.xdg, "git/config")} {
		g.settings(file, root)
	}
	if to, ok := readSmall(filepath.Join(dir, "commondir")); ok {
		links, common := trail(beside(dir, strings.TrimRight(to, "\r\n")))
		g.guard(links...)
		g.directory(common, root)
	}
}

// named says whether a repository's directory is known by its name, see protected.toml.
func named(dir string) bool {
	return strings.HasSuffix(dir, ".git") || strings.Contains(dir, "/.git/modules/") ||
		strings.HasSuffix(filepath.Dir(filepath.Dir(dir)), ".git") && filepath.Base(filepath.Dir(dir)) == "worktrees"
}

// hooks looks at a directory of hooks, which may be a link and have links in it.
func (g *gitGround) hooks(path string) {
	links, dir := trail(path)
	g.guard(links...)
	if dir != path {
		g.guard(dir)
	}
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxHooks)
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			g.all(filepath.Join(dir, e.Name()))
		}
	}
}

// hooksPath looks at the directory that core.hooksPath names, which need not be there.
func (g *gitGround) hooksPath(path string) {
	_, dir := trail(path)
	for _, ws := range g.workspaces {
		if dir == ws || strings.HasPrefix(ws, strings.TrimSuffix(dir, "/")+"/") {
			for _, name := range hookNames {
				g.all(filepath.Join(path, name))
			}
			return
		}
	}
	g.all(path)
	g.hooks(path)
}

// settings looks at a file of settings, by the name that git opens it by.
func (g *gitGround) settings(path, root string) {
	if len(g.seen) > maxGitFiles || !g.first(path+"\x00"+root) {
		return
	}
	links, file := trail(path)
	if g.guard(links...); len(links) > 0 {
		g.guard(file)
	}
	text, ok := readSmall(file)
	if !ok {
		return
	}
	leads, _ := policy.GitLeads([]byte(text)) // what git does not read it does not obey
	for _, l := range leads {
		switch l.Kind {
		case policy.GitInclude:
			to := g.expand(l.Name, filepath.Dir(path))
			g.all(to)
			g.settings(to, root)
		case policy.GitHooks:
			g.hooksPath(g.expand(l.Name, root))
		case policy.GitProgram:
			at := g.expand(l.Name, root)
			if _, err := os.Stat(at); isRegular(at) || l.ToCome && errors.Is(err, fs.ErrNotExist) {
				g.all(at)
			}
		}
	}
}

// expand makes a name absolute as git does.
func (g *gitGround) expand(name, dir string) string {
	if rest, is := strings.CutPrefix(name, "~/"); is && g.home != "" {
		return g.home + "/" + rest
	}
	return beside(dir, name)
}

// all guards a path and every link that leads there.
func (g *gitGround) all(path string) {
	links, end := trail(path)
	g.guard(append(links, end)...)
}

func (g *gitGround) guard(paths ...string) {
	for _, p := range paths {
		if g.reached(p) {
			g.files = appendNew(g.files, p)
		}
	}
}

// reached says of a path whether a session may come to write there, and of a directory
// that it is no ground of the session's as a whole.
func (g *gitGround) reached(path string) bool {
	grounds := append([]string{g.home, "/tmp", "/var/tmp"}, g.workspaces...)
	in := false
	for _, ground := range grounds {
		if ground == "" || ground == "/" {
			continue
		}
		if path == ground || strings.HasPrefix(ground, strings.TrimSuffix(path, "/")+"/") {
			return false
		}
		in = in || strings.HasPrefix(path, ground+"/")
	}
	return in
}

// first says whether it is asked about something for the first time.
func (g *gitGround) first(what string) bool {
	if g.seen[what] {
		return false
	}
	if g.seen == nil {
		g.seen = map[string]bool{}
	}
	g.seen[what] = true
	return true
}

// maxLinks is how many links the kernel follows (MAXSYMLINKS).
const maxLinks = 40

// trail goes along an absolute path as the kernel would: links are the symbolic links
// on the way, each by its own resolved name, and end is where they lead, whether there
// is anything or not; "" where they lead nowhere.
func trail(path string) (links []string, end string) {
	at := "/"
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		switch rest = rest[1:]; name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		to, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links = append(links, next); len(links) > maxLinks {
			return links, ""
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return links, at
}

// beside is a name that is relative to a directory unless it is absolute. It is not
// cleaned, since "dir/.." may be another directory than where dir stands.
func beside(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return dir + "/" + name
}

// readSmall reads a regular file, no FIFO that would make us wait.
func readSmall(path string) (text string, ok bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxGitConfig))
	return string(data), err == nil
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// configHome is where the user's programs have their settings.
func configHome(env []string, home string) string {
	if dir, ok := lookupEnv(env, "XDG_CONFIG_HOME"); ok && filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(home, ".config")
}

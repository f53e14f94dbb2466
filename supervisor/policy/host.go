package policy

import (
	"fmt"
	"path"
	"strings"
)

// Host is what a policy needs to know about the machine and the session. All
// paths are absolute, clean and resolved: no symbolic link on the way.
type Host struct {
	// Home, User and UID are of the user that the session runs as. An empty Home
	// is no home.
	Home, User string
	UID        int
	// Workspaces are the directories the session works in. Repositories are the
	// roots of the repositories that stood inside them when the session began.
	Workspaces, Repositories []string
	// GitDirs are the directories where repositories keep their settings and hooks,
	// where their names do not tell ("store", but not "x.git" or ".git").
	GitDirs []string
	// Protected are further files and directories that programs of the host run
	// or obey, such as the directory that a repository's core.hooksPath names.
	Protected []string
	// Tmp is the session's own temporary directory and Cache the private place
	// of its tool caches; an empty Cache is the directory "cache" in Tmp.
	Tmp, Cache string
	// StateDir is where reeve keeps its state; ConfigFiles are the policy and
	// configuration files that were read; Own are further files, directories and
	// sockets of reeve's. All are closed to the session.
	StateDir    string
	ConfigFiles []string
	Own         []string
	// PathDirs are the directories of the PATH, and those that their programs
	// and installation prefixes lead to through symbolic links.
	PathDirs []string
	// CacheDirs are further places of tool caches on this host (GOMODCACHE,
	// CARGO_HOME/registry …), readable like those of the built-in table.
	CacheDirs []string
	// GoCache is the host's build cache of go, one of the places of tool caches; empty
	// when there is none, or when the person has another program keep it.
	GoCache string
	// Reeve is the program that this is, if the session's user can run it; sessions
	// may. Empty, nothing is known of it.
	Reeve string
	// Follow says where a path leads when every symbolic link is followed, "" when
	// nothing stands there. Rules about programs that name a link are about that.
	// Unset, paths lead to themselves. Links, where it is not nil, are the answers,
	// and get those that Follow gives while a policy is loaded.
	Follow func(path string) string
	Links  map[string]string
	// Listable are directories that may be listed themselves.
	Listable []string
}

// validate completes h and says what cannot be right.
func (h *Host) validate() error {
	if h.Cache == "" && h.Tmp != "" {
		h.Cache = h.Tmp + "/cache"
	}
	lists := map[string][]string{
		"home": one(h.Home), "temporary directory": one(h.Tmp), "cache": one(h.Cache), "state directory": one(h.StateDir),
		"workspace": h.Workspaces, "repository": h.Repositories, "git directory": h.GitDirs, "protected path": h.Protected, "configuration file": h.ConfigFiles, "own file": h.Own,
		"PATH directory": h.PathDirs, "tool cache": append(one(h.GoCache), h.CacheDirs...), "program": one(h.Reeve), "listable directory": h.Listable,
	}
	for what, list := range lists {
		for _, p := range list {
			if !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.IndexByte(p, 0) >= 0 {
				return fmt.Errorf("bug: %s %q is not an absolute, clean path", what, p)
			}
		}
	}
	for _, ws := range h.Workspaces {
		if ws == "/" {
			return fmt.Errorf("workspace %s is the whole file system: choose a directory of it", ws)
		}
	}
	return nil
}

func (h *Host) follow(p string) string {
	to, known := h.Links[p]
	switch {
	case known:
	case h.Follow == nil:
		return p
	default:
		if to = h.Follow(p); h.Links != nil {
			h.Links[p] = to
		}
	}
	return to
}

func one(p string) []string {
	if p == "" {
		return nil
	}
	return []string{p}
}

// isBelow reports whether p is dir or below it.
func isBelow(p, dir string) bool {
	return p == dir || dir == "/" || len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

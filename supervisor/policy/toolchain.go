package policy

import (
	"path"
	"slices"
	"strings"
)

// InstallPrefix is the directory that the programs of a PATH directory need
// besides themselves: the installation it stands in ("/opt/x/bin" → "/opt/x",
// "~/.pyenv/shims" → "~/.pyenv"), or the directory itself where many things share
// the parent ("~/bin", "~/go/bin", "~/.local/bin"). ok is false where nothing may
// be opened: the root, a home directory, what contains one, and relative paths.
func InstallPrefix(dir, home string) (prefix string, ok bool) {
	t, err := embedded()
	if err != nil || !strings.HasPrefix(dir, "/") {
		return "", false
	}
	dir = path.Clean(dir)
	home = ownerOf(dir, home)
	if dir == "/" || home != "" && isBelow(home, dir) || t.toolchains.isShared(dir, home) && !t.toolchains.isLeaf(dir) {
		return "", false
	}
	parent := path.Dir(dir)
	if !t.toolchains.isLeaf(dir) || parent == "/" || home != "" && isBelow(home, parent) || t.toolchains.isShared(parent, home) {
		return dir, true
	}
	if home != "" && isBelow(dir, home) && !t.toolchains.isInstallation(parent, home) {
		return dir, true
	}
	return parent, true
}

// ownerOf is the home directory that dir is below: home, or another user's.
func ownerOf(dir, home string) string {
	if home != "" && (isBelow(dir, home) || isBelow(home, dir)) {
		return home
	}
	if rest, ok := strings.CutPrefix(dir, "/home/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		return "/home/" + name
	}
	if isBelow(dir, "/root") {
		return "/root"
	}
	return home
}

func (t *toolchainTable) isLeaf(dir string) bool { return slices.Contains(t.leaves, path.Base(dir)) }

func (t *toolchainTable) isShared(dir, home string) bool {
	for _, s := range t.shared {
		if strings.HasPrefix(s, "~") && home == "" {
			continue
		}
		if tilde(s, home) == dir {
			return true
		}
	}
	return false
}

// isInstallation reports whether a directory below a home is one installation:
// a hidden one, or one that is known by its name.
func (t *toolchainTable) isInstallation(dir, home string) bool {
	rest := strings.TrimPrefix(dir[len(home):], "/")
	if strings.HasPrefix(rest, ".") {
		return true
	}
	for _, pattern := range t.installations {
		if matchComponents(tilde(pattern, home), dir) {
			return true
		}
	}
	return false
}

// ground is what a PATH directory opens: its prefix and the companions.
func (t *toolchainTable) ground(dir, home string) []string {
	prefix, ok := InstallPrefix(dir, home)
	if !ok {
		return nil
	}
	out := []string{prefix}
	for _, c := range t.companions {
		if strings.HasPrefix(c.prefix, "~") && home == "" || !matchComponents(tilde(c.prefix, home), prefix) {
			continue
		}
		for _, with := range c.with {
			if !strings.HasPrefix(with, "~") || home != "" {
				out = append(out, tilde(with, home))
			}
		}
	}
	return out
}

// tilde expands ~ and ~/ at the beginning of a path of the data.
func tilde(p, home string) string {
	if rest, ok := strings.CutPrefix(p, "~"); ok && (rest == "" || rest[0] == '/') {
		return strings.TrimSuffix(home, "/") + rest
	}
	return p
}

// matchComponents matches a path with a pattern of the data, where {a,b} and *
// stand inside one component; a pattern matches only the whole path.
func matchComponents(pattern, p string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(p, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if !matchName(want[i], have[i]) {
			return false
		}
	}
	return true
}

func matchName(pattern, name string) bool {
	if open := strings.IndexByte(pattern, '{'); open >= 0 {
		end := strings.IndexByte(pattern, '}')
		for _, alt := range strings.Split(pattern[open+1:end], ",") {
			if matchName(pattern[:open]+alt+pattern[end+1:], name) {
				return true
			}
		}
		return false
	}
	return matchWild(pattern, name)
}

// matchWild matches text with a pattern where * is any run of bytes and ? any
// one byte.
func matchWild(pattern, text string) bool {
	star, mark := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

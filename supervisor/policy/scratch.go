package policy

import (
	"path"
	"slices"
	"strings"
)

// scratchNames are names of folders and files that a build makes again.
type scratchNames struct {
	folders, artifacts nameSet
	// tools are programs whose deletions and overwritings do not count as bulk.
	tools []string
}

// nameSet is a set of file names with "*" in some: "x*", "*.x" and others.
type nameSet struct {
	names          []string // as they are written
	exact, endings map[string]bool
	beginnings     []string
	globs          []string
}

func newNameSet(names []string) nameSet {
	s := nameSet{names: names, exact: make(map[string]bool), endings: make(map[string]bool)}
	for _, n := range names {
		switch at := strings.IndexByte(n, '*'); {
		case at < 0:
			s.exact[n] = true
		case at == len(n)-1:
			s.beginnings = append(s.beginnings, n[:at])
		case at == 0 && strings.IndexByte(n[1:], '*') < 0 && strings.IndexByte(".~", n[1]) >= 0:
			s.endings[n[1:]] = true
		default:
			s.globs = append(s.globs, n)
		}
	}
	return s
}

func (s *nameSet) has(name string) bool {
	if s.exact[name] {
		return true
	}
	for i := 0; i < len(name); i++ {
		if (name[i] == '.' || name[i] == '~') && s.endings[name[i:]] {
			return true
		}
	}
	return slices.ContainsFunc(s.beginnings, func(b string) bool { return strings.HasPrefix(name, b) }) ||
		slices.ContainsFunc(s.globs, func(g string) bool {
			ok, err := path.Match(g, name)
			return ok && err == nil
		})
}

func (s *scratchNames) artifact(name string) bool { return s.artifacts.has(name) }

// scratch reports whether a clean path is in, or is, a build or temporary folder:
// inside a workspace by the names below it, elsewhere by the directories for
// temporary files. A workspace and what is above it is none.
func (p *Policy) scratch(full string) bool {
	inside := false
	for _, ws := range p.host.Workspaces {
		if isBelow(ws, full) {
			return false
		}
		if !isBelow(full, ws) {
			continue
		}
		inside = true
		for rest := full[len(ws)+1:]; rest != ""; {
			var name string
			name, rest, _ = strings.Cut(rest, "/")
			if p.tables.scratch.folders.has(name) {
				return true
			}
		}
	}
	if inside {
		return false
	}
	for _, dir := range p.temporary {
		if isBelow(full, dir) && full != dir {
			return true
		}
	}
	return false
}

// temporaryDirs are the directories for temporary files on a host.
func (p *Policy) temporaryDirs() []string {
	dirs := append(one(p.host.Tmp), one(p.host.Cache)...)
	return append(dirs, p.tables.grounds[":tmp"].write...)
}

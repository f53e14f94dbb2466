package policy

import (
	"slices"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Reasons against moving what leads other programs to their files.
const (
	reasonRepository = "a repository that stood there before would be moved away; another could take its place"
	reasonSocket     = "a socket of another program"
)

// keepsRepositories reports whether a directory can be moved without taking a
// repository from the place where the user's own git looks for it, with the
// denial if it cannot. A repository of the session's own may go.
func (p *Policy) keepsRepositories(from *target) (event.Decision, bool) {
	for _, root := range p.host.Repositories {
		if git := strings.TrimSuffix(root, "/") + "/.git"; isBelow(git, from.path) && p.guardsRepository(git) {
			return p.deny(syscall.EXDEV, "", reasonRepository), false
		}
	}
	git := administration(from.path)
	if git == "" || !p.guardsRepository(git) {
		return event.Decision{}, true
	}
	exchange := from.req.Flags&renameExchange != 0
	if from.req.Born && !exchange {
		return event.Decision{}, true
	}
	d := p.deny(syscall.EACCES, "", reasonRepository)
	d.AskBorn = !from.req.Born && !exchange
	return d, false
}

// administration is the repository that a directory is, or whose linked work
// trees and submodules it administers: with such a directory replaced, git would
// obey other settings. It is "" for any other directory.
func administration(path string) string {
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '/' || !strings.HasSuffix(path[:end], ".git") {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(path[end:], "/"), "/")
		if first == "" || first == "worktrees" || first == "modules" && last(path[:end]) == ".git" {
			return path[:end]
		}
	}
	return ""
}

// guardsRepository reports whether a repository's settings or hooks are closed,
// so that nothing else may take their place: a person can make exceptions.
func (p *Policy) guardsRepository(git string) bool {
	return slices.ContainsFunc([]string{"/config", "/hooks"}, func(name string) bool {
		t := target{path: git + name}
		return p.verdictOf(&t).write > event.ActionAllow
	})
}

const reasonHides = "a repository among another's branches, where nobody judges its settings"

// plantsRepository reports whether a directory or symbolic link of a name would be,
// or lead to, a repository whose settings nobody judges, though a file ".git" may name
// it: a link below the administration of work trees and submodules, and a directory
// "x.git" among branches, which may be called as settings are.
func (p *Policy) plantsRepository(path string, kind event.ObjectKind) bool {
	if p.recordOnly {
		return false
	}
	parts := strings.Split(path, "/")
	above := parts[:len(parts)-1]
	for i := range above {
		if !strings.HasSuffix(above[i], ".git") {
			continue
		}
		admin := i+1 < len(above) && (above[i+1] == "worktrees" || above[i+1] == "modules")
		among := slices.Contains(above[i+1:], "refs") || slices.Contains(above[i+1:], "logs")
		if admin && kind == event.ObjectSymlink || among && kind == event.ObjectDir && strings.HasSuffix(parts[len(parts)-1], ".git") {
			return true
		}
	}
	return false
}

// strangeSocket denies giving a new name to a socket that the session did not
// make: which sockets are reached is judged by where they are.
func (p *Policy) strangeSocket(req *event.Request) (event.Decision, bool) {
	strange := func(obj *event.Object) bool { return obj.Kind == event.ObjectSocket && !obj.Own }
	exchanged := req.Op == event.OpRename && req.Flags&renameExchange != 0 && strange(&req.Target)
	if p.recordOnly || !strange(&req.Object) && !exchanged {
		return event.Decision{}, false
	}
	return p.deny(syscall.EACCES, "", reasonSocket), true
}

func (p *Policy) inWorkspace(path string) bool {
	return slices.ContainsFunc(p.host.Workspaces, func(ws string) bool { return isBelow(path, ws) })
}

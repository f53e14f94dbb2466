package policy

import (
	"slices"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// loses is the number of files of which an operation loses the content, and whose
// loss counts: they stood there before the session, outside build and temporary
// folders.
func (l *Ledger) loses(req *event.Request) int {
	switch req.Op {
	case event.OpDelete:
		if !l.named(req.Object.Path) {
			return l.worth(&req.Object)
		}
	case event.OpTruncate:
		return l.worth(&req.Object)
	case event.OpOpen, event.OpCreate:
		if overwrites(req) {
			return l.worth(&req.Object)
		}
	case event.OpLink:
		return l.hides(&req.Object, &req.Target)
	case event.OpRename:
		return l.replaces(req)
	}
	return 0
}

// replaces is loses of a rename.
func (l *Ledger) replaces(req *event.Request) int {
	if req.Flags&renameExchange != 0 {
		return l.hides(&req.Object, &req.Target) + l.hides(&req.Target, &req.Object)
	}
	lost := l.hides(&req.Object, &req.Target)
	if req.Target.Kind == event.ObjectFile && !l.named(req.Target.Path) {
		lost += l.worth(&req.Target)
	}
	return lost
}

// hides is the number of files that get a name under which their loss would not
// count, as it does now.
func (l *Ledger) hides(from, to *event.Object) int {
	if !l.policy.expendable(to.Path) {
		return 0
	}
	return l.worth(from)
}

// worth is the number of files that count as lost with what an object holds. A
// directory counts as many.
func (l *Ledger) worth(o *event.Object) int {
	if o.Path == "" || o.Kind != event.ObjectFile && o.Kind != event.ObjectDir || l.policy.expendable(o.Path) {
		return 0
	}
	switch own, _ := l.own(o.Path); {
	case own || l.marked(o.Path):
		return 0
	case o.Kind == event.ObjectDir:
		return maxBulk + 1
	}
	return 1
}

// overwrites reports whether an open may replace what a file holds. One to append
// does not count, or every log would. Its descriptor can take content away all the
// same: by ftruncate and fallocate, a shared mapping, or with the flag taken off it
// (F_SETFL, as every event loop calls it). To hold but the first two would hold
// nothing, and to hold all would stop each of those calls on any descriptor.
func overwrites(req *event.Request) bool {
	if req.Object.Kind != event.ObjectFile || req.Flags&syscall.O_APPEND != 0 && req.Flags&syscall.O_TRUNC == 0 {
		return false
	}
	return req.Access&event.AccessWrite != 0 || req.Flags&syscall.O_TRUNC != 0
}

// expendable reports whether a file is made again by a build: it is in a build or
// temporary folder, or is called as what builds make.
func (p *Policy) expendable(path string) bool {
	return p.scratch(path) || p.tables.scratch.artifact(last(path)) || isBelow(path, "/dev") || isBelow(path, "/proc")
}

// keeps reports whether the task runs a program that keeps what it deletes, or
// whose commands are judged by what they mean: git. It counts only where the
// session could not have put it.
func (p *Policy) keeps(req *event.Request) bool {
	return slices.Contains(p.tables.scratch.tools, last(req.Task.Exe)) && p.foreign(req.Task.Exe)
}

// foreign reports whether a program stands where the session cannot write, so
// that it is what its name says.
func (p *Policy) foreign(path string) bool {
	t := target{path: path, kind: event.ObjectFile}
	return strings.HasPrefix(path, "/") && p.verdictOf(&t).write > event.ActionAllow
}

package policy

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Ledger is a policy with a memory of its session: what the session itself made,
// which it may delete without a question, and how many files it deletes or
// overwrites at once. It may be used by any number of goroutines at once.
type Ledger struct {
	policy *Policy
	bulk   *Bulk
	hooks  Hooks // nil where all that happens comes to Decide

	mu sync.RWMutex // guards made
	// made are paths that the session made, each with all below it; true marks a
	// symbolic link, below which nothing is known.
	made map[string]bool
}

// maxMade bounds what is remembered; what does not fit counts as not made.
const maxMade = 1 << 16

// NewLedger begins a session's memory. now is the clock of [Bulk].
func NewLedger(p *Policy, now func() time.Time) *Ledger {
	return &Ledger{policy: p, bulk: NewBulk(p.BulkLimit(), now), made: make(map[string]bool)}
}

// Hooks judge in the kernel what a session writes, so that it does not come to
// Decide.
type Hooks interface {
	// Lose counts files that lose what they held, besides those that the hooks see,
	// and says whether these are too many.
	Lose(files int) (over bool, err error)
	// Made reports whether the file that a path leads to now was made by the
	// session, or had its content replaced by it. Of directories it knows nothing.
	Made(path string) bool
}

// Join has the ledger remember and count together with hooks. It is called before
// anything is decided.
func (l *Ledger) Join(h Hooks) {
	l.hooks, l.bulk.hooks = h, h
}

// Bulk is where answers about changes of many files go.
func (l *Ledger) Bulk() *Bulk { return l.bulk }

// Decide answers as the policy does, and besides holds what changes many files.
func (l *Ledger) Decide(req *event.Request) event.Decision {
	if req.Op == event.OpExec {
		return l.policy.decideExec(req, l.expendable)
	}
	d := l.policy.Decide(req)
	if d.Action != event.ActionAllow || d.AskBorn || fails(req) {
		return d
	}
	lost := 0
	if !l.bulk.off() && !l.policy.keeps(req) {
		lost = l.loses(req)
	}
	if lost == 0 {
		l.note(req)
		return d
	}
	if held := l.bulk.count(lost); held.Action != event.ActionAllow {
		held.By = d.By
		return held
	}
	l.note(req)
	return d
}

// CheckContent is the policy's.
func (l *Ledger) CheckContent(req *event.Request, content []byte) event.Decision {
	return l.policy.CheckContent(req, content)
}

// expendable reports whether the path that a command is told is one that the
// session made, or in a build or temporary folder. What lies behind a link that
// the session made is neither: the path is not resolved.
func (l *Ledger) expendable(path string) bool {
	own, linked := l.own(path)
	return own || !linked && (l.policy.scratch(path) || l.marked(path))
}

// marked reports whether hooks know a file as the session's own.
func (l *Ledger) marked(path string) bool {
	return l.hooks != nil && l.hooks.Made(path)
}

// own reports whether the session made a path, or something that it is below, or
// whether it leads through a link that the session made.
func (l *Ledger) own(path string) (own, linked bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.madeAbove(path)
}

func (l *Ledger) madeAbove(path string) (own, linked bool) {
	for at := path; len(at) > 1; at = at[:strings.LastIndexByte(at, '/')] {
		if link, ok := l.made[at]; ok {
			through := link && at != path
			return !through, through
		}
	}
	return false, false
}

// note remembers what an allowed operation makes, and forgets what it takes away.
func (l *Ledger) note(req *event.Request) {
	switch req.Op {
	case event.OpOpen, event.OpCreate:
		if req.Access&event.AccessCreate != 0 && req.Object.Kind == event.ObjectMissing || overwrites(req) {
			l.add(req.Object.Path, false)
		}
	case event.OpMkdir, event.OpMknod:
		if req.Object.Kind == event.ObjectMissing {
			l.add(req.Object.Path, false)
		}
	case event.OpSymlink, event.OpLink:
		if req.Target.Kind == event.ObjectMissing {
			l.add(req.Target.Path, req.Op == event.OpSymlink)
		}
	case event.OpTruncate:
		l.add(req.Object.Path, false)
	case event.OpDelete, event.OpRmdir:
		l.mu.Lock()
		delete(l.made, req.Object.Path)
		l.mu.Unlock()
	case event.OpRename:
		l.moved(req.Object.Path, req.Target.Path)
	}
}

// add remembers a path, unless it is known already by what it is below.
func (l *Ledger) add(path string, link bool) {
	if !strings.HasPrefix(path, "/") || !link && l.policy.scratch(path) {
		return
	}
	if own, _ := l.own(path); own && !link {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.made) < maxMade {
		l.made[path] = link
	}
}

// moved keeps up with a rename: what the session made is its own under another
// name, and a directory into which something else was moved is not its own any
// more.
func (l *Ledger) moved(from, to string) {
	marked := l.marked(from)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.HasPrefix(to, "/") || !strings.HasPrefix(from, "/") {
		return
	}
	own, _ := l.madeAbove(from)
	link := l.made[from]
	delete(l.made, from)
	if own || marked || l.policy.scratch(from) {
		if len(l.made) < maxMade {
			l.made[to] = link
		}
		return
	}
	for path := to; len(path) > 1; path = path[:strings.LastIndexByte(path, '/')] {
		delete(l.made, path)
	}
}

// fails reports whether the kernel refuses a rename since it may replace nothing:
// mv tries that first.
func fails(req *event.Request) bool {
	return req.Op == event.OpRename && req.Flags&renameNoReplace != 0 && req.Target.Kind != event.ObjectMissing
}

// loses is the number of files of which an operation loses the content, and whose
// loss counts: they stood there before the session, outside build and temporary
// folders. A directory that is moved into one of those counts as many.
func (l *Ledger) loses(req *event.Request) int {
	path, kind := "", event.ObjectFile
	switch req.Op {
	case event.OpDelete, event.OpTruncate:
		path, kind = req.Object.Path, req.Object.Kind
	case event.OpOpen, event.OpCreate:
		if overwrites(req) {
			path = req.Object.Path
		}
	case event.OpRename:
		if req.Target.Kind == event.ObjectFile {
			path = req.Target.Path
		} else if l.policy.expendable(req.Target.Path) && !l.policy.expendable(req.Object.Path) {
			path, kind = req.Object.Path, req.Object.Kind
		}
	}
	if path == "" || kind != event.ObjectFile && kind != event.ObjectDir || l.policy.expendable(path) {
		return 0
	}
	switch own, _ := l.own(path); {
	case own || l.marked(path):
		return 0
	case kind == event.ObjectDir:
		return maxBulk + 1
	}
	return 1
}

// overwrites reports whether an open may replace what a file holds.
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

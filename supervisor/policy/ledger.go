package policy

import (
	"strings"
	"sync"
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
	tree   func(path string) bool

	mu   sync.RWMutex // guards made
	made map[string]making
}

// making is what the session made at a path.
type making uint8

const (
	madeWhole making = iota + 1 // the file, or the directory and all below it
	madeLink                    // a symbolic link, below which nothing is known
	// madeName is another name of a file that it did not make: the name may go, but
	// what the file holds is not the session's.
	madeName
)

// maxMade bounds what is remembered; what does not fit counts as not made.
const maxMade = 1 << 16

// NewLedger begins a session's memory. now is the clock of [Bulk].
func NewLedger(p *Policy, now func() time.Time) *Ledger {
	return &Ledger{policy: p, bulk: NewBulk(p.BulkLimit(), now), made: make(map[string]making)}
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

// Look has the ledger ask tree whether a directory stands at an absolute path, which
// is as a command was told it: "..", symbolic links and all. It is called before
// anything is decided; without it, as for what happened long ago, commands are judged
// as if a directory stood at each path.
func (l *Ledger) Look(tree func(path string) bool) { l.tree = tree }

// Bulk is where answers about changes of many files go.
func (l *Ledger) Bulk() *Bulk { return l.bulk }

// Decide answers as the policy does, and besides holds what changes many files.
func (l *Ledger) Decide(req *event.Request) event.Decision {
	if req.Op == event.OpExec {
		return l.policy.decideExec(req, surroundings{l.expendable, l.tree})
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

// CheckChange is the policy's.
func (l *Ledger) CheckChange(req *event.Request, was, then []byte) event.Decision {
	return l.policy.CheckChange(req, was, then)
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
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, deletedMark) { // it has another name
		return false, false
	}
	for at := path; len(at) > 1; at = at[:strings.LastIndexByte(at, '/')] {
		switch l.made[at] {
		case madeWhole:
			return true, false
		case madeLink:
			return at == path, at != path
		case madeName:
			return false, false
		}
	}
	return false, false
}

// named reports whether a path is but another name of a file that the session did
// not make.
func (l *Ledger) named(path string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.made[path] == madeName
}

// note remembers what an allowed operation makes, and forgets what it takes away.
func (l *Ledger) note(req *event.Request) {
	switch req.Op {
	case event.OpOpen, event.OpCreate:
		if req.Access&event.AccessCreate != 0 && req.Object.Kind == event.ObjectMissing || overwrites(req) {
			l.add(req.Object.Path, madeWhole)
		}
	case event.OpMkdir, event.OpMknod:
		if req.Object.Kind == event.ObjectMissing {
			l.add(req.Object.Path, madeWhole)
		}
	case event.OpSymlink:
		if req.Target.Kind == event.ObjectMissing {
			l.add(req.Target.Path, madeLink)
		}
	case event.OpLink:
		if req.Target.Kind == event.ObjectMissing {
			l.linked(&req.Object, req.Target.Path)
		}
	case event.OpTruncate:
		l.add(req.Object.Path, madeWhole)
	case event.OpDelete, event.OpRmdir:
		l.mu.Lock()
		delete(l.made, req.Object.Path)
		l.mu.Unlock()
	case event.OpRename:
		if req.Flags&renameExchange != 0 {
			l.exchanged(req.Object.Path, req.Target.Path)
		} else {
			l.moved(req.Object.Path, req.Target.Path, req.Target.Kind == event.ObjectDir)
		}
	}
}

// add remembers a path, unless it is known already by what it is below.
func (l *Ledger) add(path string, what making) {
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, deletedMark) || what != madeLink && l.policy.scratch(path) {
		return
	}
	if own, _ := l.own(path); own && what == madeWhole {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.made) < maxMade {
		l.made[path] = what
	} else if what == madeName {
		l.disown(path)
	}
}

// linked remembers a new name of a file, which is the session's own if the file is,
// or had no name.
func (l *Ledger) linked(from *event.Object, to string) {
	own, _ := l.own(from.Path)
	if own || from.Kind == event.ObjectMem || l.marked(from.Path) {
		l.add(to, madeWhole)
		return
	}
	l.add(to, madeName)
}

// moved keeps up with a rename: what the session made is its own under another
// name, and a directory into which something else was moved is not its own any
// more. full is set if there may be something in what stands at the new name.
func (l *Ledger) moved(from, to string, full bool) {
	marked := l.marked(from)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.HasPrefix(to, "/") || !strings.HasPrefix(from, "/") {
		return
	}
	own, _ := l.madeAbove(from)
	what := l.made[from]
	delete(l.made, from)
	switch {
	case full: // it fails, unless that is empty
	case !own && !marked && what != madeName && !l.policy.scratch(from):
		l.disown(to)
	case len(l.made) < maxMade:
		l.made[to] = max(what, madeWhole)
	case what == madeName:
		l.disown(to)
	}
}

// exchanged keeps up with two names that change places. Both stay the session's
// own if both are; else nothing there is any more.
func (l *Ledger) exchanged(a, b string) {
	if !strings.HasPrefix(a, "/") || !strings.HasPrefix(b, "/") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ownA, _ := l.madeAbove(a)
	ownB, _ := l.madeAbove(b)
	if ownA && ownB && l.made[a] != madeLink && l.made[b] != madeLink {
		return
	}
	l.disown(a)
	l.disown(b)
}

// disown forgets a path and what is above it.
func (l *Ledger) disown(path string) {
	for ; len(path) > 1; path = path[:strings.LastIndexByte(path, '/')] {
		delete(l.made, path)
	}
}

// fails reports whether the kernel refuses a rename since it may replace nothing:
// mv tries that first.
func fails(req *event.Request) bool {
	return req.Op == event.OpRename && req.Flags&renameNoReplace != 0 && req.Target.Kind != event.ObjectMissing
}

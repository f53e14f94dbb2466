package gate

import (
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// What a call does with acts: it is covered by one, begins one, and ends others.

// covering is the answer of an act that a request is a step of. asked is the
// decider's decision about the request.
func (w *worker) covering(req *event.Request, asked event.Decision) (event.Decision, bool) {
	s := &w.g.acts
	if !s.any.Load() || req.Op == event.OpSetxattr && !plainAttribute(w.attribute) {
		return event.Decision{}, false
	}
	now, runs := time.Now(), proc.ExeID{}
	if req.Op != event.OpExec {
		runs = w.th.RunsNow()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		if a.task != w.th.ID || a.m != w.m || now.After(a.until) || !sameQuestion(a.asked, asked) {
			continue
		}
		if req.Op != event.OpExec && runs != a.exe {
			continue
		}
		if a.words != nil && sameLine(a.words, req) {
			return a.d, true
		}
		if i := a.step(req); i >= 0 {
			if req.Op == event.OpExec {
				w.taken, w.left = a, a.also[i+1:]
			}
			return a.d, true
		}
	}
	return event.Decision{}, false
}

// step is which step of the act a request is, -1 if it is none.
func (a *act) step(req *event.Request) int {
	if req.Op != event.OpExec && (FileID{req.Object.Dev, req.Object.Ino} != a.id || a.id == FileID{}) {
		return -1
	}
	return slices.IndexFunc(a.also, func(step event.Request) bool { return isStep(&step, req) })
}

// plainAttribute says whether an extended attribute says no more than a file's mode
// and content: an access control list, or one of the user's own. Others are
// capabilities and labels.
func plainAttribute(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_")
}

// began notes that an answered call was done: what it made or wrote is known now.
// fd is open on it.
func (w *worker) began(req *event.Request, d event.Decision, fd int) {
	g := w.grantOf(req)
	if d.Question == "" || g == nil || len(g.also) == 0 {
		return
	}
	held, err := unix.Open(proc.SelfPath(fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the next step asks
	}
	w.keep(g, held)
}

// beganAt is began for what stands under a name now.
func (w *worker) beganAt(req *event.Request, d event.Decision, n *proc.Name) {
	g := w.grantOf(req)
	if d.Question == "" || g == nil || len(g.also) == 0 {
		return
	}
	held, err := unix.Openat(n.Parent.FD, n.Last, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the next step asks
	}
	w.keep(g, held)
}

// keep begins the act of a grant whose object held is a descriptor of.
func (w *worker) keep(g *grant, held int) {
	a := &act{
		task: w.th.ID, m: w.m, exe: w.th.ExeID(), asked: g.asked, d: g.d, also: slices.Clone(g.also), until: time.Now().Add(actLasts), held: held,
	}
	var st unix.Stat_t
	if err := unix.Fstat(held, &st); err != nil || a.exe == (proc.ExeID{}) {
		a.drop()
		return
	}
	a.id = FileID{st.Dev, st.Ino}
	a.target, g.target = g.target, nil
	w.g.acts.add(a)
}

// saidNo notes the answers to this call that were no.
func (w *worker) saidNo() {
	for i := range w.grants {
		g := &w.grants[i]
		if g.d.Action == event.ActionAllow || g.d.Question == "" {
			continue
		}
		// The latest counts: a task that tries again and again fills no table.
		w.g.acts.remove(func(a *act) bool { return a.task == w.th.ID && a.d.Action != event.ActionAllow })
		r := &g.request
		a := &act{task: w.th.ID, m: w.m, exe: w.th.ExeID(), asked: g.asked, d: g.d, until: time.Now().Add(noLasts), held: -1}
		if r.Op == event.OpExec {
			a.words = r
		} else {
			a.also, a.id = slices.Clone(g.also), FileID{r.Object.Dev, r.Object.Ino}
		}
		w.g.acts.add(a)
	}
}

// changing notes that the task is about to exec: that ends its acts, and begins that
// of the programs which an answer says it may become.
func (w *worker) changing() {
	w.g.table.Changing(w.th.TGID)
	w.g.acts.remove(func(a *act) bool { return a.task == w.th.ID && a.words == nil })
	var next []act
	for i := range w.grants {
		if g := &w.grants[i]; g.d.Action == event.ActionAllow && g.d.Question != "" {
			next = append(next, act{asked: g.asked, d: g.d, also: g.also})
		}
	}
	if w.taken != nil {
		next = append(next, act{asked: w.taken.asked, d: w.taken.d, also: w.left})
	}
	for i := range next {
		a := &next[i]
		if len(a.also) == 0 {
			continue
		}
		a.task, a.m, a.until, a.held = w.th.ID, w.m, time.Now().Add(actLasts), -1
		w.g.acts.add(a)
	}
}

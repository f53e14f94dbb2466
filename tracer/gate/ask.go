package gate

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// A call that the decider asks about leaves its worker unanswered. A goroutine
// holds the notification, the task's name and, where there is one, the object
// itself, and waits for the answer; no thread, lock or waiter is held, so any
// number of questions cost the rest of the tree nothing. With the answer the call
// is judged anew from its arguments, which may have changed: the answer is for
// the request that was asked about and for no other. What comes out otherwise is
// asked anew, a few times. A yes never reaches what the decider denies, since a
// decider asks only about what nothing denies.
//
// An answer is for the steps besides the call that the question showed, see acts.go.
//
// The wait ends without an answer when the task is killed, and when somebody
// interrupts or stops it: then the call is restarted, and asks again.

// asking is what waits for answers.
type asking struct {
	ctx context.Context // of Run
	wg  *sync.WaitGroup
}

// ask leaves the call to a goroutine that waits for the answer to w.asked.
func (w *worker) ask() {
	if w.asked == nil {
		w.refuse(&event.Request{Op: w.call.op, Syscall: w.call.name}, "bug: a question without words")
		return
	}
	size := heldWords(w.asked)
	if w.g.words.Add(size) > maxWords {
		w.g.words.Add(-size)
		w.refuse(&w.asked.Request, "asks, and the arguments of what waits already fill the memory for them")
		return
	}
	w.th.Retain()
	c := &askedCall{g: w.g, m: w.m, n: *w.n, th: w.th, start: w.start, q: *w.asked, grants: w.grants}
	w.grants = nil
	w.g.asking.wg.Go(func() {
		defer w.g.words.Add(-size)
		c.wait()
	})
}

// maxWords bounds the bytes of arguments that all who wait have: one may be told
// megabytes.
const maxWords = 64 << 20

// heldWords is how many bytes of arguments a question keeps.
func heldWords(q *Question) (n int64) {
	for _, r := range append([]event.Request{q.Request}, q.Also...) {
		for _, word := range r.Argv {
			n += int64(len(word)) + 16
		}
	}
	return n
}

// askedCall is a call that waits for an answer.
type askedCall struct {
	g      *Gate
	m      *member
	n      seccomp.Notification
	th     *proc.Thread
	start  time.Time
	q      Question
	grants []grant
	target *proc.Pinned // of the grant to come
}

func (c *askedCall) drop() {
	drop(append(c.grants, grant{target: c.target}))
}

var (
	errKilled = errors.New("the task is gone")
	errSignal = errors.New("the task has a signal to handle")
	errOver   = errors.New("the session ends")
)

func (c *askedCall) wait() {
	defer c.th.Release()
	c.q.Request.Task = c.th.Task(true)
	c.q.Request.Task.Cwd = c.th.Cwd()
	c.q.Ancestry = c.g.ancestry(c.th)
	c.q.Also, c.target = foresee(c.q.Also)
	held, err := hold(&c.q.Request.Object)
	if err != nil {
		c.refuse("its object cannot be held while it is asked about: " + err.Error())
		return
	}
	if held >= 0 {
		defer unix.Close(held)
	}
	ctx, cancel := context.WithCancelCause(c.g.asking.ctx)
	defer cancel(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.watch(ctx, cancel)
	}()
	a := c.m.Asker.Ask(ctx, c.q)
	cause := context.Cause(ctx)
	cancel(errOver)
	<-over
	switch {
	case cause == nil:
		c.answer(a)
	case errors.Is(cause, errSignal):
		c.drop()
		_ = c.g.cfg.Listener.Fail(c.n.ID, restart) // ENOENT: gone by now
	case errors.Is(cause, errKilled):
		c.drop()
	default:
		c.refuse(errOver.Error())
	}
}

// How often a waiting task is looked at: for being killed, which costs next to
// nothing, and for signals, which costs some 15 µs.
const (
	lookFirst = 20 * time.Millisecond
	lookLater = 200 * time.Millisecond
)

// byPeople are the signals by which people end and stop programs. Others, of
// timers and children, wait until there is an answer: a question that came anew
// with each of them could not be answered.
var byPeople = proc.SignalSet(unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP,
	unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)

// watch cancels the question when its task is gone or has a signal to handle.
func (c *askedCall) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	began := time.Now()
	tick := time.NewTicker(lookFirst)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			switch {
			case !c.g.cfg.Listener.Valid(c.n.ID):
				cancel(errKilled)
				return
			case c.th.Deliverable(byPeople):
				cancel(errSignal)
				return
			}
			if now.Sub(began) > time.Second {
				tick.Reset(lookLater)
			}
		}
	}
}

func (c *askedCall) refuse(why string) { c.answer(Answer{Decision: refused(c.q.Decision, why)}) }

// answer judges the call anew, with a for what was asked.
func (c *askedCall) answer(a Answer) {
	runtime.LockOSThread() // never unlocked: the thread took a task's credentials
	w, err := c.g.newWorker(false)
	if err != nil {
		c.g.cfg.Log.Error("no thread to act in", "error", err)
		c.g.overflow(&c.n)
		c.drop()
		return
	}
	g := grant{request: c.q.Request, asked: c.q.Decision, d: a.Decision, seen: a.Also, target: c.target}
	if c.q.Request.Op != event.OpExec {
		g.also = shown(c.q.Also, a.Also, false)
	}
	grants := append(slices.Clone(c.grants), g)
	w.resume(&c.n, c.start, grants)
	drop(w.grants)
}

// hold keeps the inode of an object from being used again for another file while
// the object is asked about. It returns -1 where there is no file to hold.
func hold(o *event.Object) (fd int, err error) {
	if o.Ino == 0 || o.Kind == event.ObjectMem || o.Path == "" || o.Path[0] != '/' {
		return -1, nil
	}
	fd, err = unix.Open(o.Path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != o.Dev || st.Ino != o.Ino {
		unix.Close(fd)
		return -1, errors.New("something else stands there now")
	}
	return fd, nil
}

// maxAncestry bounds how many processes a question names.
const maxAncestry = 32

// ancestry names the processes from the session's command down to th's.
func (g *Gate) ancestry(th *proc.Thread) []event.Task {
	list := []event.Task{th.Task(true)}
	for pid := th.PPID; pid > 1 && pid != g.cfg.Init && len(list) < maxAncestry; {
		parent, err := g.table.Get(pid)
		if err != nil {
			break
		}
		list = append(list, parent.Task(true))
		pid = parent.PPID
		parent.Release()
	}
	slices.Reverse(list)
	return list
}

package gate

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// The kernel copies the words of an exec after they were judged. Where a verifier
// compares what it copied, a program that is told something else is killed before it
// begins. Without one, for a script and for vectors that are too long, they are compared
// here: they stand in /proc/PID/cmdline, and are read at the first call of the new
// program that is trapped. A program that is dynamically linked makes that call in its
// loader, before any code of its own; a static one before it can touch a file or
// an address.

// lines are the execs that were let go on for their words.
type lines struct {
	pending atomic.Int64
	mu      sync.Mutex // guards m
	m       map[string]lineWait
}

// lineWait is an exec by the task that asked for it.
type lineWait struct {
	pid    int
	before proc.ExeID // what the process ran when it was judged
	caller []string   // and its words then
	words  []string
}

// anyWord stands for a word that is the kernel's to choose: how it calls a script.
const anyWord = "\x00"

// vector is what a verifier may compare: nil where the kernel chooses a word.
func vector(words []string) []string {
	if slices.Contains(words, anyWord) {
		return nil
	}
	return words
}

// maxLines is how many may wait before those of dead processes are forgotten.
const maxLines = 1024

// expectWords remembers what an exec was judged by.
func (w *worker) expectWords(caller, words []string) {
	l := &w.g.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = make(map[string]lineWait)
	}
	if len(l.m) >= maxLines {
		for id, x := range l.m {
			if _, dead := proc.ParentState(x.pid); dead {
				delete(l.m, id)
			}
		}
	}
	l.m[w.th.ID] = lineWait{w.th.TGID, w.th.ExeID(), caller, words}
	l.pending.Store(int64(len(l.m)))
}

// verifyWords compares what a program was told with what was judged, at its first
// call after an exec.
func (w *worker) verifyWords() (ok bool) {
	l := &w.g.lines
	if l.pending.Load() == 0 {
		return true
	}
	l.mu.Lock()
	x, waiting := l.m[w.th.ID]
	l.mu.Unlock()
	if !waiting {
		return true
	}
	size := 1 << 16 // for what differs, too
	for _, word := range slices.Concat(x.words, x.caller) {
		size += len(word) + 1
	}
	raw, err := w.th.ReadFile("cmdline", size)
	if err != nil {
		return w.unverified(err)
	}
	told, _ := proc.SplitArgv(raw, size)
	if !sameWords(x.words, told) {
		if !w.g.cfg.Listener.Valid(w.n.ID) {
			return false // the process is gone, and nobody waits
		}
		if w.th.RunsNow() == x.before && slices.Equal(x.caller, told) {
			return true // it has not happened yet, or failed: asked again at the next call
		}
		return w.otherWords(told)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.m, w.th.ID)
	l.pending.Store(int64(len(l.m)))
	return true
}

func sameWords(want, got []string) bool {
	return slices.EqualFunc(want, got, func(want, got string) bool { return want == got || want == anyWord })
}

// otherWords ends a process that was told other than what was judged.
func (w *worker) otherWords(told []string) bool {
	req := event.Request{Op: event.OpExec, Access: event.AccessExec, Syscall: "execve", Task: w.th.Task(true)}
	req.Task.Argv, req.Task.ArgvLen = nil, 0
	argv, cut := proc.CutArgv(told)
	req.Task.Argv, req.Task.ArgvLen = argv, uint32(cut)
	req.Object = event.Object{Kind: event.ObjectFile, Path: req.Task.Exe}
	d := event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.EACCES),
		Reason: "the program was told other words than were judged; killed"}
	w.g.cfg.Recorder.Record(w.g.event(&req, d, time.Now(), unix.EACCES))
	if w.g.cfg.Kill != nil {
		w.g.cfg.Kill(w.th.TGID)
	}
	return false
}

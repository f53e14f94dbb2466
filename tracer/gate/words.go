package gate

import (
	"maps"
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
// begins. Without one, and for vectors that are too long, they are compared here: they stand in /proc/PID/cmdline, and are read at the first call of the new
// program that is trapped. A program that is dynamically linked makes that call in its
// loader, before any code of its own; a static one before it can touch a file or
// an address.

// lines are the execs of processes some of whose execs were let go on for their words.
type lines struct {
	pending atomic.Int64
	mu      sync.Mutex            // guards m
	m       map[string][]lineWait // by the process
}

// lineWait is the last exec that a thread asked for. Which of a process's threads
// succeeds is not known before.
type lineWait struct {
	pid, tid int
	files    []Program
	before   proc.ExeID // what the process ran when it was judged
	caller   []string   // and its words then
	words    []string   // nil for any
}

// maxLines is how many processes may wait before those of dead ones are forgotten.
const maxLines = 1024

// expectWords remembers what an exec was judged by. Where that is no words, or a
// verifier holds it to them, it is of interest if another exec of the process has to
// be compared here: either may be the one that succeeds.
func (w *worker) expectWords(files []Program, caller, words []string, told bool) {
	l := &w.g.lines
	aside := words == nil || told
	if aside && l.pending.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := slices.DeleteFunc(slices.Clone(l.m[w.th.ID]), func(x lineWait) bool { return x.tid == w.th.TID })
	if aside && len(waits) == 0 {
		l.forget(w.th.ID)
		return
	}
	if l.m == nil {
		l.m = make(map[string][]lineWait)
	}
	if len(l.m) >= maxLines {
		maps.DeleteFunc(l.m, func(_ string, waits []lineWait) bool { return ended(waits[0].pid) })
	}
	l.m[w.th.ID] = append(waits, lineWait{w.th.TGID, w.th.TID, files, w.th.ExeID(), caller, words})
	l.pending.Store(int64(len(l.m)))
}

// forget is called with mu.
func (l *lines) forget(process string) {
	delete(l.m, process)
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
	waits := slices.Clone(l.m[w.th.ID])
	l.mu.Unlock()
	if len(waits) == 0 {
		return true
	}
	size := 1 << 16 // for what differs, too
	for _, x := range waits {
		for _, word := range slices.Concat(x.words, x.caller) {
			size += len(word) + 1
		}
	}
	raw, err := w.th.ReadFile("cmdline", size)
	if err != nil {
		return w.unverified(err)
	}
	told, _ := proc.SplitArgv(raw, size)
	ran, err := w.running()
	if err != nil {
		return w.unverified(err)
	}
	now := w.th.RunsNow()
	runs := func(x lineWait) bool {
		return slices.ContainsFunc(x.files, func(p Program) bool { return p.FileID == ran }) && (x.words == nil || slices.Equal(x.words, told))
	}
	if !slices.ContainsFunc(waits, runs) {
		if !w.g.cfg.Listener.Valid(w.n.ID) {
			return false // the process is gone, and nobody waits
		}
		before := func(x lineWait) bool { return now == x.before && slices.Equal(x.caller, told) }
		if slices.ContainsFunc(waits, before) {
			return true // it has not happened yet, or failed: asked again at the next call
		}
		return w.otherWords(told)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(w.th.ID)
	return true
}

// running names the file that the process runs as [Verifier] does.
func (w *worker) running() (FileID, error) {
	fd, err := w.th.Open("exe", unix.O_PATH)
	if err != nil {
		return FileID{}, err
	}
	defer unix.Close(fd)
	if v := w.g.cfg.Verifier; v != nil {
		return v.Identify(fd)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return FileID{st.Dev, st.Ino}, err
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

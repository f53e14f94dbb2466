package tracer

import (
	"context"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// watcher joins the two views of an exec: the gate says what it judged, the
// witness what the kernel ran. It makes facts of the witness's records.
type watcher struct {
	witness  *witness.Witness
	devices  witness.Devices
	engine   string
	hooks    *lsm.Engine // nil without the engine lsm
	clock    clock
	adopt    sync.Once
	adoptErr error

	mu     sync.Mutex             // guards what follows
	judged map[int][]gate.Program // by the thread that execs
	// joined are the processes that began a session inside the session, by pid.
	joined map[int32]int

	// tasks is what is known of the session's processes, by pid. Only run's
	// goroutine changes it.
	tasks map[int32]known
	gone  []leaving
}

// known is what facts say of a process that their record does not hold.
type known struct {
	id   string
	exe  string
	ppid int32
	// session is the index of the session that it is in, see gate.Member.
	session int
}

// join notes that a process is now in another session.
func (w *watcher) join(pid, index int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joined[int32(pid)] = index
}

// sessionOf is the index of the session that a process is in.
func (w *watcher) sessionOf(pid int32) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if index, ok := w.joined[pid]; ok {
		return index
	}
	return w.tasks[pid].session
}

// leaving is a process that has ended, but of which the hooks may still have
// something to tell: their rings are others than the witness's.
type leaving struct {
	pid  int32
	id   string
	when time.Time
}

// lingering is how long a process that has ended is remembered.
const lingering = 5 * time.Second

// Identify names a file by the device of its super block, as the kernel's
// programs see it.
func (w *watcher) Identify(fd int) (gate.FileID, error) {
	i, err := w.devices.Inode(fd)
	return gate.FileID{Dev: i.Dev, Ino: i.Ino}, err
}

// Expect announces an exec to the kernel's programs.
func (w *watcher) Expect(tid int, files []gate.Program, argv []string) (told bool, err error) {
	w.mu.Lock()
	w.judged[tid] = files
	w.mu.Unlock()
	// The first exec is the command's own: it is held at its notification, so it
	// can be adopted on every kernel, and nothing of the session came before.
	w.adopt.Do(func() {
		if w.adoptErr = w.witness.Adopt(tid); w.adoptErr == nil && w.hooks != nil {
			w.adoptErr = w.hooks.Adopt(tid)
		}
	})
	if w.adoptErr != nil {
		return false, w.adoptErr
	}
	inodes := make([]witness.Inode, len(files))
	for i, f := range files {
		inodes[i] = witness.Inode{Dev: f.Dev, Ino: f.Ino}
	}
	if w.hooks != nil {
		if err := w.hooks.Announce(tid, inodes); err != nil {
			return false, err
		}
	}
	return w.witness.Expect(tid, inodes, argv)
}

func (w *watcher) run(ctx context.Context, s *Session) error {
	return w.witness.Run(ctx, func(r witness.Record) {
		switch r := r.(type) {
		case witness.Fork:
			if r.Unmarked { // nobody watches it, so it must not live
				_ = unix.Kill(int(r.Child.PID), unix.SIGKILL)
				_ = s.End()
			}
		case witness.Lost:
			if r.Cause.Fatal() {
				_ = s.End()
			}
		}
		e, index := w.fact(r)
		e.Origin = w.witness.Origin()
		e.Origin.Inner = uint32(index)
		s.gate.RecorderOf(index).Record(e)
	})
}

func (w *watcher) close() error {
	if w == nil {
		return nil
	}
	return w.witness.Close()
}

// fact is the event of a record, and the index of the session that it is of.
func (w *watcher) fact(r witness.Record) (e event.Event, index int) {
	e = event.Event{Time: time.Now().UTC(), Engine: w.engine, Kind: event.KindFact, Layer: "witness", By: "witness", Action: event.ActionAllow}
	switch r := r.(type) {
	case witness.Fork:
		e.Op, e.BootNS = event.OpFork, r.Time
		e.Task = event.Task{ID: r.Child.ID(), PID: r.Child.PID, TID: r.Child.PID, PPID: r.Parent.PID}
		e.Object = event.Object{Kind: event.ObjectTask, Path: r.Parent.ID()}
		e.Task.Exe = w.known(r.Parent.PID).exe
		index = w.sessionOf(r.Parent.PID)
		w.learn(r.Child.PID, known{r.Child.ID(), e.Task.Exe, r.Parent.PID, index})
	case witness.Exec:
		index = w.sessionOf(r.Process.PID)
		w.executed(&e, r)
	case witness.Exit:
		e.Op, e.BootNS = event.OpExit, r.Time
		k := w.known(r.Process.PID)
		index = w.sessionOf(r.Process.PID)
		w.forget(r.Process)
		e.Task = event.Task{ID: r.Process.ID(), PID: r.Process.PID, TID: r.Process.PID, PPID: k.ppid, Exe: k.exe}
		if r.Status.Signaled() {
			e.ExitSignal = int32(r.Status.Signal())
		} else {
			e.ExitCode = int32(r.Status.ExitStatus())
		}
	case witness.Lost:
		e.Kind, e.Op, e.Action, e.Count = event.KindLost, event.OpLoss, event.ActionNone, r.Count
		e.Reason = "witness: " + string(r.Cause)
	}
	if w.clock.past() && e.BootNS != 0 {
		e.Time = w.clock.wall(e.BootNS)
	}
	return e, index
}

func (w *watcher) known(pid int32) known {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks[pid]
}

func (w *watcher) learn(pid int32, k known) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks[pid] = k
}

// forget lets go of what is known of a process, a while after its end.
func (w *watcher) forget(p witness.Process) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = append(w.gone, leaving{p.PID, p.ID(), now})
	for len(w.gone) > 0 && now.Sub(w.gone[0].when) > lingering {
		if was := w.gone[0]; w.tasks[was.pid].id == was.id { // its number may be another's by now
			delete(w.tasks, was.pid)
		}
		w.gone = w.gone[1:]
	}
}

func (w *watcher) executed(e *event.Event, r witness.Exec) {
	e.Op, e.Access, e.BootNS = event.OpExec, event.AccessExec, r.Time
	w.mu.Lock()
	judged := w.judged[int(r.OldTID)]
	delete(w.judged, int(r.OldTID))
	w.mu.Unlock()
	e.Task = event.Task{ID: r.Process.ID(), PID: r.Process.PID, TID: r.OldTID, Argv: r.Argv, ArgvLen: r.ArgvLen}
	e.Object = event.Object{Kind: event.ObjectFile, Path: r.Filename, Dev: r.Inode.Dev, Ino: r.Inode.Ino, Raw: r.Filename}
	// What runs now is the program itself or, for a script, its interpreter.
	for _, p := range judged {
		if p.FileID == (gate.FileID{Dev: r.Inode.Dev, Ino: r.Inode.Ino}) {
			e.Task.Exe, e.Object.Path = p.Path, judged[0].Path
		}
	}
	switch {
	case e.Task.Exe != "":
	case w.clock.past():
		e.Task.Exe = r.Filename
	default: // it was not judged: the kernel knows
		e.Task.Exe, _ = os.Readlink("/proc/" + strconv.Itoa(int(r.Process.PID)) + "/exe")
		e.Object.Path = e.Task.Exe
	}
	if e.Object.Raw == e.Object.Path {
		e.Object.Raw = ""
	}
	k := w.known(r.Process.PID)
	e.Task.PPID, k.id, k.exe = k.ppid, r.Process.ID(), e.Task.Exe
	w.learn(r.Process.PID, k)
	if r.Mismatch || r.Unexpected || r.Told {
		e.Action, e.Errno = event.ActionDeny, int32(unix.EACCES)
		e.Reason = "another program ran than was judged"
		if r.Told {
			e.Reason = "the program was told other words than were judged"
		}
		if r.Killed {
			e.Reason += "; killed before its first instruction"
		}
	}
}

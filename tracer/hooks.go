package tracer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// hooks makes events of what the kernel's hooks judged. They have decided by
// tables; the decider, which knows the same rules by name, says which it was.
type hooks struct {
	engine   *lsm.Engine
	decider  gate.Decider
	recorder gate.Recorder
	watch    *watcher
	session  *Session // nil when it is over
	clock    clock
	index    atomic.Int64 // of the session inside that they are of, 0 of the session itself
	wall     wall
	bulk     event.Decision // about one file too many, see lsm.Bulk
	asked    bool           // there is somebody to ask, but not from a hook

	mu    sync.Mutex // guards named
	named map[question]event.Decision
}

// question is all that a decision about one path depends on.
type question struct {
	op     event.Op
	access event.Access
	kind   event.ObjectKind
	own    bool
	born   bool
	path   string
	target string
}

// maxNamed is how many decisions about what was refused are remembered. To find the
// rule of a refusal takes a look at every rule, and what is refused once is often
// asked again. What is allowed is found faster than remembered.
const maxNamed = 4096

// name is the decider's decision about one path that was refused.
func (h *hooks) name(req *event.Request) event.Decision {
	q := question{req.Op, req.Access, req.Object.Kind, req.Object.Own, req.Born, req.Object.Path, req.Target.Path}
	h.mu.Lock()
	d, known := h.named[q]
	h.mu.Unlock()
	if known {
		return d
	}
	d = h.decider.Decide(req)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.named == nil || len(h.named) >= maxNamed {
		h.named = map[question]event.Decision{}
	}
	h.named[q] = d
	return d
}

var (
	_ lsm.Sink      = (*hooks)(nil)
	_ gate.Injector = (*lsm.Engine)(nil)
)

// LoadHooks makes the session one of the engine lsm: Start will want a plan with
// these rules. After an error it is one of the engine unotify, as before.
func (l *Launcher) LoadHooks(rules *lsm.Rules, strict bool) error {
	if l.witness == nil {
		return errors.New("the engine lsm needs root")
	}
	w, err := l.witness()
	if err != nil {
		return fmt.Errorf("the engine lsm needs the witness: %w", err)
	}
	hooks, err := lsm.New(lsm.Config{
		Session: uint64(os.Getpid()), Rules: *rules, Strict: strict, Room: w.Room(),
		Numbers: [2]uint32{l.number(ringUrgent), l.number(ringFlow)},
	})
	if err != nil {
		return err
	}
	l.hooks = hooks
	return nil
}

// NewSink makes events of hooks' records without a session: for measurements. What
// comes of it is that of a session all of whose tasks are this process.
func NewSink(d gate.Decider, r gate.Recorder) lsm.Sink {
	pid := int32(os.Getpid())
	exe, _ := os.Executable()
	return &hooks{decider: d, recorder: r, watch: &watcher{tasks: map[int32]known{pid: {exe: exe, ppid: int32(os.Getppid())}}}}
}

// run ends the session when records cannot be read any more.
func (h *hooks) run(ctx context.Context, s *Session) error {
	err := h.engine.Run(ctx, h)
	if err != nil {
		_ = s.End()
	}
	return err
}

// release leaves the hooks to init.
func (h *hooks) release() error {
	if h == nil {
		return nil
	}
	return h.engine.Release()
}

func (h *hooks) close() error {
	if h == nil {
		return nil
	}
	return h.engine.Close()
}

// Lost records that records, or answers, were lost.
func (h *hooks) Lost(l lsm.Lost) {
	h.recorder.Record(event.Event{
		Time: time.Now().UTC(), BootNS: proc.BootNS(), Engine: EngineLSM, Kind: event.KindLost, Op: event.OpLoss,
		By: "lsm", Layer: "lsm", Count: l.Count, Reason: "lsm: " + string(l.Cause), Origin: l.Origin,
	})
}

// Access records one operation.
func (h *hooks) Access(a lsm.Access) {
	req := h.request(&a)
	d := h.decision(&req, &a)
	recorder, index := h.recorderOf(&a)
	a.Origin.Inner = uint32(index)
	recorder.Record(event.Event{
		Time: h.time(a.Time), BootNS: a.Time, Engine: EngineLSM, Kind: event.KindRequest,
		Op: req.Op, Access: req.Access, Task: req.Task, Object: req.Object, Target: req.Target, Flags: req.Flags, Born: req.Born,
		Action: d.Action, Rule: d.Rule, Reason: d.Reason, By: d.By, Layer: "lsm", Errno: a.Errno,
		Origin: a.Origin,
	})
}

// time is the time of day of what happened at a time since boot.
func (h *hooks) time(boot uint64) time.Time {
	if h.clock.past() {
		return h.clock.wall(boot)
	}
	return h.wall.time(boot)
}

// recorderOf is the recorder of the innermost session that the task is of, and that
// one's index.
func (h *hooks) recorderOf(a *lsm.Access) (r gate.Recorder, index int) {
	index = int(a.Inner)
	if index == 0 {
		index = int(h.index.Load())
	}
	if index == 0 || h.session == nil {
		return h.recorder, index
	}
	return h.session.gate.RecorderOf(index), index
}

// request is the request that the operation amounts to.
func (h *hooks) request(a *lsm.Access) event.Request {
	req := event.Request{Op: a.Op, Access: a.Need, Task: h.task(a), Born: a.Born}
	req.Object = event.Object{Kind: kindOf(a), Path: a.Path, Dev: a.Dev, Ino: a.Ino, Mode: a.Mode, Own: a.Own}
	if a.PathLong { // how much longer is not known
		req.Object.PathLen = uint32(len(a.Path)) + 1
	}
	switch {
	case req.Op == event.OpSymlink:
		req.Access, req.Target = event.AccessCreate, req.Object
		req.Object = event.Object{Kind: event.ObjectSymlink, Raw: a.Other}
	case req.Op == event.OpRename, req.Op == event.OpLink:
		req.Access = event.AccessCreate
		if req.Op == event.OpRename {
			req.Access |= event.AccessDelete
		}
		req.Object.Kind = proc.KindOf(a.Mode) // it is the new name that is made
		req.Target = event.Object{Kind: event.ObjectFile, Path: a.Other}
		if a.Made {
			req.Target.Kind = event.ObjectMissing
		}
		if a.OtherLong {
			req.Target.PathLen = uint32(len(a.Other)) + 1
		}
	case req.Op == event.OpMkdir, req.Op == event.OpMknod:
		req.Access = event.AccessCreate
	case req.Op == event.OpDelete, req.Op == event.OpRmdir:
		req.Access = event.AccessDelete
	case a.Made:
		req.Access |= event.AccessCreate
	}
	if req.Op == event.OpOpen || req.Op == event.OpCreate {
		req.Flags = a.Arg & openFlags
	}
	return req
}

// openFlags are those that open(2) takes; the kernel keeps others of its own beside
// them.
const openFlags = unix.O_ACCMODE | unix.O_CREAT | unix.O_EXCL | unix.O_NOCTTY | unix.O_TRUNC | unix.O_APPEND |
	unix.O_NONBLOCK | unix.O_SYNC | unix.O_ASYNC | unix.O_DIRECT | unix.O_DIRECTORY | unix.O_NOFOLLOW |
	unix.O_NOATIME | unix.O_CLOEXEC | unix.O_TMPFILE

func kindOf(a *lsm.Access) event.ObjectKind {
	switch {
	case a.Path == "" && a.Ino == 0:
		return event.ObjectKernel
	case a.Anonymous:
		return event.ObjectMem
	case a.Made:
		return event.ObjectMissing
	}
	return proc.KindOf(a.Mode)
}

// decision names the rule. Where the decider, asked now, says otherwise than the
// hook did, the hook is what counted.
func (h *hooks) decision(req *event.Request, a *lsm.Access) event.Decision {
	var d event.Decision
	switch named := a.Why <= lsm.WhyAsk && req.Object.Kind != event.ObjectKernel && h.decider != nil; {
	case a.Why == lsm.WhyBulk:
		d = h.bulk
	case named && a.Refused:
		d = h.name(req)
	case named:
		d = h.decider.Decide(req)
	}
	switch {
	case !a.Refused:
		d.Action, d.Reason = event.ActionAllow, ""
	case d.Action == event.ActionAsk && !h.asked:
		d = gate.Unasked(d)
	case d.Action <= event.ActionAllow:
		d = event.Decision{By: "lsm", Reason: a.Why.String()}
		fallthrough
	default:
		d.Action = event.ActionDeny
	}
	if d.By == "" {
		d.By = "lsm"
	}
	if a.Hook != "" {
		d.Reason = strings.TrimPrefix(d.Reason+"; "+a.Hook, "; ")
	}
	return d
}

// maxArgv is how many bytes of a refused task's command line are kept.
const maxArgv = 4096

// task is who asked. A refusal also says how it was started, as far as it still
// runs.
func (h *hooks) task(a *lsm.Access) event.Task {
	t := event.Task{ID: a.Process.ID(), PID: a.Process.PID, TID: a.TID}
	k := h.watch.known(t.PID)
	t.Exe, t.PPID = k.exe, k.ppid
	if h.clock.past() { // its number is another's by now
		return t
	}
	dir := "/proc/" + strconv.Itoa(int(t.PID))
	if t.Exe == "" {
		t.Exe, _ = os.Readlink(dir + "/exe")
	}
	if !a.Refused {
		return t
	}
	if argv, err := os.ReadFile(dir + "/cmdline"); err == nil {
		words, cut := proc.SplitArgv(argv, maxArgv)
		t.Argv, t.ArgvLen = words, uint32(cut)
	}
	t.Cwd, _ = os.Readlink(dir + "/cwd")
	return t
}

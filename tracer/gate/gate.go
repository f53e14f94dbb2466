// Package gate is where a task waits while we decide. It receives notifications,
// makes requests of them, has them decided, and answers: continue, perform or
// deny.
//
// # Protocol
//
// One locked thread, the receiver, polls the listener and receives. A
// notification belongs to whoever received it until it is answered; the kernel
// refuses a second answer. The receiver serves at once what cannot wait for
// anything: look-ups from the kernel's caches, opens of regular files and
// directories on local file systems, changes of names while nobody holds the tree
// lock. Everything else (an uncached look-up, a FIFO, a leased file, a terminal, a
// connect, a change of metadata, any decision that must be acknowledged first) is
// handed on to a waiter: a locked thread of its own, made when needed. So a
// stalled notification stalls its task and nobody else.
//
// What may race, and what holds:
//   - The task's memory, descriptors and working directory may change at any
//     time (threads, CLONE_VM, CLONE_FILES, CLONE_FS). Every argument is read
//     once; the object is pinned by a descriptor of ours, and decision and
//     action are about that.
//   - Names may change. Actions on names go through a pinned directory, and all
//     changes of names that a session makes pass here under one lock, so what
//     was judged is what is changed.
//   - The task may be killed, and its number used again. /proc/TID stays open
//     (package proc), and the notification is checked to be alive after the
//     reads and before anything is done.
//   - A signal may arrive. The wait is killable only; a waiter that is held up
//     looks for pending signals and lets the call restart.
//   - The decider may ask. Then nothing is held but the notification and the
//     task's name, see ask.go; the answer is for the very request that was asked
//     about, and the call is judged anew with it.
//   - We may fail. Every error, and a panic, refuses the call.
package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// Config is what a Gate needs. Decider and Recorder are required.
type Config struct {
	Listener seccomp.Listener
	Decider  Decider
	Recorder Recorder
	// Asker is asked where the decider asks; without one that is denied.
	Asker    Asker
	Handling Table
	// AllowKernel are the operations of class Kernel that may continue.
	AllowKernel []string
	// Init is the process that every task of the session descends from.
	Init int
	// Scoped says that the floor keeps signals inside the session.
	Scoped bool
	// Terminals are the device numbers of those that the session starts on.
	Terminals []uint64
	// Engine is stamped on events.
	Engine string
	// Strict releases a decision only after its event is acknowledged.
	Strict bool
	// Verifier, when set, holds execs to what was judged, in the kernel.
	Verifier Verifier
	// Nester, when set, makes sessions inside this one.
	Nester Nester
	// Joined, when set, is told that a process is now in the session with an index.
	Joined func(pid, index int)
	// Programs, when set, says what an exec runs besides what its path names.
	Programs Programs
	// Injector, when set, is told of each descriptor that is handed to a task.
	Injector Injector
	// Kill ends a process that ran what was not decided, where no witness does.
	Kill func(pid int)
	Log  *slog.Logger
	// MaxWaiters bounds the calls that wait at once; 0 is 4096. Beyond it calls
	// that would have to wait are refused. A sixteenth of them is kept from opens
	// that wait for another task (a FIFO's other end), which could take all.
	MaxWaiters int
}

// Gate serves one session. Run serves it; the other methods may be called from
// any goroutine.
type Gate struct {
	cfg       Config
	arch      uint32
	table     *proc.Table
	sockets   sockets
	execs     execs
	lines     lines
	repos     repos
	creations creations
	terminals terminals
	local     sync.Map // st_dev → bool: a local file system, which does not block
	tree      sync.Mutex
	waiting   chan seccomp.Notification
	waiters   atomic.Int64
	free      atomic.Int64 // waiters that have nothing to do
	sending   atomic.Int64
	patient   atomic.Int64 // waiters in an open that waits for another task
	leased    atomic.Int64 // those of them that wait for a lease
	pending   pending
	words     atomic.Int64 // bytes of arguments of what waits for answers
	asking    asking
	acts      acts
	drafts    drafts
	members   members
	segments  segments
	tty       int // our controlling terminal's device number
	allowed   map[event.Op]bool
	interps   []Program // binfmt_misc interpreters: an exec may end in any of them
	sameRoot  bool
	// records says that nothing is held back: what cannot be named like ours is
	// recorded as the task sees it.
	records bool
}

// New checks cfg.
func New(cfg Config) (*Gate, error) {
	if cfg.Decider == nil || cfg.Recorder == nil {
		return nil, errors.New("bug: a gate needs a decider and a recorder")
	}
	arch, err := seccomp.NativeArch()
	if err != nil {
		return nil, err
	}
	if err := proc.ArmInterrupt(); err != nil {
		return nil, fmt.Errorf("prepare to interrupt waiting calls: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxWaiters == 0 {
		cfg.MaxWaiters = 4096
	}
	g := &Gate{
		cfg: cfg, arch: arch, table: proc.NewTable(), allowed: map[event.Op]bool{},
		waiting: make(chan seccomp.Notification, cfg.MaxWaiters), tty: proc.OwnTTY(),
		interps: binfmtInterpreters(), terminals: terminals{start: cfg.Terminals},
	}
	own := Member{Decider: cfg.Decider, Recorder: cfg.Recorder, Asker: cfg.Asker, Programs: cfg.Programs, Handling: cfg.Handling}
	if err := g.members.init(own); err != nil {
		return nil, err
	}
	for _, name := range cfg.AllowKernel {
		op, ok := event.ParseOp(name)
		if !ok {
			return nil, fmt.Errorf("allow kernel surface %q: no such operation", name)
		}
		g.allowed[op] = true
	}
	// Without these three nobody in the session can have other roots or mounts.
	g.sameRoot = cfg.Handling[Kernel] == Refuse &&
		!g.allowed[event.OpChroot] && !g.allowed[event.OpMount] && !g.allowed[event.OpNamespace]
	h := cfg.Handling
	g.records = (h[Read] == Continue || h[Read] == Hook) && h[Tree] == Continue && h[Kernel] == Continue
	return g, nil
}

// Run serves until every task is gone or ctx ends, and returns when the last
// waiter is done.
func (g *Gate) Run(ctx context.Context) error {
	defer g.table.Close()
	defer g.acts.remove(func(*act) bool { return true })
	defer g.settle(nil)
	defer g.segments.remove(func(id int, err error) {
		g.cfg.Log.Debug("remove a shared memory segment", "id", id, "error", err)
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(g.waiting)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { g.watch(ctx) })
	runtime.LockOSThread() // never unlocked: the thread has a umask of its own
	w, err := g.newWorker(true)
	if err != nil {
		return err
	}
	if err := g.cfg.Listener.SyncWakeUp(); err != nil {
		g.cfg.Log.Debug("round trips will be slower", "error", err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make an eventfd: %w", err)
	}
	defer unix.Close(stop)
	g.asking = asking{ctx: ctx, wg: &wg}
	stopped := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(stopped)
		_, _ = unix.Write(stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !unwatch() {
			<-stopped // before the eventfd is closed
		}
	}()
	var n seccomp.Notification
	for {
		ready, over, err := g.cfg.Listener.Wait(stop, -1)
		if err != nil {
			return err
		}
		if over {
			return nil
		}
		if !ready {
			continue
		}
		switch err := g.cfg.Listener.Recv(&n); err {
		case nil:
		case unix.ENOENT, unix.EINTR: // killed between poll and receive
			continue
		default:
			return fmt.Errorf("receive notification: %w", err)
		}
		if w.serve(&n) {
			g.later(&wg, n)
		}
	}
}

// owns says whether a process belongs to the session.
func (g *Gate) owns(pid int) bool {
	return pid != g.cfg.Init && proc.Descends(pid, g.cfg.Init)
}

// callName is the name of a notification's call, as far as it has one.
func (g *Gate) callName(n *seccomp.Notification) string {
	if n.Arch == g.arch {
		if c := callByNumber(int(n.Nr)); c != nil {
			return c.name
		}
	}
	return fmt.Sprintf("syscall_%d", n.Nr)
}

func binfmtInterpreters() []Program {
	var out []Program
	for _, p := range proc.BinfmtInterpreters() {
		var st unix.Stat_t
		if unix.Stat(p, &st) == nil {
			out = append(out, Program{FileID{st.Dev, st.Ino}, p})
		}
	}
	return out
}

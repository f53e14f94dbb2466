package tracer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// Sessions inside a session under the engine lsm: each has hooks of its own, with
// its own policy, beside those of the sessions that it is inside of. The kernel
// asks all that a task is in the scope of, the innermost first, and what one
// refuses is refused; so no session can give a task more than the one outside.
// What is refused is recorded by who refuses, what is allowed by the outermost,
// and either is told to the innermost's recorder.

// innerUrgentBytes is the ring of what a session inside another refuses. Of what
// is allowed it has nothing to tell.
const innerUrgentBytes = 256 << 10

// InnerConfig is what a session inside the session needs.
type InnerConfig struct {
	Rules  *lsm.Rules
	Strict bool
	// Decider names the rules of what these hooks judged.
	Decider gate.Decider
	// Recorder takes what is lost.
	Recorder gate.Recorder
	// Asked says that there is somebody to ask, if not from a hook.
	Asked bool
	// Outer is the session that it is inside of, nil for the session itself.
	Outer *Inner
}

// Inner is the hooks of a session inside the session. After Adopt they stay in
// place until its last task is gone, or the session's is.
type Inner struct {
	s      *Session
	outer  *Inner
	hooks  *hooks
	cancel context.CancelFunc
	done   chan error // what Run came to
	index  int        // since Adopt
}

var _ gate.Holder = (*Inner)(nil)

// inners are those that there are at the moment, and how many are being begun.
type inners struct {
	mu    sync.Mutex
	list  []*Inner
	count int
	ring  atomic.Uint32 // how many there have been
}

// maxInner bounds how many sessions one session can have inside at once: what the
// kernel has room for is all other sessions', too.
const maxInner = 16

// ErrManyInside says that a session has as many sessions inside as it may have.
var ErrManyInside = fmt.Errorf("%d sessions are inside this one already: end one first", maxInner)

// enter makes room for one; leave is its end.
func (s *inners) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= maxInner {
		return ErrManyInside
	}
	s.count++
	return nil
}

func (s *inners) add(in *Inner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, in)
}

func (s *inners) leave(in *Inner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	s.list = slices.DeleteFunc(s.list, func(one *Inner) bool { return one == in })
}

// release leaves the hooks to init.
func (s *inners) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, in := range s.list {
		errs = append(errs, in.hooks.release())
	}
	return errors.Join(errs...)
}

// Inside loads the hooks of a session inside the session. They hold nobody before
// Adopt; if it does not come to that Close must be called.
func (l *Launcher) Inside(cfg InnerConfig) (*Inner, error) {
	s := l.session.Load()
	if s == nil || s.hooks == nil {
		return nil, errors.New("bug: the session outside has no hooks")
	}
	if err := s.inner.enter(); err != nil {
		return nil, err
	}
	var engine *lsm.Engine
	var err error
	number := l.number(ringsInner + s.inner.ring.Add(1))
	// The gate asks for it on a thread that has given up what loading takes; a
	// goroutine of its own has another thread.
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		engine, err = lsm.New(lsm.Config{
			Session: s.hooks.engine.Session(), Rules: *cfg.Rules, Strict: cfg.Strict, Inner: true, Covered: s.rules.Covers(cfg.Rules),
			UrgentBytes: innerUrgentBytes, FlowBytes: os.Getpagesize(), Numbers: [2]uint32{number, 0},
		})
	}()
	if <-loaded; err != nil {
		s.inner.leave(nil)
		return nil, err
	}
	in := &Inner{
		s: s, outer: cfg.Outer, done: make(chan error, 1),
		hooks: &hooks{engine: engine, decider: cfg.Decider, recorder: cfg.Recorder, watch: s.watch, session: s, bulk: cfg.Rules.Bulk.Held, asked: cfg.Asked},
	}
	ctx, cancel := context.WithCancel(s.running)
	in.cancel = cancel
	s.group.Go(func() error {
		err := in.hooks.run(ctx, s)
		in.done <- err
		return err
	})
	return in, nil
}

// chain are the engines that judge the session's tasks besides the session's own,
// the innermost first.
func (in *Inner) chain() (list []*lsm.Engine) {
	for ; in != nil; in = in.outer {
		list = append(list, in.hooks.engine)
	}
	return list
}

// Adopt puts a process into the session. An error leaves it where it was, or
// dead.
func (in *Inner) Adopt(pid, index int) error {
	links, err := in.hooks.engine.Links()
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("adopt process %d: %w", pid, err)
	}
	in.hooks.index.Store(int64(index))
	// Init holds them, too, so that they outlive whatever of the tree does.
	if err = in.s.process.Hold(index, links); err == nil && in.s.kept != nil {
		err = in.s.keepHooks(in.hooks.engine)
	}
	if err == nil {
		err = in.hooks.engine.Enclose(pid)
	}
	outside := append(in.outer.chain(), in.s.hooks.engine)
	for i := 0; i < len(outside) && err == nil; i++ {
		err = outside[i].Hand(pid, uint32(index))
	}
	if err != nil {
		// Half in is judged by the one and recorded by the other.
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		unix.Close(pidfd)
		return errors.Join(err, in.s.process.Drop(index))
	}
	in.index = index
	in.s.inner.add(in)
	in.s.group.Go(func() error {
		defer unix.Close(pidfd)
		return in.stay(pidfd)
	})
	return nil
}

// innerTick is how often a session inside is looked at for tasks.
const innerTick = 200 * time.Millisecond

// stay keeps the hooks in place until nobody is judged by them: until the process
// that began the session is gone, and all that it started.
func (in *Inner) stay(pidfd int) error {
	tick := time.NewTicker(innerTick)
	defer tick.Stop()
	for {
		select {
		case <-in.s.running.Done(): // the session is over, and its last task gone
			return errors.Join(<-in.done, in.hooks.close())
		case <-tick.C:
		}
		poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, 0); err != nil || n == 0 {
			continue // it lives, or was interrupted
		}
		n, err := in.hooks.engine.Population()
		if err != nil {
			return errors.Join(err, in.s.End())
		}
		if n == 0 {
			return in.Close()
		}
	}
}

// Close lets go of the hooks: init detaches them.
func (in *Inner) Close() error {
	in.cancel()
	err := <-in.done
	if in.index != 0 {
		err = errors.Join(err, in.s.dropRings(in.hooks.engine))
	}
	err = errors.Join(err, in.hooks.close())
	in.s.inner.leave(in)
	if in.index == 0 {
		return err
	}
	return errors.Join(err, in.s.process.Drop(in.index))
}

// Lose counts files as lsm.Engine.Lose does, by the session's own rules.
func (in *Inner) Lose(files int) (over bool, err error) { return in.hooks.engine.Lose(files) }

// Made says whether the session's own hooks know a file as its own.
func (in *Inner) Made(path string) bool { return in.hooks.engine.Made(path) }

// Created says whether the session's own hooks saw it make a file.
func (in *Inner) Created(fd int) bool { return in.hooks.engine.Created(fd) }

// Settle returns when all that the hooks have recorded was handed on.
func (in *Inner) Settle() error {
	var errs []error
	for _, e := range append(in.chain(), in.s.hooks.engine) {
		errs = append(errs, e.Settle())
	}
	return errors.Join(errs...)
}

// Inject and Injected tell all hooks that see the task but the session's own,
// which the gate tells.
func (in *Inner) Inject(tid int) error {
	var errs []error
	for _, e := range in.chain() {
		errs = append(errs, e.Inject(tid))
	}
	return errors.Join(errs...)
}

// Injected ends what Inject began.
func (in *Inner) Injected(tid int) error {
	var errs []error
	for _, e := range in.chain() {
		errs = append(errs, e.Injected(tid))
	}
	return errors.Join(errs...)
}

// Own marks for them what was made for a task.
func (in *Inner) Own(fd int) error {
	var errs []error
	for _, e := range in.chain() {
		errs = append(errs, e.Own(fd))
	}
	return errors.Join(errs...)
}

// Answered marks for them what somebody said yes to.
func (in *Inner) Answered(fd int) error {
	var errs []error
	for _, e := range in.chain() {
		errs = append(errs, e.Answered(fd))
	}
	return errors.Join(errs...)
}

// Announce lets a thread execute files that were judged.
func (in *Inner) Announce(tid int, files []gate.Program) error {
	inodes := make([]witness.Inode, len(files))
	for i, f := range files {
		inodes[i] = witness.Inode{Dev: f.Dev, Ino: f.Ino}
	}
	var errs []error
	for _, e := range in.chain() {
		errs = append(errs, e.Announce(tid, inodes))
	}
	return errors.Join(errs...)
}

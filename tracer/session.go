package tracer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/landlock"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/ring"
	"github.com/reeve-audit/reeve/tracer/seccomp"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

// The engines of this package.
const (
	// EngineUnotify is seccomp notification over Landlock, with BPF tracepoints as
	// the witness when reeve is root.
	EngineUnotify = "unotify"
	// EngineLSM is BPF LSM programs that run the policy in the kernel, seccomp
	// notification for what they cannot judge alone, and the same witness.
	EngineLSM = "lsm"
)

// Config is what a session needs besides its plan.
type Config struct {
	Plan  Plan
	Order spawn.Order
	// Decider answers requests, Recorder takes events; see package gate.
	Decider  gate.Decider
	Recorder gate.Recorder
	// Rules names the rules of what the kernel's hooks judged: the policy itself,
	// without a memory. Only the engine lsm asks it; nil is Decider.
	Rules gate.Decider
	// Asker is asked where the decider asks; nil denies that.
	Asker gate.Asker
	// Nester makes sessions inside the session; nil refuses them.
	Nester gate.Nester
	// Programs, which may be nil, knows programs by more than their path.
	Programs gate.Programs
	// Strict releases a decision only after its event is acknowledged.
	Strict bool
	// AllowDegraded starts although a mechanism that the plan needs is missing.
	AllowDegraded bool
	// Keep is what init holds for the case that this process dies; it goes with a
	// launcher that was prepared to keep records, and is nil otherwise.
	Keep *Keep
	Log  *slog.Logger
}

// Session is a running command tree.
type Session struct {
	process *spawn.Process
	engine  string
	gate    *gate.Gate
	hooks   *hooks // nil without the engine lsm
	rules   *lsm.Rules
	inner   inners
	group   *errgroup.Group
	running context.Context // of the group
	cancel  context.CancelFunc
	watch   *watcher    // nil without a witness
	closed  chan error  // since Leave
	kept    *ring.Set   // nil if nothing is kept
	pins    *pins       // nil if nothing is pinned
	ending  atomic.Bool // it was told to end: what stops now does so for that
	// Gaps are what this machine could not hold of the plan, a sentence each.
	Gaps []string
}

// ErrDegraded is returned when the machine lacks what the plan needs.
var ErrDegraded = errors.New("this machine cannot enforce all of the policy")

// Start confines init, serves the gate and starts the command. Gaps found here
// are an error wrapping ErrDegraded unless cfg.AllowDegraded.
func (l *Launcher) Start(ctx context.Context, cfg Config) (s *Session, err error) {
	s = &Session{process: l.process}
	// What reeve holds, other users' environments and the listener among it, is
	// not for tasks of the same user to read.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("hide reeve's memory: %w", err)
	}
	if (l.hooks == nil) != (cfg.Plan.Hooks == nil) {
		return nil, errors.New("bug: the plan is one for another engine than was loaded")
	}
	floor, scoped := -1, false // with hooks there is no floor to lay
	if l.hooks == nil {
		if floor, scoped, err = s.floor(&cfg); err != nil {
			return nil, err
		}
	}
	if floor >= 0 {
		defer unix.Close(floor)
	}
	handling := handlingHere(cfg.Plan.Handling)
	s.engine = EngineUnotify
	var links []int
	if l.hooks != nil {
		if links, err = l.hooks.Links(); err != nil {
			return nil, err
		}
		s.engine, s.rules, scoped = EngineLSM, cfg.Plan.Hooks, !cfg.Plan.Hooks.AnySignal
	}
	// Only thread T of init gets the namespace, and with it the whole tree.
	cfg.Order.PrivateIPC = os.Geteuid() == 0 && handling[gate.Kernel] == gate.Refuse
	rules := gate.Rules(handling, cfg.Plan.AllowKernel, cfg.Order.PrivateIPC, scoped)
	if cfg.Order.Filter, err = seccomp.Build(rules); err != nil {
		return nil, err
	}
	listener, err := l.process.Confine(cfg.Order, floor, links...)
	if err != nil {
		return nil, explain(err)
	}
	// Only now, as the witness was being loaded while init confined itself.
	err = s.takeWitness(l, &cfg)
	if err == nil && l.hooks != nil { // which need the witness
		rules := cfg.Rules
		if rules == nil {
			rules = cfg.Decider
		}
		s.hooks = &hooks{engine: l.hooks, decider: rules, recorder: cfg.Recorder, watch: s.watch, session: s, bulk: cfg.Plan.Hooks.Bulk.Held, asked: cfg.Asker != nil}
		s.watch.hooks = l.hooks
	}
	if err == nil {
		err = s.keepRings(l, &cfg)
	}
	if err == nil {
		err = s.pin(l)
	}
	if err == nil {
		err = s.serve(ctx, l, &cfg, handling, listener, scoped)
	}
	if err != nil {
		unix.Close(listener)
		return nil, errors.Join(err, s.pins.remove())
	}
	if err := l.process.Go(); err != nil {
		return nil, errors.Join(err, s.pins.remove())
	}
	return s, nil
}

// takeWitness waits for the witness. The error is that of a machine that lacks
// what the plan needs.
func (s *Session) takeWitness(l *Launcher, cfg *Config) error {
	if l.witness != nil {
		if w, err := l.witness(); err == nil {
			s.watch = &watcher{witness: w, judged: map[int][]gate.Program{}, joined: map[int32]int{}, tasks: map[int32]known{}}
		} else {
			s.Gaps = append(s.Gaps, fmt.Sprintf("no witness in the kernel (%v): what an exec really ran is compared only at the process's next call", err))
		}
	}
	if s.watch == nil {
		s.Gaps = append(s.Gaps, cfg.Plan.NeedWitness...)
	}
	if len(s.Gaps) > 0 && !cfg.AllowDegraded {
		return s.degraded()
	}
	return nil
}

func (s *Session) degraded() error {
	err := ErrDegraded
	for _, g := range s.Gaps {
		err = fmt.Errorf("%w; %s", err, g)
	}
	return err
}

// handlingHere adapts a plan to this process: credentials change only under root,
// and signals are always judged, if only for the record.
func handlingHere(h gate.Table) gate.Table {
	if os.Geteuid() != 0 {
		h[gate.Creds] = gate.Untrapped
	}
	h[gate.Signal] = gate.Continue
	return h
}

// floor opens the Landlock ruleset, -1 if the plan asks for nothing that this
// kernel has. scoped says whether the kernel keeps signals inside the session.
func (s *Session) floor(cfg *Config) (fd int, scoped bool, err error) {
	abi, err := landlock.ABI()
	if err != nil {
		s.Gaps = append(s.Gaps, "no floor: "+err.Error())
		return -1, false, nil //nolint:nilerr // a gap, which Start judges
	}
	spec := cfg.Plan.Floor
	// A policy is about resolved paths: what leads through a link (/bin on most
	// systems) is granted where it really stands.
	spec.SkipLinks = true
	fd, dropped, err := spec.Open(abi)
	if errors.Is(err, landlock.ErrNothing) {
		return -1, false, nil
	}
	if err != nil {
		return -1, false, err
	}
	for _, d := range dropped {
		cfg.Log.Info("the floor is lower on this kernel", "gap", d)
	}
	return fd, cfg.Plan.Floor.ScopeSignal && abi >= 6, nil
}

// serve starts the gate and the witness.
func (s *Session) serve(ctx context.Context, l *Launcher, cfg *Config, h gate.Table, listener int, scoped bool) error {
	gc := gate.Config{
		Listener: seccomp.Listener{FD: listener}, Decider: cfg.Decider, Recorder: cfg.Recorder, Asker: cfg.Asker, Nester: cfg.Nester,
		Handling: h, AllowKernel: cfg.Plan.AllowKernel, Init: s.process.InitPID,
		Terminals: cfg.Order.Devices(), Engine: s.engine, Scoped: scoped, Strict: cfg.Strict, Log: cfg.Log,
		Programs: cfg.Programs,
		Kill:     func(pid int) { _ = unix.Kill(pid, unix.SIGKILL) },
	}
	if s.watch != nil {
		gc.Verifier, gc.Joined, s.watch.engine = s.watch, s.watch.join, s.engine
	}
	if s.hooks != nil {
		gc.Injector = s.hooks.engine
	}
	var err error
	if s.gate, err = gate.New(gc); err != nil {
		return err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.group, ctx = errgroup.WithContext(ctx)
	s.running = ctx
	l.session.Store(s) // the gate may begin sessions inside from here on
	s.group.Go(func() error {
		defer unix.Close(listener)
		err := s.gate.Run(ctx)
		if err != nil {
			_ = s.End() // nobody answers any more: the tree must not limp on
		}
		return err
	})
	if s.watch != nil {
		s.group.Go(func() error { return s.watch.run(ctx, s) })
	}
	if s.hooks != nil {
		s.group.Go(func() error { return s.hooks.run(ctx, s) })
	}
	return nil
}

// explain turns a failed launch into what a person can act on.
func explain(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: already supervised: another program listens to this process's system calls, and the kernel allows only one", err)
	}
	return err
}

var _ gate.Verifier = (*watcher)(nil)

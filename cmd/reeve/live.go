package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/cmd/reeve/early"
	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/spawn/headstart"
)

// How much garbage a session lets stand, in per cent of what lives: little, as
// the supervisor's memory is taken from the command, but while it starts so much
// that nothing is collected of the few megabytes that a start makes.
const (
	gcPercent      = 40
	gcPercentStart = 600
	startTime      = brief
)

// sessionVariable tells a task the session that it is in.
const sessionVariable = early.SessionVariable

// live is one session from its preparation to its summary.
type live struct {
	opts     *runOptions
	log      *slog.Logger
	state    *session.State
	session  *session.Session
	user     session.User
	policy   *policy.Policy
	host     policy.Host
	inside   *session.Basis    // of a session inside another
	programs *session.Programs // knows programs by their content
	files    []string          // policy files that were read
	sources  []policy.Source
	spaces   []session.Workspace
	cwd      string
	env      []string
	program  string
	plan     tracer.Plan
	desk     *approval.Desk // nil when nobody is asked
	parent   string         // the session that this one is inside
	seeder   *session.Seeder
	ledgers  ledgers
	decider  gate.Decider // the policy, and what goes with its decisions
	engine   string       // the one that was chosen
}

// run runs a command and returns the status to exit with. An error is one of
// reeve's own, before the command ran or about its record.
func run(ctx context.Context, o *runOptions) (status int, err error) {
	if id := os.Getenv(sessionVariable); id != "" || insideSession() {
		headstart.Drop()
		return runNested(o, id)
	}
	debug.SetGCPercent(gcPercentStart)
	settle := time.AfterFunc(startTime, func() {
		debug.SetGCPercent(gcPercent)
		// One more than there are: the gate's receiver comes back from the kernel all the
		// time, and a task would wait until a recorder's goroutine makes room.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	})
	defer settle.Stop()
	launcher, err := tracer.Prepare(true)
	if err != nil {
		return 0, failWith(statusReeve, err)
	}
	l := &live{opts: o, log: slog.New(slog.NewTextHandler(o.stderr(), &slog.HandlerOptions{Level: slog.LevelError}))}
	if err := l.prepare(launcher); err != nil {
		err = errors.Join(err, launcher.Abandon())
		if l.session != nil {
			err = errors.Join(err, l.session.Discard())
		}
		return 0, startError(err)
	}
	return l.supervise(ctx, launcher)
}

// startError gives an error of the start its exit status.
func startError(err error) error {
	var known *statusError
	var command *session.CommandError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &command):
		return failWith(command.Status, err)
	}
	return failWith(statusReeve, err)
}

// note says something that a person must know about.
func (l *live) note(text string) {
	if !l.opts.quiet {
		fmt.Fprintf(os.Stderr, "reeve: %s\n", sanitize(text))
	}
}

func (l *live) supervise(ctx context.Context, launcher *tracer.Launcher) (int, error) {
	fail := func(err error) (int, error) {
		return 0, failWith(statusReeve, errors.Join(err, launcher.Abandon(), l.session.Discard()))
	}
	defer func() { _ = l.seeder.Close() }() // directories that were only looked into
	order, err := l.order()
	if err != nil {
		return fail(err)
	}
	own, err := l.ownTerminal(&order)
	if err != nil {
		return fail(err)
	}
	if own != nil {
		defer own.Close()
	}
	records, err := openStream(ctx, streamConfig{
		session: l.session.ID, busDir: l.session.BusDir(), storeURL: l.storeURL(), nats: l.opts.nats,
		strict: l.opts.strict, journal: tracer.Journal(l.session.Dir), acked: launcher.Acked, noteLoss: l.session.NoteLoss, log: l.log,
		waits: func() { l.note(fmt.Sprintf("waiting for where the records go, %v at most", storePatience)) },
	})
	if err != nil {
		return fail(err)
	}
	tap := &tap{stream: records}
	manifest, err := l.begin(tap)
	if err != nil {
		records.abandon()
		return fail(err)
	}
	if err := l.openDesk(tap); err != nil {
		records.abandon()
		return fail(err)
	}
	fronts, err := l.openFronts(ctx)
	if err != nil {
		records.abandon()
		return fail(err)
	}
	l.programs.Begin()
	l.decider = newSeeding(l.ledgers.open(l.policy, l.unseen(launcher)), l.policy.CacheLinks(), l.seeder)
	term := openConsole(own)
	nest := newNesting(ctx, l, tap, launcher)
	keepDir, keepLock, err := l.session.Keep()
	if err != nil {
		fronts.close(l)
		records.abandon()
		return fail(err)
	}
	defer keepDir.Close()
	signals := catchSignals()
	s, err := launcher.Start(ctx, tracer.Config{
		Keep: &tracer.Keep{Dir: int(keepDir.Fd()), Lock: keepLock},
		Plan: l.plan, Order: order, Decider: l.decider, Recorder: tap, Rules: l.policy, Asker: l.asker(), Nester: nest, Programs: l.programs, Strict: l.opts.strict,
		AllowDegraded: l.opts.degraded, Log: l.log,
	})
	if err != nil {
		signals.stop()
		fronts.close(l)
		records.abandon()
		return fail(degradedHint(err))
	}
	records.connect()
	records.group.Go(func() error {
		if records.isBrief() {
			return nil
		}
		return l.storeLeftovers(records.ending)
	})
	for _, gap := range s.Gaps {
		tap.Record(l.marker(event.OpDegraded, gap))
		l.note("degraded: " + gap)
	}
	// What cannot be recorded must not happen: the tree ends with its recorder.
	unwatch := context.AfterFunc(records.ctx, func() { _ = s.End() })
	term.serve(ctx, s, l.desk)
	signals.pass(s, term)
	unwatched := term.watch(manifest.Terminal, func(w session.Window) { tap.Record(l.resized(w)) })
	result, err := s.Wait(term.stopWith(s))
	if !unwatch() {
		err = errors.Join(err, errors.New("the command was ended because its record could not be kept"))
	}
	unwatched()
	term.finish(result.Status)
	signals.stop()
	fronts.close(l)
	err = errors.Join(err, nest.close())
	status, err := l.finish(tap, manifest, s.Leave, result, err)
	return status, errors.Join(err, s.Close())
}

// storeLeftovers stores what crashed sessions left, beside the command and no
// longer than it runs. What stays behind is stored, or complained about, by the
// verbs that read: they look first, and so need no session that was long enough.
func (l *live) storeLeftovers(ctx context.Context) error {
	own, err := openStore(l.state.StoreURL())
	if err != nil {
		return err
	}
	drain(ctx, io.Discard, l.state, own)
	return own.Close()
}

func degradedHint(err error) error {
	if errors.Is(err, tracer.ErrDegraded) {
		return withHint(err, "`reeve doctor` says what is missing; --allow-degraded runs all the same")
	}
	return err
}

func (l *live) storeURL() string {
	if l.opts.store != "" {
		return l.opts.store
	}
	return l.state.StoreURL()
}

// nodeName is what a machine calls itself.
func nodeName(un *unix.Utsname) string { return unix.ByteSliceToString(un.Nodename[:]) }

// begin writes the manifest and records the session's start.
func (l *live) begin(tap *tap) (session.Manifest, error) {
	var un unix.Utsname
	if err := unix.Uname(&un); err != nil {
		return session.Manifest{}, fmt.Errorf("read the kernel's release: %w", err)
	}
	m := session.Manifest{
		Version: session.ManifestVersion, Session: l.session.ID, Parent: l.parent, Started: time.Now().UTC(),
		Argv: session.Texts(l.opts.argv), Cwd: session.Text(l.cwd), User: l.user.Name, UID: l.user.UID, GID: l.user.GID,
		Host: nodeName(&un), Kernel: unix.ByteSliceToString(un.Release[:]),
		Arch: unix.ByteSliceToString(un.Machine[:]), Reeve: buildVersion(), PID: os.Getpid(),
		Profile: l.policy.Name(), PolicyDigest: l.digest(), PolicyFiles: session.Texts(l.files),
		Engine: l.engine, Gaps: l.plan.Gaps, TempDir: l.session.TempDir,
		Basis: l.basis(), Terminal: window(),
	}
	for _, ws := range l.spaces {
		m.Workspaces = append(m.Workspaces, session.Text(ws.Path))
	}
	if err := l.session.WriteManifest(m); err != nil {
		return m, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return m, fmt.Errorf("encode manifest: %w", err)
	}
	tap.Record(l.marker(event.OpStart, string(text)))
	return m, nil
}

// basis is what the session's decisions stand on.
func (l *live) basis() *session.Basis {
	if l.inside != nil {
		return l.inside
	}
	return session.NewBasis(l.opts.profile, l.sources, l.host)
}

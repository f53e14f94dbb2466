package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/landlock"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

// gcPercent is how much garbage a session lets stand, in per cent of what lives.
const gcPercent = 40

// sessionVariable tells a task the session that it is in.
const sessionVariable = "REEVE_SESSION"

// live is one session from its preparation to its summary.
type live struct {
	opts    *runOptions
	log     *slog.Logger
	state   *session.State
	session *session.Session
	user    session.User
	policy  *policy.Policy
	files   []string // policy files that were read
	sources []policy.Source
	spaces  []session.Workspace
	cwd     string
	env     []string
	program string
	plan    tracer.Plan
}

// run runs a command and returns the status to exit with. An error is one of
// reeve's own, before the command ran or about its record.
func run(ctx context.Context, o *runOptions) (status int, err error) {
	if id := os.Getenv(sessionVariable); id != "" {
		return 0, failWith(statusReeve, withHint(fmt.Errorf("already supervised: this is session %s", id),
			"everything that this command starts is under the session's policy; nested sessions are not part of this version"))
	}
	// The supervisor's memory is taken from the command: a smaller heap is worth
	// more collections.
	debug.SetGCPercent(gcPercent)
	launcher, err := tracer.Prepare()
	if err != nil {
		return 0, failWith(statusReeve, err)
	}
	l := &live{opts: o, log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	if err := l.prepare(); err != nil {
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

// prepare finds out all that the session needs, and makes its directories.
func (l *live) prepare() (err error) {
	if l.state, err = openState(os.Getenv, l.opts.state); err != nil {
		return err
	}
	if l.cwd, err = session.WorkingDir(); err != nil {
		return err
	}
	if l.user = session.CurrentUser(os.Getenv); l.opts.user != "" {
		if l.user, err = session.LookupUser(l.opts.user); err != nil {
			return err
		}
	}
	if err := l.workspaces(); err != nil {
		return err
	}
	if err := l.create(); err != nil {
		return err
	}
	if err := l.loadPolicy(); err != nil {
		return err
	}
	if l.plan, err = l.policy.Lower(); err != nil {
		return err
	}
	if err := l.grantPrograms(); err != nil {
		return err
	}
	var owner *session.Owner
	if l.opts.user != "" {
		owner = &session.Owner{UID: l.user.UID, GID: l.user.GID}
	}
	if err := l.session.Seed(l.policy.CacheLinks(), owner); err != nil {
		return err
	}
	l.environment()
	l.program, err = session.LookCommand(l.opts.argv[0], l.cwd, l.env)
	return err
}

func (l *live) workspaces() error {
	dirs := l.opts.workspaces
	if len(dirs) == 0 {
		dirs = []string{l.cwd}
	}
	for _, dir := range dirs {
		ws, err := session.OpenWorkspace(dir)
		if err != nil {
			return err
		}
		l.spaces = append(l.spaces, ws)
		for _, note := range ws.Notes {
			l.note(note)
		}
	}
	return nil
}

// note says something that a person must know about.
func (l *live) note(text string) {
	if !l.opts.quiet {
		fmt.Fprintf(os.Stderr, "reeve: %s\n", sanitize(text))
	}
}

func (l *live) create() (err error) {
	cfg := session.Config{Now: time.Now(), Random: rand.Reader}
	if l.opts.user != "" {
		cfg.TempOwner = &session.Owner{UID: l.user.UID, GID: l.user.GID}
	}
	if l.session, err = l.state.Create(cfg); err != nil {
		return err
	}
	target := session.Target{Store: l.opts.store, NATS: l.opts.nats}
	if target == (session.Target{}) {
		return nil
	}
	return l.session.WriteTarget(target)
}

func (l *live) loadPolicy() (err error) {
	l.sources, l.files, err = session.Sources(session.SourceConfig{
		ConfigDir: session.UserConfigDir(os.Getenv), Workspaces: l.spaces, Named: l.opts.policies,
	})
	if err != nil {
		return err
	}
	host, notes := session.Collect(session.Facts{
		User: l.user, Workspaces: l.spaces, Env: os.Environ(), TempDir: l.session.TempDir,
		StateDir: l.state.Dir, ConfigFiles: l.files,
	})
	for _, n := range notes {
		l.note(n)
	}
	l.policy, err = policy.LoadCached(l.sources, l.opts.profile, host, l.state.PolicyCache())
	return err
}

// grantPrograms adds to the floor the programs beside those that may not run:
// Landlock grants whole directories, so one with a hole is granted entry by entry.
func (l *live) grantPrograms() error {
	if l.plan.Floor.HandledFS&landlock.Execute == 0 {
		return nil
	}
	ground, holes := l.policy.ExecGround()
	broken := slices.DeleteFunc(ground, func(dir string) bool {
		return !slices.ContainsFunc(holes, func(h string) bool { return h == dir || strings.HasPrefix(h, strings.TrimSuffix(dir, "/")+"/") })
	})
	granted, err := landlock.Expand(broken, holes)
	if err != nil {
		return fmt.Errorf("grant the programs beside those that may not run: %w", err)
	}
	for _, path := range granted {
		l.plan.Floor.Paths = append(l.plan.Floor.Paths, landlock.PathRule{Path: path, Access: landlock.Execute})
	}
	return nil
}

// environment builds the session's from the policy's rules and --env.
func (l *live) environment() {
	var pass []string
	for _, e := range l.opts.env {
		if !strings.Contains(e, "=") {
			pass = append(pass, e)
		}
	}
	l.env, _ = l.policy.Env(os.Environ(), pass...)
	for _, e := range l.opts.env {
		if name, value, set := strings.Cut(e, "="); set {
			l.env = setVariable(l.env, name, value)
		}
	}
	l.env = setVariable(l.env, sessionVariable, l.session.ID)
	if l.opts.user != "" {
		l.env = setVariable(l.env, "HOME", l.user.Home)
		l.env = setVariable(l.env, "USER", l.user.Name)
		l.env = setVariable(l.env, "LOGNAME", l.user.Name)
	}
}

func setVariable(env []string, name, value string) []string {
	for i, e := range env {
		if strings.HasPrefix(e, name+"=") {
			env[i] = name + "=" + value
			return env
		}
	}
	return append(env, name+"="+value)
}

// order is what init is to start.
func (l *live) order() (spawn.Order, error) {
	o := spawn.Order{Path: l.program, Argv: l.opts.argv, Env: l.env, Dir: l.cwd, Linger: l.opts.linger}
	if os.Geteuid() != 0 {
		return o, nil
	}
	keep, err := proc.Capabilities(l.policy.Capabilities())
	if err != nil {
		return o, err
	}
	o.KeepCaps = &keep
	if l.opts.user != "" {
		o.IDs = &spawn.IDs{UID: l.user.UID, GID: l.user.GID, Groups: l.user.Groups}
	}
	return o, nil
}

func (l *live) supervise(ctx context.Context, launcher *tracer.Launcher) (int, error) {
	fail := func(err error) (int, error) {
		return 0, failWith(statusReeve, errors.Join(err, launcher.Abandon(), l.session.Discard()))
	}
	order, err := l.order()
	if err != nil {
		return fail(err)
	}
	records, err := openStream(ctx, streamConfig{
		session: l.session.ID, busDir: l.session.BusDir(), storeURL: l.storeURL(), nats: l.opts.nats,
		strict: l.opts.strict, log: l.log,
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
	term := openTerminal()
	s, err := launcher.Start(ctx, tracer.Config{
		Plan: l.plan, Order: order, Decider: l.policy, Recorder: tap, Strict: l.opts.strict,
		AllowDegraded: l.opts.degraded, Log: l.log,
	})
	if err != nil {
		records.abandon()
		return fail(degradedHint(err))
	}
	records.connect()
	records.group.Go(func() error { return l.storeLeftovers(records.ending) })
	for _, gap := range s.Gaps {
		tap.Record(l.marker(event.OpDegraded, gap))
		l.note("degraded: " + gap)
	}
	// What cannot be recorded must not happen: the tree ends with its recorder.
	unwatch := context.AfterFunc(records.ctx, func() { _ = s.End() })
	unpass := passSignals(s, term)
	result, err := s.Wait(stopWith(s))
	unpass()
	if !unwatch() {
		err = errors.Join(err, errors.New("the command was ended because its record could not be kept"))
	}
	term.restore()
	status, err := l.finish(tap, manifest, result, err)
	return status, errors.Join(err, s.Close())
}

// storeLeftovers stores what crashed sessions left, beside the command and no
// longer than it runs. What stays behind is said by the verbs that read.
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

// begin writes the manifest and records the session's start.
func (l *live) begin(tap *tap) (session.Manifest, error) {
	var un unix.Utsname
	if err := unix.Uname(&un); err != nil {
		return session.Manifest{}, fmt.Errorf("read the kernel's release: %w", err)
	}
	m := session.Manifest{
		Version: session.ManifestVersion, Session: l.session.ID, Started: time.Now().UTC(),
		Argv: session.Texts(l.opts.argv), Cwd: session.Text(l.cwd), User: l.user.Name, UID: l.user.UID, GID: l.user.GID,
		Host: unix.ByteSliceToString(un.Nodename[:]), Kernel: unix.ByteSliceToString(un.Release[:]),
		Arch: unix.ByteSliceToString(un.Machine[:]), Reeve: buildVersion(), PID: os.Getpid(),
		Profile: l.policy.Name(), PolicyDigest: l.digest(), PolicyFiles: session.Texts(l.files),
		Engine: tracer.EngineUnotify, Gaps: l.plan.Gaps, TempDir: l.session.TempDir,
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

// digest is the SHA-256 of all policy files with their layers and the profile.
func (l *live) digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", buildVersion(), l.policy.Name())
	for _, s := range l.sources {
		fmt.Fprintf(h, "%v %d %s\n", s.Layer, len(s.Text), s.Name)
		h.Write(s.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// marker is a record of the stream itself.
func (l *live) marker(op event.Op, detail string) event.Event {
	return event.Event{
		Time: time.Now().UTC(), BootNS: proc.BootNS(), Engine: tracer.EngineUnotify,
		Kind: event.KindSession, Op: op, By: "reeve", Detail: detail,
	}
}

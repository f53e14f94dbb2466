package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/landlock"
)

// prepare finds out all that the session needs, and makes its directories.
func (l *live) prepare(launcher *tracer.Launcher) (err error) {
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
	if err := l.chooseEngine(launcher); err != nil {
		return err
	}
	if list := undone(l.policy); len(list) > 0 {
		l.plan.Gaps = append(l.plan.Gaps, list...)
		l.note(andMore(list))
	}
	if err := grantPrograms(l.policy, &l.plan); err != nil {
		return err
	}
	var owner *session.Owner
	if l.opts.user != "" {
		owner = &session.Owner{UID: l.user.UID, GID: l.user.GID}
	}
	if l.seeder, err = l.session.Seeder(l.policy.CacheLinks(), owner); err != nil {
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
	if l.sources, l.files, err = policySources(l.spaces, l.opts.policies); err != nil {
		return err
	}
	var notes []string
	l.host, notes = session.Collect(session.Facts{
		User: l.user, Workspaces: l.spaces, Env: os.Environ(), TempDir: l.session.TempDir,
		StateDir: l.state.Dir, ConfigFiles: l.files, Program: ownProgram(),
	})
	for _, n := range notes {
		l.note(n)
	}
	if l.policy, err = policy.LoadCached(l.sources, l.opts.profile, l.host, l.state.PolicyCache()); err != nil {
		return err
	}
	l.programs = session.NewPrograms(l.policy, l.host.PathDirs)
	return envelopeRefuses(l.policy, l.opts.env, os.Environ())
}

// ownProgram is the file that reeve was started from, "" when that is not known.
func ownProgram() string {
	file, err := os.Executable()
	if err != nil {
		return ""
	}
	return file
}

// grantPrograms adds to the floor the programs beside those that may not run:
// Landlock grants whole directories, so one with a hole is granted entry by entry.
func grantPrograms(p *policy.Policy, plan *tracer.Plan) error {
	if plan.Floor.HandledFS&landlock.Execute == 0 {
		return nil
	}
	ground, holes := p.ExecGround()
	broken := slices.DeleteFunc(ground, func(dir string) bool {
		return !slices.ContainsFunc(holes, func(h string) bool { return h == dir || strings.HasPrefix(h, strings.TrimSuffix(dir, "/")+"/") })
	})
	granted, err := landlock.Expand(broken, holes)
	if err != nil {
		return fmt.Errorf("grant the programs beside those that may not run: %w", err)
	}
	for _, path := range granted {
		plan.Floor.Paths = append(plan.Floor.Paths, landlock.PathRule{Path: path, Access: landlock.Execute})
	}
	return nil
}

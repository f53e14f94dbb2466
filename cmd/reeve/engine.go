package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// chooseEngine lowers the policy for the engine that was asked for. "auto" is
// unotify until lsm holds all that it does, see the engines in README.md.
func (l *live) chooseEngine(launcher *tracer.Launcher) (err error) {
	if l.opts.engine == tracer.EngineLSM && os.Geteuid() == 0 {
		if err := l.loadHooks(launcher); err != nil {
			return withHint(fmt.Errorf("engine lsm: %w", err), "`reeve doctor` says what is missing; --engine auto takes what this machine has")
		}
		l.engine = tracer.EngineLSM
		return nil
	}
	if l.opts.engine == tracer.EngineLSM {
		return withHint(errors.New("engine lsm: only root can load its programs"), "run reeve as root, with --user NAME for the command, or use --engine auto")
	}
	l.engine = tracer.EngineUnotify
	l.plan, err = l.policy.Lower()
	return err
}

// loadHooks makes the session one of the engine lsm, if that can be had.
func (l *live) loadHooks(launcher *tracer.Launcher) error {
	if err := lsm.Available(); err != nil {
		return err
	}
	plan, err := l.policy.LowerHooks(l.opts.strict)
	if err != nil {
		return err
	}
	if err := launcher.LoadHooks(plan.Hooks, l.opts.strict); err != nil {
		return err
	}
	l.plan = plan
	return nil
}

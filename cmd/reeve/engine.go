package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// engineAuto is the best engine that can be had, by trying: lsm, else unotify.
const engineAuto = "auto"

// chooseEngine lowers the policy for the engine that was asked for.
func (l *live) chooseEngine(launcher *tracer.Launcher) (err error) {
	root := os.Geteuid() == 0
	if root {
		l.endSurvivors()
	}
	switch {
	case l.opts.engine == tracer.EngineLSM && !root:
		return withHint(errors.New("engine lsm: only root can load its programs"), "run reeve as root, with --user NAME for the command, or use --engine auto")
	case l.opts.engine == tracer.EngineLSM:
		if err := l.loadHooks(launcher); err != nil {
			return withHint(fmt.Errorf("engine lsm: %w", err), "`reeve doctor` says what is missing; --engine auto takes what this machine has")
		}
		return nil
	case l.opts.engine == engineAuto && root && lsm.Promising():
		if l.loadHooks(launcher) == nil {
			return nil
		} // unotify holds the same policy; doctor says why there are no hooks
	}
	l.engine = tracer.EngineUnotify
	l.plan, err = l.policy.Lower()
	return err
}

// endSurvivors ends what is left of sessions whose reeve and init were killed at once.
func (l *live) endSurvivors() {
	n, err := tracer.EndSurvivors()
	if n > 0 {
		l.note(fmt.Sprintf("ended %d processes of a session whose reeve and init were killed", n))
	}
	if err != nil {
		l.note(err.Error())
	}
}

// terms are what the session is held to besides its policy.
func (l *live) terms() policy.Terms {
	return policy.Terms{Strict: l.opts.strict, Asked: l.opts.ask != askDeny}
}

// unseen are the hooks that judge what the session writes, nil where the gate sees
// all of it.
func (l *live) unseen(launcher *tracer.Launcher) policy.Hooks {
	if l.engine != tracer.EngineLSM || l.plan.Handling[gate.Write] != gate.Hook {
		return nil
	}
	return launcher.Hooks()
}

// loadHooks makes the session one of the engine lsm, if that can be had.
func (l *live) loadHooks(launcher *tracer.Launcher) error {
	if err := lsm.Available(); err != nil {
		return err
	}
	plan, err := l.policy.LowerHooks(l.terms())
	if err != nil {
		return err
	}
	if err := launcher.LoadHooks(plan.Hooks, l.opts.strict); err != nil {
		return err
	}
	plan.Gaps = append(plan.Gaps, tracer.PinGap()...)
	l.plan, l.engine = plan, tracer.EngineLSM
	return nil
}

// undone is what the mounts of this machine undo of a policy, a sentence each.
func undone(p *policy.Policy) []string {
	twins, err := session.Twins()
	if err != nil {
		return []string{"mounts: what stands in two places is not known: " + err.Error()}
	}
	return p.Twins(twins)
}

// andMore is the first of a list that is not empty.
func andMore(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("%s (and %d more: `reeve policy check` names all)", list[0], len(list)-1)
}

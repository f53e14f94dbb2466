package main

import (
	"fmt"
	"os"

	"github.com/reeve-audit/reeve/supervisor/approval/terminal"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

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

// ownTerminal makes the command's own terminal, if questions are asked on ours;
// else it is nil.
func (l *live) ownTerminal(order *spawn.Order) (*terminal.Terminal, error) {
	if l.opts.ask != askTTY {
		return nil, nil
	}
	own, err := terminal.Open(terminal.Config{
		Lines: questionLines, By: session.CurrentUser(os.Getenv).Name + " on the terminal",
	})
	if err != nil {
		return nil, withHint(fmt.Errorf("--ask tty: %w", err), "--ask deny runs without questions")
	}
	if l.opts.user != "" {
		if err := own.Slave().Chown(l.user.UID, l.user.GID); err != nil {
			own.Close()
			return nil, fmt.Errorf("give user %s the terminal: %w", l.user.Name, err)
		}
	}
	order.Terminal = &spawn.Terminal{
		Slave: int(own.Slave().Fd()), Streams: own.Streams(), Modes: own.Modes(), Reset: own.Reset(),
	}
	return own, nil
}

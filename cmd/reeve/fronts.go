package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/approval/control"
	"github.com/reeve-audit/reeve/supervisor/approval/rulebook"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// fronts show a session's questions to approvers, and bring their answers.
type fronts struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  errgroup.Group
	desk   *approval.Desk // nil when nobody is asked
}

// openFronts opens those that --ask names. Whoever is asked otherwise can be
// answered for by `reeve asks` too.
func (l *live) openFronts(ctx context.Context) (*fronts, error) {
	f := &fronts{desk: l.desk}
	f.ctx, f.cancel = context.WithCancel(ctx)
	if l.desk == nil {
		return f, nil
	}
	err := f.control(l)
	if err == nil && l.opts.ask == askBus {
		err = f.bus(l)
	}
	if err != nil {
		f.close(l)
		return nil, err
	}
	return f, nil
}

// control serves `reeve asks`.
func (f *fronts) control(l *live) error {
	s, err := control.Listen(control.Config{Dir: l.session.Dir, Desk: l.desk, Log: l.log})
	if err != nil {
		return err
	}
	f.group.Go(func() error { return s.Run(f.ctx) })
	return nil
}

// bus serves approvers at the server that the records go to.
func (f *fronts) bus(l *live) error {
	a, err := bus.NewApprovals(bus.ApprovalsConfig{
		Dial: bus.DialConfig{URL: l.opts.nats, Log: l.log}, Session: l.session.ID, Desk: control.NewRemote(l.desk),
	})
	if err != nil {
		return err
	}
	f.group.Go(func() error { return a.Run(f.ctx) })
	return nil
}

// close denies what is still asked and ends the fronts. What goes wrong with them
// is no matter of the command's: nobody could answer, and it was denied.
func (f *fronts) close(l *live) {
	if f.desk != nil {
		f.desk.Close()
	}
	f.cancel()
	if err := f.group.Wait(); err != nil {
		l.note(fmt.Sprintf("questions could not be answered: %v", err))
	}
}

// rules writes what is allowed always; nil when the user has no place for it.
func (l *live) rules() (approval.Rules, error) {
	dir := session.UserConfigDir(os.Getenv)
	if dir == "" {
		return nil, nil
	}
	return rulebook.New(rulebook.Config{
		File: session.UserFile(dir), Sources: l.sources, Profile: l.opts.profile, Host: l.host, Cache: l.state.PolicyCache(),
	})
}

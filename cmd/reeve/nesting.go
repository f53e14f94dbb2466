package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// nesting makes the sessions that are begun inside a session. Each has a policy of
// its own under the outer one's, a record of its own beside it, and the outer
// one's approvers.
type nesting struct {
	ctx      context.Context
	outer    *live
	tap      *tap
	launcher *tracer.Launcher

	mu    sync.Mutex // guards inner
	inner map[int]*innerSession
}

var _ gate.Nester = (*nesting)(nil)

func newNesting(ctx context.Context, l *live, t *tap, launcher *tracer.Launcher) *nesting {
	return &nesting{ctx: ctx, outer: l, tap: t, launcher: launcher, inner: map[int]*innerSession{}}
}

// Begin makes a session.
func (n *nesting) Begin(_ context.Context, outer int, from event.Task, message []byte) (gate.Member, []byte, func(int, error), error) {
	fail := func(err error) (gate.Member, []byte, func(int, error), error) { return gate.Member{}, nil, nil, err }
	m, err := decodeNest[nestBegin](message)
	if err == nil {
		err = m.validate()
	}
	if err != nil {
		return fail(err)
	}
	parent, err := n.parent(outer)
	if err != nil {
		return fail(err)
	}
	rules, err := n.load(m)
	if err != nil {
		return fail(err)
	}
	s, err := n.outer.state.Create(session.Config{Now: time.Now(), Random: rand.Reader, Temp: n.outer.session.TempDir})
	if err != nil {
		return fail(err)
	}
	in := &innerSession{session: s, policy: rules.policy, outer: parent.recorder}
	if err := n.record(in, m, parent.id, rules.basis.Inside(parent.basis), &rules); err != nil {
		return fail(errors.Join(err, s.Discard()))
	}
	if err := n.hook(in, &rules, parent.hooks); err != nil {
		_, endErr := n.finish(in, nil, "did not begin: "+err.Error())
		return fail(errors.Join(err, endErr))
	}
	in.member = gate.Member{
		Decider: under{parent.decider, n.outer.ledgers.open(rules.policy, n.unseen(in))}, Recorder: in, Asker: n.outer.asker(),
		Programs: known{parent.programs, session.NewPrograms(rules.policy, rules.host.PathDirs)}, Handling: rules.plan.Handling,
	}
	if in.hooks != nil {
		in.member.Holder = in.hooks
	}
	env, _ := rules.policy.Env(plainTexts(m.Env), m.Pass...)
	env = setVariable(env, sessionVariable, s.ID)
	rules.plan.Floor.SkipLinks = true
	reply, err := json.Marshal(nestReply{Session: s.ID, Env: texts(env), Floor: rules.plan.Floor, Notes: rules.notes})
	if err != nil {
		_, endErr := n.finish(in, nil, err.Error())
		return fail(errors.Join(err, endErr, in.unhook()))
	}
	joined := func(index int, err error) {
		if err != nil {
			_, _ = n.finish(in, nil, "did not begin: "+err.Error()) // the error that is told is the first one
			_ = in.unhook()
			return
		}
		n.mu.Lock()
		n.inner[index] = in
		n.mu.Unlock()
		parent.recorder.Record(n.outer.marker(event.OpNest, fmt.Sprintf("session %s begins inside, by task %s, profile %s", s.ID, from.ID, rules.policy.Name())))
	}
	return in.member, reply, joined, nil
}

// place is a session that another begins inside.
type place struct {
	id       string
	basis    *session.Basis
	decider  gate.Decider
	programs gate.Programs
	recorder gate.Recorder
	hooks    *tracer.Inner
}

func (n *nesting) parent(index int) (place, error) {
	if index == 0 {
		return place{n.outer.session.ID, n.outer.basis(), n.outer.decider, n.outer.programs, n.tap, nil}, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	in := n.inner[index]
	if in == nil {
		return place{}, fmt.Errorf("bug: there is no session %d", index)
	}
	return place{in.session.ID, in.manifest.Basis, in.member.Decider, in.member.Programs, in, in.hooks}, nil
}

// innerRules are what holds for a session inside.
type innerRules struct {
	policy  *policy.Policy
	plan    tracer.Plan
	host    policy.Host
	basis   *session.Basis
	notes   []string
	sources []policy.Source
	files   []string // policy files that were read, outside and for the workspaces
}

// load makes the policy and the plan of a session inside: of the files of the
// outer one and its own, on the same machine.
func (n *nesting) load(m *nestBegin) (r innerRules, err error) {
	facts := session.Facts{
		User: n.outer.user, Env: plainTexts(m.Env), TempDir: n.outer.session.TempDir, StateDir: n.outer.state.Dir,
		Outside: &n.outer.host,
	}
	for _, dir := range m.Workspaces {
		ws, err := session.OpenWorkspace(string(dir))
		if err != nil {
			return r, err
		}
		facts.Workspaces = append(facts.Workspaces, ws)
		r.notes = append(r.notes, ws.Notes...)
	}
	if err := r.gather(m, n.outer, facts.Workspaces); err != nil {
		return r, err
	}
	facts.ConfigFiles = r.files
	var notes []string
	r.host, notes = session.Collect(facts)
	r.notes = append(r.notes, notes...)
	if r.policy, err = policy.LoadCached(r.sources, m.Profile, r.host, n.outer.state.PolicyCache()); err != nil {
		return r, err
	}
	r.basis = session.NewBasis(m.Profile, r.sources, r.host)
	if r.plan, err = n.lower(r.policy); err != nil {
		return r, err
	}
	if list := undone(r.policy); len(list) > 0 {
		r.plan.Gaps = append(r.plan.Gaps, list...)
		r.notes = append(r.notes, andMore(list))
	}
	if err := grantPrograms(r.policy, &r.plan); err != nil {
		return r, err
	}
	if os.Geteuid() != 0 && len(r.plan.NeedWitness) > 0 {
		r.plan.Gaps = append(r.plan.Gaps, r.plan.NeedWitness...)
		if !m.Degraded {
			return r, degradedHint(fmt.Errorf("%w; %s", tracer.ErrDegraded, r.plan.NeedWitness[0]))
		}
	}
	return r, nil
}

// record begins the record of a session inside.
func (n *nesting) record(in *innerSession, m *nestBegin, parent string, basis *session.Basis, rules *innerRules) error {
	l := n.outer
	records, err := openStream(n.ctx, streamConfig{
		session: in.session.ID, busDir: in.session.BusDir(), storeURL: l.storeURL(), nats: l.opts.nats, strict: l.opts.strict,
		journal: tracer.Journal(in.session.Dir), acked: n.launcher.Acked, noteLoss: in.session.NoteLoss, log: l.log,
	})
	if err != nil {
		return err
	}
	in.tap = &tap{stream: records}
	inner := &live{
		opts: &runOptions{argv: plainTexts(m.Argv)}, session: in.session, user: l.user, policy: in.policy, files: rules.files,
		sources: rules.sources, cwd: string(m.Cwd), plan: tracer.Plan{Gaps: rules.plan.Gaps},
	}
	for _, ws := range m.Workspaces {
		inner.spaces = append(inner.spaces, session.Workspace{Path: string(ws)})
	}
	inner.parent, inner.inside, inner.engine = parent, basis, l.engine
	if in.manifest, err = inner.begin(in.tap); err != nil {
		records.abandon()
		return err
	}
	records.connect()
	// What cannot be recorded must not happen: the tree ends with its recorder.
	in.unwatch = context.AfterFunc(records.ctx, func() { _ = n.launcher.End() })
	return nil
}

// End ends the session with an index, and tells what it came to.
func (n *nesting) End(_ context.Context, index int, message []byte) ([]byte, error) {
	m, err := decodeNest[nestEnd](message)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	in := n.inner[index]
	n.mu.Unlock()
	if in == nil {
		return nil, fmt.Errorf("bug: there is no session %d", index)
	}
	if in.hooks != nil { // what it did comes before its end
		if err := in.hooks.Settle(); err != nil {
			return nil, err
		}
	}
	totals, err := n.finish(in, &m.Status, "")
	if err != nil {
		return nil, err
	}
	return json.Marshal(totals)
}

// finish ends the record of a session, once.
func (n *nesting) finish(in *innerSession, status *int, reason string) (t nestTotals, err error) {
	end := n.outer.marker(event.OpEnd, "")
	if end.Reason = reason; status != nil {
		end.ExitCode = int32(*status)
	}
	if !in.end(end) {
		return t, errors.New("the session has ended already")
	}
	in.unwatch()
	totals, stored, err := in.tap.stream.end()
	now := time.Now().UTC()
	in.manifest.Ended, in.manifest.Status = &now, status
	err = errors.Join(err, in.session.WriteManifest(in.manifest), in.session.Close(stored))
	return nestTotals{
		Requests: totals.Requests, Denied: totals.Denied, Lost: totals.Lost + totals.Events - totals.Acked, Stored: stored,
	}, err
}

// close ends the records of the sessions that did not say that they ended.
func (n *nesting) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, in := range n.inner {
		if in.over() {
			continue
		}
		_, err := n.finish(in, nil, "ended with the session outside")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Refused is the reply that tells an error.
func (n *nesting) Refused(err error) []byte {
	text, jsonErr := json.Marshal(nestReply{Error: err.Error(), Hint: hintOf(err)})
	if jsonErr != nil {
		return []byte(`{"error":"the session outside refused"}`)
	}
	return text
}

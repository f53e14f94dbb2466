package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// ground is what a recorded session's operations are decided on anew: its own
// policy, and what another one is loaded from on the same host.
type ground struct {
	own policy.Stack
	// sources, profile and host are what the last of a stack is loaded from; the
	// sessions outside stay as they are.
	sources []policy.Source
	profile string // "" leaves the choice to the sources
	host    policy.Host
	cache   policy.Cache
}

// ground reads the policy and the host's facts from the session's record. The
// files of --policy take the place of those that were named on the session's own
// command line; its envelope, the user's and the project's files stay.
func (r *recording) ground(c *cli.Context) (*ground, error) {
	b, reeve, err := r.basis()
	if err != nil {
		return nil, err
	}
	if reeve != "" && reeve != buildVersion() {
		say(c.App.ErrWriter, fmt.Errorf("session %s was decided by reeve %s: what is built in may have changed since", r.ID, reeve))
	}
	g := &ground{profile: b.Profile, host: b.Facts()}
	if r.store != nil {
		g.cache = r.store.state.PolicyCache()
	}
	if g.sources, err = b.Sources(); err != nil {
		return nil, err
	}
	if g.own, err = g.stack(b); err != nil {
		return nil, fmt.Errorf("load the policy of session %s: %w", r.ID, err)
	}
	named := c.StringSlice("policy")
	if len(named) > 0 {
		g.sources = slices.DeleteFunc(g.sources, func(s policy.Source) bool { return s.Layer == policy.Session })
		g.profile = ""
	}
	for _, file := range named {
		src, err := session.ReadSource(file, policy.Session)
		if err != nil {
			return nil, err
		}
		g.sources = append(g.sources, src)
	}
	if c.IsSet("profile") {
		g.profile = c.String("profile")
	}
	return g, nil
}

// stack loads the policies of a session, those of the sessions outside first.
func (g *ground) stack(b *session.Basis) (policy.Stack, error) {
	var outer policy.Stack
	if b.Outer != nil {
		var err error
		if outer, err = g.stack(b.Outer); err != nil {
			return nil, err
		}
	}
	sources, err := b.Sources()
	if err != nil {
		return nil, err
	}
	p, err := policy.LoadCached(sources, b.Profile, b.Facts(), g.cache)
	return append(outer, p), err
}

// load is the other policy, inside the same sessions.
func (g *ground) load(c *cli.Context) (policy.Stack, error) {
	p, err := policy.LoadCached(g.sources, g.profile, g.host, g.cache)
	var faults policy.Faults
	if errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Fprintln(c.App.ErrWriter, sanitize(f.Error()))
		}
		return nil, fmt.Errorf("load policy: %s", plural(len(faults), "error"))
	}
	return append(slices.Clone(g.own[:len(g.own)-1]), p), err
}

package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// embeddedEnvelope is the envelope that was built into this binary. In the source
// it is empty; `make build ENVELOPE=file` builds with the file in its place.
//
//go:embed envelope.toml
var embeddedEnvelope string

// policySources are the policies of a session here and now: the envelopes, the
// user's, the workspaces' and those that were named.
func policySources(spaces []session.Workspace, named []string) ([]policy.Source, []string, error) {
	return session.Sources(session.SourceConfig{
		Embedded: embeddedEnvelope, ConfigDir: session.UserConfigDir(os.Getenv), Workspaces: spaces, Named: named,
	})
}

// envelopeRefuses says which variables of the command line an envelope keeps from
// the session.
func envelopeRefuses(p *policy.Policy, vars, environ []string) error {
	for _, v := range vars {
		name, value, set := strings.Cut(v, "=")
		there := set
		if !set {
			value, there = lookup(environ, name)
		}
		if there && p.EnvDenied(name, value, !set) {
			return withHint(fmt.Errorf("--env %s: the envelope keeps this variable from sessions", quote(name)),
				"`reeve policy check` shows the envelope's rules")
		}
	}
	return nil
}

func lookup(environ []string, name string) (value string, ok bool) {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

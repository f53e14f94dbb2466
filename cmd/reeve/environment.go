package main

import (
	"fmt"
	"os"
	"strings"
)

// environment builds the session's from the policy's rules and --env.
func (l *live) environment() {
	var pass []string
	for _, e := range l.opts.env {
		if !strings.Contains(e, "=") {
			pass = append(pass, e)
			if _, set := os.LookupEnv(e); !set {
				l.note(fmt.Sprintf("--env %s: there is no such variable here; %s=VALUE sets one", e, e))
			}
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
		l.env = setVariable(l.env, "HOME", l.user.Entry)
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

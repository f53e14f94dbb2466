package main

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// under is a policy inside another: in everything the stricter holds.
type under struct{ outer, inner gate.Decider }

func (u under) Decide(r *event.Request) event.Decision {
	outer := u.outer.Decide(r)
	if outer.Action == event.ActionDeny && !outer.AskBorn {
		return outer
	}
	return policy.Stricter(outer, u.inner.Decide(r))
}

func (u under) CheckContent(r *event.Request, content []byte) event.Decision {
	return policy.Stricter(u.outer.CheckContent(r, content), u.inner.CheckContent(r, content))
}

func (u under) CheckChange(r *event.Request, was, then []byte) event.Decision {
	return policy.Stricter(u.outer.CheckChange(r, was, then), u.inner.CheckChange(r, was, then))
}

// known is what two sessions know of programs.
type known struct{ outer, inner gate.Programs }

func (k known) Alike(path string, st *unix.Stat_t, open func() (*os.File, error)) ([]string, error) {
	outer, err := k.outer.Alike(path, st, open)
	if err != nil {
		return nil, err
	}
	inner, err := k.inner.Alike(path, st, open)
	for _, name := range inner {
		if !slices.Contains(outer, name) {
			outer = append(outer, name)
		}
	}
	return outer, err
}

// Loads is the same for both: it is about what the program is.
func (k known) Loads(path string, argv []string) int { return k.outer.Loads(path, argv) }

func (k known) Words(r *event.Request) bool { return k.outer.Words(r) || k.inner.Words(r) }

func (k known) Internal(path string) bool { return k.outer.Internal(path) || k.inner.Internal(path) }

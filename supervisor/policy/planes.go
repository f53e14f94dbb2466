package policy

import (
	"cmp"
	"slices"

	"github.com/reeve-audit/reeve/tracer/event"
)

// selfLayer is the place of the layer of reeve's own files in the fence.
const selfLayer = 0

// noNetwork is what a profile says that says nothing about the network.
var noNetwork = &network{}

// combinePlanes joins what the profiles say about everything but paths. In every
// plane a layer can only narrow.
func (p *Policy) combinePlanes() {
	p.recordOnly, p.memory, p.anySignal = true, true, true
	p.kernel = []string{"*"}
	for _, s := range p.stack {
		p.recordOnly = p.recordOnly && s.recordOnly != nil && *s.recordOnly
		if s.memory != nil || s.closed {
			p.memory = p.memory && s.memory != nil && *s.memory
		}
		if s.signals != "" || s.closed {
			p.anySignal = p.anySignal && s.signals == "any"
		}
		if s.kernel != nil || s.closed {
			p.kernel = intersect(p.kernel, s.kernel)
		}
		if s.limits != nil {
			p.limits = append(p.limits, s.limits)
		}
		if s.approval != nil {
			p.approvals = append(p.approvals, s.approval)
		}
		if s.network != nil || s.closed {
			p.net = append(p.net, netLayer{over(noNetwork, s.network), s.name, s.origin, s.closed})
		}
	}
}

// intersect narrows a list of names, where "*" is all.
func intersect(have []string, with *names) []string {
	switch {
	case with == nil:
		return nil
	case slices.Contains(with.list, "*"):
		return have
	case slices.Contains(have, "*"):
		return slices.Clone(with.list)
	}
	return slices.DeleteFunc(slices.Clone(have), func(name string) bool { return !slices.Contains(with.list, name) })
}

// fillReasons says why the rules that people wrote deny.
func (p *Policy) fillReasons() {
	for _, set := range append(p.planes, &p.sockets) {
		for i := range set.rules {
			r := &set.rules[i]
			if l := &set.layers[r.layer]; l.profile {
				r.reason = r.denial(cmp.Or(r.by, l.name))
			} else if r.reason == "" {
				r.reason = l.name
			}
		}
	}
}

func (r *rule) denial(by string) string {
	if r.action == event.ActionDeny || r.word == wordDeny || r.word == wordHide {
		return "denied by " + by
	}
	switch r.word {
	case wordRead:
		return "may only be read"
	case wordList:
		return "may only be listed"
	}
	return "asked for by " + by
}

// Capabilities are the capabilities that a command run as root keeps, as
// capabilities(7) has them without CAP_; "*" stands for all.
func (p *Policy) Capabilities() []string {
	keep := []string{"*"}
	for _, s := range p.stack {
		caps := s.caps
		if caps == nil && !s.closed {
			continue
		}
		if caps == nil {
			caps = p.tables.profiles[DefaultProfile].caps
		}
		keep = intersect(keep, caps)
	}
	slices.Sort(keep)
	return keep
}

// Limits are the strictest of all files' and profiles' limits.
func (p *Policy) Limits() Limits {
	var all Limits
	for _, l := range p.limits {
		all.Processes = tighter(all.Processes, l.Processes)
		all.OpenFiles = tighter(all.OpenFiles, l.OpenFiles)
		all.Memory = tighter(all.Memory, l.Memory)
		all.FileSize = tighter(all.FileSize, l.FileSize)
		all.CPU = tighter(all.CPU, l.CPU)
		all.Wall = tighter(all.Wall, l.Wall)
	}
	return all
}

// Approval is how asking works: the shortest timeout of all.
func (p *Policy) Approval() Approval {
	var all Approval
	for _, a := range p.approvals {
		all.Timeout = tighter(all.Timeout, a.Timeout)
	}
	return all
}

// tighter is the smaller bound, where zero is none.
func tighter[T ~uint64 | ~int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

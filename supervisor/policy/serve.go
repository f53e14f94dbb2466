package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// A tool that asks a program for what it caches has the host's cache and the private
// one at once, see "serve" in caches.toml.

// serving is the command that serves a tool the host's cache and the private one; ok
// is false when there is no such cache, or when it cannot serve in this session.
func (p *Policy) serving(kv pair) (value string, ok bool) {
	h := &p.host
	reeve, ok := argument(h.Reeve)
	cache, there := argument(h.GoCache)
	if !ok || !there {
		return "", false
	}
	value = strings.NewReplacer("{reeve}", reeve, "{go_cache}", cache).Replace(kv.value)
	dir := target{req: &event.Request{}, path: h.GoCache, kind: event.ObjectDir}
	run := event.Request{Op: event.OpExec, Access: event.AccessExec, Object: event.Object{Kind: event.ObjectFile, Path: h.Reeve, Raw: h.Reeve}}
	return value, p.verdictOf(&dir).read <= event.ActionAllow && p.Decide(&run).Action == event.ActionAllow
}

// cannotServe reports whether a variable is one that a session outside was given to
// have its caches served, which this one cannot have.
func (p *Policy) cannotServe(name, value string) bool {
	for _, c := range p.tables.caches {
		for _, kv := range c.serve {
			if own, ok := p.serving(kv); kv.key == name && own == value && !ok {
				return true
			}
		}
	}
	return false
}

// argument is a path as the go command reads it in a list of arguments (package
// cmd/internal/quoted), where a quotation mark cannot be quoted by itself.
func argument(path string) (word string, ok bool) {
	switch {
	case path == "" || strings.Contains(path, "'") && strings.Contains(path, `"`):
		return "", false
	case strings.Contains(path, "'"):
		return `"` + path + `"`, true
	case strings.ContainsAny(path, "\" \t\r\n"):
		return "'" + path + "'", true
	}
	return path, true
}

func lookup(env []string, name string) (value string, ok bool) {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

package storage

import (
	"fmt"
	"path"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Glob matches paths: "*" and "?" stay within a component, "**" as a component
// is any number of components, "[…]" is a set. A pattern without a leading "/"
// matches at any depth: "*.env" is "/**/*.env".
type Glob struct {
	prefix string   // of every path that matches
	parts  []string // components
}

// NewGlob compiles a pattern. The empty pattern matches everything.
func NewGlob(pattern string) (*Glob, error) {
	if pattern == "" {
		return &Glob{}, nil
	}
	if !strings.HasPrefix(pattern, "/") {
		pattern = "/**/" + pattern
	}
	g := &Glob{parts: strings.Split(pattern[1:], "/")}
	for _, part := range g.parts {
		if _, err := path.Match(part, ""); err != nil {
			return nil, fmt.Errorf("path pattern %q: component %q: %w", pattern, part, err)
		}
	}
	g.prefix = pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		g.prefix = pattern[:i]
	}
	if i := strings.Index(pattern, "/**"); i >= 0 && i < len(g.prefix) {
		g.prefix = pattern[:i] // "/a/**" matches "/a" too
	}
	return g, nil
}

// Any reports whether the glob matches everything.
func (g *Glob) Any() bool { return g.parts == nil }

// Prefix is what every matching path begins with; a store may narrow by it.
func (g *Glob) Prefix() string { return g.prefix }

// Match reports whether the path matches.
func (g *Glob) Match(name string) bool {
	if g.Any() {
		return true
	}
	if !strings.HasPrefix(name, g.prefix) || !strings.HasPrefix(name, "/") {
		return false
	}
	return matchParts(g.parts, strings.Split(name[1:], "/"))
}

// matchParts matches components; like the classic algorithm for "*", it comes
// back only to the last "**", so the time is bounded by the product of lengths.
func matchParts(pattern, name []string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, mark = p, n
			p++
		case p < len(pattern) && matchPart(pattern[p], name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func matchPart(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// MatchEvent reports whether the path of e's object or target matches.
func (g *Glob) MatchEvent(e *event.Event) bool {
	return g.Any() || g.Match(e.Object.Path) || g.Match(e.Target.Path)
}

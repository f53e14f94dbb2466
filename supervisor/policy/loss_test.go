package policy

import (
	"fmt"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// twoNames is a link or an exchange of two names of files or directories.
func twoNames(op event.Op, from, to string, kind event.ObjectKind) *event.Request {
	req := rename(from, to, kind, kind)
	if req.Op = op; op == event.OpRename {
		req.Flags = renameExchange
	} else {
		req.Target.Kind = event.ObjectMissing
	}
	return req
}

// TestBulkOtherNames: what a file holds does not become the session's own, or a
// build's, by another name.
func TestBulkOtherNames(t *testing.T) {
	const ws = "/home/u/ws/"
	link := func(from, to string) func(int) *event.Request {
		return func(i int) *event.Request {
			return twoNames(event.OpLink, fmt.Sprintf(ws+from, i), fmt.Sprintf(ws+to, i), event.ObjectFile)
		}
	}
	truncate := func(format string) func(int) *event.Request {
		return func(i int) *event.Request {
			return &event.Request{Op: event.OpTruncate, Access: event.AccessWrite, Task: event.Task{PID: 77, TID: 77}, Object: event.Object{Kind: event.ObjectFile, Path: fmt.Sprintf(ws+format, i)}}
		}
	}
	only := func(req *event.Request) func(int) *event.Request { return func(int) *event.Request { return req } }
	type step struct {
		n    int
		req  func(int) *event.Request
		held int
	}
	mkdir := func(name string) step { return step{1, only(change("/usr/bin/mkdir", "mkdir", ws+name)), 0} }
	for name, steps := range map[string][]step{
		"linked into a build":      {{60, link("src/f%d", "build/f%d"), 10}},
		"linked as an artifact":    {{60, link("src/f%d", "src/f%d.o"), 10}},
		"linked, then cut":         {mkdir("own"), {60, link("src/f%d", "own/f%d"), 0}, {60, truncate("own/f%d"), 10}},
		"linked, then overwritten": {{60, link("src/f%d", "l%d"), 0}, {60, files("/bin/sh", "write", ws+"l%d"), 10}},
		"linked, moved, overwritten": {mkdir("own"), {60, link("src/f%d", "l%d"), 0}, {60, func(i int) *event.Request {
			return rename(fmt.Sprintf(ws+"l%d", i), fmt.Sprintf(ws+"own/m%d", i), event.ObjectFile, event.ObjectMissing)
		}, 0}, {60, truncate("own/m%d"), 10}},
		"linked, the links deleted":      {mkdir("own"), {60, link("src/f%d", "own/f%d"), 0}, {60, files("/usr/bin/rm", "delete", ws+"own/f%d"), 0}},
		"by names that are gone":         {mkdir("own"), {60, only(change("/bin/sh", "write", ws+"own/q (deleted)")), 10}},
		"its own, linked":                {mkdir("own"), {60, link("own/f%d", "l%d"), 0}, {60, truncate("l%d"), 0}},
		"overwritten, then its own":      {{1, link("src/f%d", "l%d"), 0}, {60, only(change("/bin/sh", "write", ws+"l0")), 0}},
		"exchanged into its own":         {mkdir("own"), mkdir("own/d"), {1, only(twoNames(event.OpRename, ws+"own/d", ws+"src", event.ObjectDir)), 0}, {60, files("/usr/bin/rm", "delete", ws+"own/d/f%d"), 10}},
		"its own exchanged for it":       {mkdir("own"), {1, only(twoNames(event.OpRename, ws+"src", ws+"own", event.ObjectDir)), 0}, {60, files("/usr/bin/rm", "delete", ws+"own/f%d"), 10}},
		"exchanged into a build":         {{1, only(twoNames(event.OpRename, ws+"build/d", ws+"src", event.ObjectDir)), 1}},
		"a build exchanged for it":       {{1, only(twoNames(event.OpRename, ws+"src", ws+"build/d", event.ObjectDir)), 1}},
		"its own moved over it, in vain": {mkdir("own"), {1, only(rename(ws+"own", ws+"src", event.ObjectDir, event.ObjectDir)), 0}, {60, files("/usr/bin/rm", "delete", ws+"src/f%d"), 10}},
		"its own exchanged":              {mkdir("a"), mkdir("b"), {1, only(twoNames(event.OpRename, ws+"a", ws+"b", event.ObjectDir)), 0}, {60, files("/usr/bin/rm", "delete", ws+"a/f%d"), 0}},
		"moved over a build's": {{60, func(i int) *event.Request {
			return rename(fmt.Sprintf(ws+"src/f%d", i), fmt.Sprintf(ws+"build/f%d", i), event.ObjectFile, event.ObjectFile)
		}, 10}},
	} {
		l := ledger(t, newClock())
		for i, s := range steps {
			if held, d := burst(l, s.n, s.req); held != s.held || held > 0 && d.Risk != RiskBulk {
				t.Errorf("%s, step %d: %d held, want %d: %+v", name, i+1, held, s.held, d)
			}
		}
	}
}

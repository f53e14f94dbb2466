package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// recordMade is which files a record shows the session to have made, by their paths:
// for a policy that wants to know it where the session's own did not ask. Others than
// the session may have had a hand in it, which no record tells. The zero value is
// ready.
type recordMade struct{ files map[string]bool }

// note takes the next record of a request.
func (m *recordMade) note(e *event.Event) {
	from, to := e.Object.Path, e.Target.Path
	named := strings.HasPrefix(from, "/") && (to == "" || strings.HasPrefix(to, "/"))
	if e.Action != event.ActionAllow || e.Errno != 0 || !named {
		return
	}
	switch e.Op {
	case event.OpOpen, event.OpCreate:
		if e.Access&event.AccessCreate != 0 && e.Object.Kind == event.ObjectMissing {
			m.set(from, true)
		}
	case event.OpDelete:
		m.set(from, false)
	case event.OpLink:
		m.set(to, m.files[from])
	case event.OpRename:
		exchange := e.Flags&renameExchange != 0
		if e.Object.Kind == event.ObjectDir || exchange && e.Target.Kind == event.ObjectDir {
			m.movedDir(from, to, exchange)
			return
		}
		was, is := m.files[from], m.files[to]
		m.set(to, was)
		m.set(from, is && exchange)
	}
}

func (m *recordMade) set(path string, made bool) {
	switch {
	case !made:
		delete(m.files, path)
	case len(m.files) < maxMade:
		if m.files == nil {
			m.files = make(map[string]bool)
		}
		m.files[path] = true
	}
}

// movedDir keeps up with a rename of a directory, and what is below it.
func (m *recordMade) movedDir(from, to string, exchange bool) {
	var out, back []string
	for path := range m.files {
		switch {
		case isBelow(path, from):
			out = append(out, strings.TrimPrefix(path, from))
			delete(m.files, path)
		case isBelow(path, to):
			back = append(back, strings.TrimPrefix(path, to))
			delete(m.files, path)
		}
	}
	for _, rest := range out {
		m.set(to+rest, true)
	}
	if exchange {
		for _, rest := range back {
			m.set(from+rest, true)
		}
	}
}

// claim says of the files of a request which the record shows to be the session's.
func (m *recordMade) claim(req *event.Request) {
	for _, o := range []*event.Object{&req.Object, &req.Target} {
		o.Own = o.Own || o.Kind == event.ObjectFile && m.files[o.Path]
	}
}

// onlyFiles reports whether what another policy says depends on whose the files are,
// and not on whose the repository is.
func (r *rerun) onlyFiles(req *event.Request) bool {
	own := *req
	for _, o := range []*event.Object{&own.Object, &own.Target} {
		o.Own = o.Own || o.Kind == event.ObjectFile
	}
	return !r.stack.rule(&own, r.look).decision.AskBorn
}

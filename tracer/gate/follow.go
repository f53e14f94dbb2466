package gate

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// What follows a change of a file, as one act.

// attributes are the changes of what a file is besides its name and content.
var attributes = []event.Op{event.OpChmod, event.OpChown, event.OpSetxattr, event.OpUtime}

// follow is what an answer about a change of a file would be for besides it. The
// objects are named by path alone.
func follow(req *event.Request) []event.Request {
	o := req.Object
	var ops []event.Op
	switch req.Op {
	case event.OpCreate:
		ops = append(slices.Clone(attributes), event.OpTruncate, event.OpDelete)
	case event.OpMkdir:
		ops = append(slices.Clone(attributes), event.OpRmdir)
	case event.OpMknod:
		ops = append(slices.Clone(attributes), event.OpDelete)
	case event.OpSymlink:
		o = req.Target
		ops = []event.Op{event.OpChown, event.OpSetxattr, event.OpUtime, event.OpDelete}
	case event.OpOpen:
		if o.Kind != event.ObjectFile || req.Access&(event.AccessWrite|event.AccessCreate) != event.AccessWrite {
			return nil
		}
		ops = []event.Op{event.OpUtime, event.OpTruncate}
	}
	var out []event.Request
	for _, op := range ops {
		out = append(out, event.Request{Op: op, Access: stepAccess(op), Object: event.Object{Path: o.Path}})
	}
	if to := replaces(o.Path); req.Op == event.OpCreate && to != "" {
		out = append(out, event.Request{
			Op: event.OpRename, Access: stepAccess(event.OpRename), Object: event.Object{Path: o.Path}, Target: event.Object{Path: to},
		})
	}
	return out
}

func stepAccess(op event.Op) event.Access {
	switch op {
	case event.OpDelete, event.OpRmdir:
		return event.AccessDelete
	case event.OpRename:
		return event.AccessDelete | event.AccessCreate
	case event.OpTruncate:
		return event.AccessWrite
	}
	return event.AccessMeta
}

// temporary is what programs add to the name of a file that they write beside it
// and then rename over it: git and others .lock, many .tmp or .new with or without
// numbers, npm's a number.
var temporary = regexp.MustCompile(`^(.+?)\.(?:lock|(?:tmp|new)(?:[.-][0-9A-Za-z.-]*)?|[0-9]{6,})$`)

// replaces is the path of the file that one of a temporary name is to replace,
// empty for other names.
func replaces(path string) string {
	i := strings.LastIndexByte(path, '/') + 1
	m := temporary.FindStringSubmatch(path[i:])
	if m == nil {
		return ""
	}
	return path[:i] + m[1]
}

// foresee completes the steps of a question by what stands at the target of a
// rename now, which is returned too, so that its inode does not become another's: nil
// where nothing stands. A name that something else than a file has is no step, nor is
// one that nothing has, but for a lock: that is made before the file.
func foresee(steps []event.Request) (out []event.Request, target *proc.Pinned) {
	for _, step := range steps {
		if step.Op == event.OpRename {
			p, err := standing(step.Target.Path)
			switch {
			case err == unix.ENOENT && strings.HasSuffix(step.Object.Path, ".lock"):
				step.Target.Kind = event.ObjectMissing
			case err != nil:
				continue
			default:
				step.Target, target = p.Object(p.Path), p
			}
		}
		out = append(out, step)
	}
	return out, target
}

// standing pins the file at a path.
func standing(path string) (*proc.Pinned, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p, err := proc.Pin(fd)
	if err != nil {
		return nil, err
	}
	if !p.Regular() || p.Path != path {
		p.Close()
		return nil, unix.EINVAL
	}
	return &p, nil
}

// isStep says whether a request is what a step says.
func isStep(step, req *event.Request) bool {
	if step.Op != req.Op || step.Object.Path != req.Object.Path {
		return false
	}
	switch req.Op {
	case event.OpExec:
		return sameFile(&step.Object, &req.Object) && sameLine(step, req)
	case event.OpRename:
		return step.Target.Path == req.Target.Path && sameFile(&step.Target, &req.Target) && req.Flags&^unix.RENAME_NOREPLACE == 0
	}
	return true
}

// sameFile says whether o is what a step says. A step of an answer for the session
// names a path alone.
func sameFile(step, o *event.Object) bool {
	if step.Kind == event.ObjectNone {
		return o.Kind == event.ObjectFile || o.Kind == event.ObjectMissing
	}
	return sameInode(step, o)
}

// sameLine says whether two execs have the same arguments in the same place.
func sameLine(a, b *event.Request) bool {
	return a.Op == b.Op && slices.Equal(a.Argv, b.Argv) && a.Task.Cwd == b.Task.Cwd
}

// shown are those steps that an approver saw. Where the answer is for the session
// they are the same by their paths.
func shown(steps, seen []event.Request, session bool) []event.Request {
	var out []event.Request
	for _, step := range steps {
		if slices.ContainsFunc(seen, func(s event.Request) bool {
			return s.Op == step.Op && s.Object.Path == step.Object.Path && s.Target.Path == step.Target.Path && sameLine(&s, &step) &&
				(session || sameInode(&s.Object, &step.Object) && sameInode(&s.Target, &step.Target))
		}) {
			out = append(out, step)
		}
	}
	return out
}

func sameInode(a, b *event.Object) bool { return a.Kind == b.Kind && a.Dev == b.Dev && a.Ino == b.Ino }

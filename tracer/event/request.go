package event

import "strings"

// Request is the request that a record of kind request was made of: what a policy
// needs to decide it anew. Lists are as complete as they were to the policy then,
// cut where they are too long.
func (e *Event) Request() Request {
	req := Request{
		Op: e.Op, Access: e.Access, Task: e.Task, Object: e.Object, Target: e.Target, Flags: e.Flags, Mode: e.Mode,
		Born: e.Born, Syscall: e.Syscall, Arch: e.Arch,
	}
	if e.Op == OpExec {
		req.Argv, req.Alike, req.Caller, req.CallerLen = e.Task.Argv, e.Alike, e.Caller, e.CallerLen
		req.Interps = e.interps()
	}
	return req
}

// Told is what a call says besides its objects, flags and mode, and what it means
// depends on: the arguments of an exec and where they are meant, what a symbolic
// link holds, which attribute becomes what, who the owner is to be,
// what a settings file would say.
func (r *Request) Told() string {
	switch r.Op {
	case OpExec:
		return r.Task.Cwd + "\x00\x00" + strings.Join(r.Argv, "\x00")
	case OpSymlink:
		return r.Object.Raw
	case OpSetxattr, OpChown:
		return r.Target.Raw
	case OpRename:
		return r.Settings
	}
	return ""
}

// SetRequest takes over what a record holds of its request. Of Alike maxKept bytes
// are kept.
func (e *Event) SetRequest(r *Request) {
	e.Op, e.Access, e.Task, e.Object, e.Target = r.Op, r.Access, r.Task, r.Object, r.Target
	e.Flags, e.Mode, e.Born, e.Syscall, e.Arch = r.Flags, r.Mode, r.Born, r.Syscall, r.Arch
	e.Alike, e.AlikeLen = kept(r.Alike)
	e.Caller, e.CallerLen = r.Caller, r.CallerLen
	for i := range r.Interps {
		e.Interps = append(e.Interps, r.Interps[i].Path)
		e.InterpLines = append(e.InterpLines, r.Interps[i].line())
	}
}

// maxKept is how many bytes of a list are recorded.
const maxKept = 8192

// kept is the beginning of a list that is short enough, in whole texts; size is
// the number of bytes of all, NULs included, when it is not all.
func kept(list []string) (head []string, size uint32) {
	n := 0
	for i, s := range list {
		if size += uint32(len(s) + 1); size <= maxKept {
			n = i + 1
		}
	}
	if n == len(list) {
		return list, 0
	}
	return list[:n], size
}

package policy

import (
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Decide answers a request. It may be called by any number of goroutines at
// once, keeps nothing of req, and does not allocate where it allows an open.
//
// What it does not know it denies. An open that could only fail with ENOENT
// because nothing stands there is denied with that errno where the path would be
// denied; a mkdir of what exists with EEXIST.
func (p *Policy) Decide(req *event.Request) event.Decision {
	switch req.Op {
	case event.OpOpen, event.OpCreate:
		return p.decideOpen(req)
	case event.OpExec:
		return p.decideExec(req, surroundings{})
	case event.OpDelete, event.OpRmdir:
		return p.decideNamed(req, roleRemove)
	case event.OpMkdir, event.OpMknod:
		return p.decideMake(req)
	case event.OpTruncate, event.OpChmod, event.OpChown, event.OpSetxattr, event.OpUtime:
		return p.decideMeta(req)
	case event.OpRename, event.OpLink, event.OpSymlink:
		return p.decideTree(req)
	case event.OpConnect, event.OpSend, event.OpBind, event.OpListen, event.OpSocket:
		return p.decideNetwork(req)
	}
	return p.decideKernel(req)
}

// allow and deny are decisions that no rule of paths makes.
func (p *Policy) allow(rule string) event.Decision {
	return event.Decision{Action: event.ActionAllow, Rule: rule, By: p.by}
}

func (p *Policy) deny(errno syscall.Errno, rule, reason string) event.Decision {
	return event.Decision{Action: event.ActionDeny, Rule: rule, Reason: reason, By: p.by, Errno: int32(errno)}
}

// malformed reports what makes a path impossible to judge. Where everything is
// allowed, so is what cannot be named.
func (p *Policy) malformed(obj *event.Object) (event.Decision, bool) {
	bad := obj.PathLen != 0 || obj.Path == "" || obj.Path[0] != '/'
	switch {
	case bad && p.recordOnly:
		return p.allow("record_only"), true
	case obj.PathLen != 0:
		return p.deny(syscall.ENAMETOOLONG, "", reasonLong), true
	case obj.Path == "" || obj.Path[0] != '/':
		return p.deny(syscall.EACCES, "", reasonRelative), true
	}
	return event.Decision{}, false
}

// decideOpen judges open by its accesses.
func (p *Policy) decideOpen(req *event.Request) event.Decision {
	t := newTarget(req, &req.Object, 0, roleUse)
	t.need, t.role = openNeeds(req)
	if t.anonymous() {
		return p.decideAnonymous(&t)
	}
	if d, bad := p.malformed(&req.Object); bad {
		return d
	}
	if req.Access == event.AccessPath {
		return p.decideHandle(&t)
	}
	if req.Object.Kind == event.ObjectDevice && !strings.HasPrefix(t.path, "/dev/") && !p.recordOnly {
		return p.deny(syscall.EACCES, "", "a device outside /dev")
	}
	if t.role == roleMake && setsID(req.Mode) && !p.recordOnly {
		return p.deny(syscall.EPERM, "", reasonSetID)
	}
	if p.strangeTerminal(&req.Object) {
		return p.deny(syscall.EACCES, terminalRule, reasonTerminal)
	}
	return p.judge(&t)
}

// openNeeds is what an open has to be allowed, and whether it makes the file.
func openNeeds(req *event.Request) (need event.Access, as role) {
	if req.Access&event.AccessRead != 0 || req.Access == 0 {
		need |= event.AccessRead
	}
	if req.Access&(event.AccessWrite|event.AccessMeta|event.AccessDelete) != 0 || req.Flags&syscall.O_TRUNC != 0 || req.Access == 0 || req.Op == event.OpCreate {
		need |= event.AccessWrite
	}
	if req.Access&event.AccessExec != 0 {
		need |= event.AccessExec
	}
	if req.Access&event.AccessCreate != 0 && (req.Object.Kind == event.ObjectMissing || req.Object.Kind == event.ObjectNone) {
		// What is not there is made exclusively, so reading through the same
		// descriptor gives the session only what it wrote.
		return event.AccessWrite, roleMake
	}
	if need == 0 {
		need = event.AccessRead
	}
	return need, as
}

// decideHandle judges O_PATH: a handle gives no content, and what is done with
// it is judged then. Only what is denied by name is kept.
func (p *Policy) decideHandle(t *target) event.Decision {
	t.need = event.AccessRead
	if p.verdictOf(t).of(t.need) <= event.ActionAllow {
		return p.judge(t)
	}
	if r := p.refusal(t); r.rule != nil && r.verdict == event.ActionDeny {
		return p.refuse(t)
	}
	return p.allow("O_PATH")
}

// deletedMark is what the kernel appends to the path of a file without a name.
const deletedMark = " (deleted)"

// decideAnonymous judges the opening anew of a descriptor's object: a pipe, a
// memory file, a deleted file. A deleted file is judged as what it was, unless it
// never had a name.
func (p *Policy) decideAnonymous(t *target) event.Decision {
	was, deleted := strings.CutSuffix(t.path, deletedMark)
	if !deleted && strings.HasPrefix(t.path, "/") && !strings.HasPrefix(t.path, "/memfd:") {
		deleted = true
	}
	if !deleted || !strings.HasPrefix(was, "/") || strings.HasPrefix(was, "/memfd:") || strings.HasPrefix(last(was), "#") {
		return p.allow("a descriptor's own object")
	}
	t.path, t.kind = was, event.ObjectFile
	return p.judge(t)
}

// decideExec judges the program of an execve and what its words mean, by what is
// known of the paths among them.
func (p *Policy) decideExec(req *event.Request, at surroundings) event.Decision {
	d := p.decideProgram(req)
	if d.Action == event.ActionDeny {
		return d
	}
	return sterner(d, p.decideCommand(req, at))
}

// decideProgram judges the program of an execve, whatever its words are.
func (p *Policy) decideProgram(req *event.Request) event.Decision {
	t := newTarget(req, &req.Object, event.AccessExec, roleUse)
	if t.anonymous() {
		if p.memory {
			return p.allow(memoryKey)
		}
		return p.deny(syscall.EACCES, memoryKey, "a program without a file cannot be known")
	}
	if d, bad := p.malformed(&req.Object); bad {
		return d
	}
	d := p.judge(&t)
	if d.Action != event.ActionDeny {
		d = sterner(d, p.judgeAlike(req, &t))
	}
	return d
}

// sterner is the stricter of what is said of a program and of its command line.
func sterner(program, line event.Decision) event.Decision {
	if program.Action > line.Action {
		return program
	}
	if line.Rule == "" {
		line.Rule = program.Rule
	}
	return line
}

// decideNamed judges an operation on the object's own name.
func (p *Policy) decideNamed(req *event.Request, as role) event.Decision {
	if d, bad := p.malformed(&req.Object); bad {
		return d
	}
	t := newTarget(req, &req.Object, event.AccessWrite, as)
	d := p.judge(&t)
	if d.Action != event.ActionDeny && as == roleRemove && p.isOwn(t.path) {
		return p.deny(syscall.EBUSY, "", reasonOwn)
	}
	return d
}

// decideMake judges mkdir and mknod.
func (p *Policy) decideMake(req *event.Request) event.Decision {
	if req.Op == event.OpMknod && !p.recordOnly {
		switch req.Mode & syscall.S_IFMT {
		case syscall.S_IFBLK, syscall.S_IFCHR:
			return p.deny(syscall.EPERM, "", "a device could be any disk or memory")
		}
		if setsID(req.Mode) {
			return p.deny(syscall.EPERM, "", reasonSetID)
		}
	}
	if req.Op == event.OpMkdir && p.plantsRepository(req.Object.Path, event.ObjectDir) {
		return p.deny(syscall.EACCES, "", reasonHides)
	}
	return p.decideNamed(req, roleMake)
}

const reasonSetID = "a set-user-ID program would outlive the session"

// setsID reports whether a file's mode would run it as its owner or group, also
// once it may be run at all: an access control list can add that later.
func setsID(mode uint32) bool { return mode&(syscall.S_ISUID|syscall.S_ISGID) != 0 }

// decideMeta judges changes of an object in place.
func (p *Policy) decideMeta(req *event.Request) event.Decision {
	t := newTarget(req, &req.Object, event.AccessWrite, roleUse)
	if req.Op == event.OpChmod && req.Object.Kind != event.ObjectDir && setsID(req.Mode) && !p.recordOnly {
		return p.deny(syscall.EPERM, "", reasonSetID)
	}
	if req.Op != event.OpUtime && p.strangeTerminal(&req.Object) {
		return p.deny(syscall.EACCES, terminalRule, reasonTerminal)
	}
	if t.anonymous() {
		return p.decideAnonymous(&t)
	}
	if d, bad := p.malformed(&req.Object); bad {
		return d
	}
	return p.judge(&t)
}

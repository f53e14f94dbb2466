package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// procSelf is where rules speak of the session's own tasks, whatever their
// numbers are.
const procSelf = "/proc/self"

// target is one path that an operation touches, in the way it touches it.
type target struct {
	req  *event.Request
	path string
	// kind is what stands there, or, where something is moved or linked to the
	// path, what will. missing is set when nothing stands there yet.
	kind    event.ObjectKind
	missing bool
	// file is set when a regular file stands there now, made when it is one that the
	// session itself made.
	file, made bool
	// need is what must be allowed: AccessRead, AccessWrite, AccessExec.
	need event.Access
	// role is what the operation does with the name.
	role role
	// ownProc is set for /proc/PID of a task of the session; rest is what follows.
	ownProc bool
	rest    string
}

// role is what becomes of a name.
type role uint8

const (
	roleUse    role = iota // opened, changed in place
	roleMake               // made anew: open with O_CREAT, mkdir, mknod
	roleRemove             // unlinked
	roleFrom               // moved away
	roleTo                 // moved or linked to
	roleLink               // made as a symbolic link
)

// newTarget looks at one object of a request.
func newTarget(req *event.Request, obj *event.Object, need event.Access, as role) target {
	t := target{
		req: req, path: obj.Path, kind: obj.Kind, missing: obj.Kind == event.ObjectMissing, need: need, role: as,
	}
	t.file = obj.Kind == event.ObjectFile
	t.made = t.file && obj.Own
	t.rest, t.ownProc = ownProc(req, obj)
	return t
}

// ownProc reports whether an object is below /proc/PID of a task of the session,
// and what follows the number.
func ownProc(req *event.Request, obj *event.Object) (rest string, own bool) {
	digits, ok := strings.CutPrefix(obj.Path, "/proc/")
	if !ok {
		return "", false
	}
	n, i := int64(0), 0
	for i < len(digits) && digits[i] >= '0' && digits[i] <= '9' && i < 11 {
		n = n*10 + int64(digits[i]-'0')
		i++
	}
	if i == 0 || i < len(digits) && digits[i] != '/' {
		return "", false
	}
	return digits[i:], obj.Own || n == int64(req.Task.PID) || n == int64(req.Task.TID)
}

// judged is the path as rules see it.
func (t *target) judged() string {
	if t.ownProc {
		return procSelf + t.rest
	}
	return t.path
}

// anonymous reports whether the object has no path: a pipe, a memory file, a
// file without a name.
func (t *target) anonymous() bool {
	return t.kind == event.ObjectMem || t.path == "" || t.path[0] != '/'
}

func last(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }

func parent(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return "/"
}

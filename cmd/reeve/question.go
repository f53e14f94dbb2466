package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
)

// form is what a word of `policy explain` asks about.
type form struct {
	op     event.Op
	access event.Access
	flags  uint64
	// objects is how many arguments follow the word.
	objects int
	// name is set where the operation is about the name itself: a symlink at its
	// end is not followed.
	name bool
}

// forms are the questions that can be asked. "read" and "write" are open with
// the access said.
var forms = map[string]form{
	"open":     {op: event.OpOpen, access: event.AccessRead, objects: 1},
	"read":     {op: event.OpOpen, access: event.AccessRead, objects: 1},
	"write":    {op: event.OpOpen, access: event.AccessWrite, flags: unix.O_WRONLY, objects: 1},
	"create":   {op: event.OpCreate, access: event.AccessWrite | event.AccessCreate, flags: unix.O_WRONLY | unix.O_CREAT, objects: 1},
	"delete":   {op: event.OpDelete, access: event.AccessDelete, objects: 1, name: true},
	"rmdir":    {op: event.OpRmdir, access: event.AccessDelete, objects: 1, name: true},
	"mkdir":    {op: event.OpMkdir, access: event.AccessCreate, objects: 1, name: true},
	"mknod":    {op: event.OpMknod, access: event.AccessCreate, objects: 1, name: true},
	"rename":   {op: event.OpRename, access: event.AccessDelete | event.AccessCreate, objects: 2, name: true},
	"link":     {op: event.OpLink, access: event.AccessCreate, objects: 2, name: true},
	"symlink":  {op: event.OpSymlink, access: event.AccessCreate, objects: 2, name: true},
	"truncate": {op: event.OpTruncate, access: event.AccessWrite, objects: 1},
	"chmod":    {op: event.OpChmod, access: event.AccessMeta, objects: 1},
	"chown":    {op: event.OpChown, access: event.AccessMeta, objects: 1},
	"setxattr": {op: event.OpSetxattr, access: event.AccessMeta, objects: 1},
	"utime":    {op: event.OpUtime, access: event.AccessMeta, objects: 1},
	"exec":     {op: event.OpExec, access: event.AccessExec, objects: 1},
	"connect":  {op: event.OpConnect, access: event.AccessConnect, objects: 1},
	"send":     {op: event.OpSend, access: event.AccessConnect, objects: 1},
	"bind":     {op: event.OpBind, access: event.AccessBind, objects: 1},
}

// explainable are the words in the order in which they are offered.
var explainable = []string{
	"open", "write", "create", "exec", "connect", "read", "delete", "rename", "link", "symlink", "mkdir", "rmdir", "mknod",
	"truncate", "chmod", "chown", "setxattr", "utime", "bind", "send",
}

// question makes the request that a task would make for "OP OBJECT [TARGET]", as
// the gate would see it. The note says what a person should know about it.
func question(words []string, cwd string, env []string) (req event.Request, note string, err error) {
	f, ok := forms[words[0]]
	if !ok {
		return req, "", withHint(fmt.Errorf("%s: no such operation", quote(words[0])), "one of "+strings.Join(explainable, ", "))
	}
	if len(words) > 2 && f.op == event.OpExec {
		req.Argv, words = words[1:], slices.Clone(words[:2])
	}
	if len(words)-1 != f.objects {
		return req, "", withHint(fmt.Errorf("%s takes %s", words[0], plural(f.objects, "object")),
			"reeve policy explain open FILE, or rename FROM TO, or connect ADDRESS:PORT")
	}
	words = atHome(words, env)
	req = event.Request{Op: f.op, Access: f.access, Flags: f.flags, Mode: 0o644, Argv: req.Argv}
	absent := ""
	switch f.op {
	case event.OpConnect, event.OpSend, event.OpBind:
		req.Object, err = socketObject(words[1], cwd, f.op)
		return req, "", err
	case event.OpExec:
		path, err := session.LookCommand(words[1], cwd, env)
		var failed *session.CommandError
		if errors.As(err, &failed) && strings.Contains(words[1], "/") {
			path, err = words[1], nil // not there, or no program: ask all the same
		}
		if failed != nil && failed.Status == statusNotFound && !strings.Contains(words[1], "/") {
			path, err = "/usr/bin/"+words[1], nil
			absent = "not on the PATH: judged as if it stood in /usr/bin"
		}
		if err != nil {
			return req, "", err
		}
		if req.Task.Cwd = cwd; req.Argv == nil {
			req.Argv = []string{words[1]}
		}
		words[1] = path
	case event.OpSymlink:
		// The text of a symlink is no object: only where it is made counts.
		req.Object = event.Object{Kind: event.ObjectSymlink, Path: words[1], Raw: words[1]}
		req.Target, note = fileObject(words[2], cwd, true)
		return req, note, nil
	}
	if req.Object, note = fileObject(words[1], cwd, f.name); absent != "" {
		note = absent
	}
	if f.objects == 2 {
		req.Target, _ = fileObject(words[2], cwd, true)
	}
	if f.access&event.AccessCreate == 0 && req.Object.Kind == event.ObjectMissing {
		// What would be decided if it were there is the question.
		req.Object.Kind = event.ObjectFile
		note = cmp.Or(absent, "nothing stands there now")
	}
	return req, note, nil
}

// atHome gives "~/" its meaning in objects, as in policies, where the shell has not.
func atHome(words, env []string) []string {
	words = slices.Clone(words)
	for _, e := range env {
		home, is := strings.CutPrefix(e, "HOME=")
		for i := 1; is && home != "" && i < len(words); i++ {
			if rest, below := strings.CutPrefix(words[i], "~/"); below {
				words[i] = home + "/" + rest
			}
		}
	}
	return words
}

// fileObject resolves a path as the kernel would for a task in cwd.
func fileObject(name, cwd string, ownName bool) (event.Object, string) {
	path := name
	if !filepath.IsAbs(path) {
		path = cwd + "/" + path
	}
	resolved, note := resolve(path, !ownName)
	o := event.Object{Kind: event.ObjectMissing, Path: resolved}
	if name != resolved {
		o.Raw = name
	}
	var st unix.Stat_t
	if unix.Lstat(resolved, &st) == nil {
		o.Kind, o.Dev, o.Ino, o.Mode = kindOf(st.Mode), st.Dev, st.Ino, st.Mode
	}
	return o, note
}

// mostLinks is how many symlinks the kernel follows (path_resolution(7)).
const mostLinks = 40

// resolve follows the symlinks of a path whose last component need not exist: a
// link that leads nowhere yet leads to where an open would make the file.
func resolve(path string, follow bool) (resolved, note string) {
	for range mostLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return filepath.Clean(path), "its directory cannot be resolved: " + err.Error()
		}
		path = filepath.Join(dir, filepath.Base(path))
		target, err := os.Readlink(path)
		if err != nil || !follow {
			return path, ""
		}
		if path = target; !filepath.IsAbs(target) {
			path = dir + "/" + target
		}
	}
	return filepath.Clean(path), "too many symlinks"
}

func kindOf(mode uint32) event.ObjectKind {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return event.ObjectDir
	case unix.S_IFLNK:
		return event.ObjectSymlink
	case unix.S_IFIFO:
		return event.ObjectFIFO
	case unix.S_IFSOCK:
		return event.ObjectSocket
	case unix.S_IFCHR, unix.S_IFBLK:
		return event.ObjectDevice
	}
	return event.ObjectFile
}

// socketObject is an address: a path, @name, or ADDRESS:PORT.
func socketObject(text, cwd string, op event.Op) (event.Object, error) {
	proto := "tcp"
	if op == event.OpSend {
		proto = "udp"
	}
	switch {
	case strings.HasPrefix(text, "@"):
		return event.Object{Kind: event.ObjectAbstract, Path: text[1:], Family: unix.AF_UNIX, Proto: "unix"}, nil
	case strings.Contains(text, "/"):
		o, _ := fileObject(text, cwd, op == event.OpBind)
		if o.Family, o.Proto = unix.AF_UNIX, "unix"; o.Kind == event.ObjectMissing && op != event.OpBind {
			o.Kind = event.ObjectSocket
		}
		return o, nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return event.Object{}, withHint(fmt.Errorf("%s is no address with a port", quote(text)),
			"like 192.0.2.1:443, [2001:db8::1]:443, /run/some.socket or @abstract; rules of this version are about addresses, not names")
	}
	family := uint16(unix.AF_INET)
	if a.Addr().Is6() && !a.Addr().Is4In6() {
		family = unix.AF_INET6
	}
	return event.Object{Kind: event.ObjectAddr, Addr: a.Addr().Unmap().String(), Port: a.Port(), Family: family, Proto: proto}, nil
}

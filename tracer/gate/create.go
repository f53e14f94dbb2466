package gate

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// openScoped is openFile with O_CREAT and restrictions on the look-up, which are
// about the whole path. A dangling link is not created through: it would have to
// be followed under them.
func (w *worker) openScoped(out outcome, o opening) (outcome, error) {
	flags := o.flags
	if flags&unix.O_EXCL != 0 {
		flags |= unix.O_NOFOLLOW // a link that is there is enough to fail
	}
	p, err := w.view.Resolve(o.dirfd, o.path, flags, o.how)
	switch {
	case err == nil && o.flags&unix.O_EXCL != 0:
		out.req.Object = p.Object(o.path)
		p.Close()
		return out, unix.EEXIST
	case err == nil && p.Dir():
		out.req.Object = p.Object(o.path)
		p.Close()
		return out, unix.EISDIR
	case err == nil:
		return w.openExisting(out, p, o)
	case err != unix.ENOENT:
		return out, err
	}
	name, err := w.entry(o.dirfd, o.path, o.how)
	if err != nil {
		return out, err
	}
	obj := name.Object(o.path)
	if obj.Kind != event.ObjectMissing || strings.HasSuffix(name.Last, "/") || name.Last == ".." {
		name.Close()
		return out, unix.ELOOP
	}
	return w.openNew(out, name, obj, o)
}

// lockTree takes the tree lock; the receiver does not wait for it.
func (w *worker) lockTree() bool {
	if w.inline {
		w.holdsTree = w.g.tree.TryLock()
		return w.holdsTree
	}
	w.g.tree.Lock()
	w.holdsTree = true
	return true
}

func (w *worker) unlockTree() {
	w.holdsTree = false
	w.g.tree.Unlock()
}

// maxLinks is the kernel's limit of symbolic links in one look-up.
const maxLinks = 40

func (w *worker) dangling(name *proc.Name) (proc.Name, error) {
	var buf [proc.PathMax]byte
	n, err := unix.Readlinkat(name.Parent.FD, name.Last, buf[:])
	if err == unix.EINVAL || err == unix.ENOENT { // it is no link any more: look again
		return w.view.EntryFrom(name.Parent.FD, name.Last)
	}
	if err != nil {
		return proc.Name{}, err
	}
	return w.view.EntryFrom(name.Parent.FD, string(buf[:n]))
}

// openNew makes a file. It is always made exclusively, so that nothing that
// appears under the name meanwhile is opened unjudged, or blocks.
func (w *worker) openNew(out outcome, name proc.Name, obj event.Object, o opening) (outcome, error) {
	out.req.Op, out.req.Object = event.OpCreate, obj
	out.req.Access |= event.AccessCreate | event.AccessWrite
	if !w.lockTree() {
		name.Close()
		return out, proc.ErrBlocks
	}
	release := func() {
		w.unlockTree()
		name.Close()
	}
	out.d = w.decide(&out.req)
	if w.continues(Write) || out.d.Action != event.ActionAllow {
		release()
		return out, nil
	}
	out.undo = release
	request, d := out.req, out.d
	out.act = func() answer {
		defer release()
		if err := w.freshUmask(); err != nil {
			return failedHere(err.Error())
		}
		if w.th.TableFull() {
			return answer{errno: unix.EMFILE} // or the file would be there, and nobody have it
		}
		fd, err := perform.Create(name.Parent.FD, name.Last, o.flags, o.mode)
		if err == unix.EEXIST && o.flags&unix.O_EXCL == 0 {
			return answer{again: true} // somebody else made it meanwhile
		}
		if err == nil {
			w.created(&name.Parent, fd, d.Secret)
			w.began(&request, d, fd)
		}
		if err == nil && d.GuardContent {
			return w.draft(&request, name.Parent.FD, fd, o)
		}
		return opened(fd, err, o.flags)
	}
	return out, nil
}

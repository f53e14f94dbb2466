package gate

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// repos are the repositories that this session made: the inodes of the
// directories it created, by which git's own writes of settings are told from
// changes to a repository that was there before.
type repos struct {
	mu   sync.Mutex // guards dirs
	dirs map[FileID]struct{}
}

// maxRepos bounds the memory; beyond it a repository counts as not ours, which
// protects more.
const maxRepos = 1 << 16

// made remembers a directory that was just created under the tree lock.
func (r *repos) made(n *proc.Name) {
	var st unix.Stat_t
	if unix.Fstatat(n.Parent.FD, strings.TrimRight(n.Last, "/"), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirs == nil {
		r.dirs = map[FileID]struct{}{}
	}
	if len(r.dirs) < maxRepos {
		r.dirs[FileID{st.Dev, st.Ino}] = struct{}{}
	}
}

func (r *repos) has(id FileID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.dirs[id]
	return ok
}

// forget takes back a directory that was removed: its inode number may be used
// again by somebody else.
func (r *repos) forget(id FileID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.dirs, id)
}

// born says whether the repository that an object belongs to was made by this
// session. That its parts were not moved in from elsewhere is for the policy to
// see to: a protected path is not renamed.
//
// It is asked about the new name of a rename, but about what is moved when that
// is a repository or a part of its administration: a repository that stood before
// does not become the session's by being moved into a directory that is.
func (g *Gate) born(req *event.Request) bool {
	path := req.Object.Path
	moved := req.Op == event.OpRename && req.Object.Kind == event.ObjectDir
	switch {
	case moved && strings.HasSuffix(path, ".git"):
		return g.repos.has(FileID{req.Object.Dev, req.Object.Ino})
	case moved && len(adminDirs(path)) > 0:
	case req.Target.Path != "":
		path = req.Target.Path
	}
	inside := false
	for _, dir := range adminDirs(path) {
		inside = true
		if g.repos.bornDir(dir) {
			return true
		}
	}
	if inside {
		return false
	}
	// A file of a work tree: it belongs to the nearest repository above it.
	for top, dir := path, parentDir(path); dir != ""; top, dir = dir, parentDir(dir) {
		var st unix.Stat_t
		if unix.Lstat(dir+"/.git", &st) == nil {
			return g.repos.has(FileID{st.Dev, st.Ino}) && (g.repos.bornDir(dir) || g.repos.fresh(top))
		}
	}
	return false
}

// fresh reports whether what is called top was not there before the session: a
// directory that it made, or nothing yet. "git init" in a directory that was there
// makes a repository, and does not make the session's own what else lies in it, such
// as the settings of an editor or of another version control. Of a file it is not
// known who made it.
func (r *repos) fresh(top string) bool {
	var st unix.Stat_t
	return unix.Lstat(top, &st) == unix.ENOENT || r.bornDir(top)
}

func (r *repos) bornDir(dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil && r.has(FileID{st.Dev, st.Ino})
}

// adminDirs are the directories of which one must be the session's own for an
// object inside a repository to be: the repository itself (".git", "x.git"), the
// administration of a linked work tree in it, and for a ".git" that is a file
// the work tree that it stands in.
func adminDirs(path string) []string {
	var out []string
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i > 0; i-- {
		dir := strings.Join(parts[:i+1], "/")
		switch {
		case i == len(parts)-1 && parts[i] == ".git":
			out = append(out, strings.Join(parts[:i], "/"))
		case i < len(parts)-1 && strings.HasSuffix(parts[i], ".git"):
			out = append(out, dir)
		case i < len(parts)-1 && i > 1 && parts[i-1] == "worktrees" && strings.HasSuffix(parts[i-2], ".git"):
			out = append(out, dir)
		}
	}
	return out
}

func parentDir(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return ""
	}
	return path[:i]
}

// maxSettings is how large a guarded settings file may be.
const maxSettings = 1 << 20

// moveChecked moves a settings file into place after its content was judged. A
// descriptor that the task may still hold on the old file must not be able to
// change what was judged, so a fresh copy takes its place. change says that it is the
// change that counts, and not all that the file says.
func (w *worker) moveChecked(req *event.Request, p *pair, change bool) answer {
	if req.Flags&unix.RENAME_NOREPLACE != 0 && req.Target.Kind != event.ObjectMissing {
		return answer{errno: unix.EEXIST}
	}
	content, mode, err := readSettings(p.from.Parent.FD, p.from.Last)
	if err != nil {
		return done(err)
	}
	d := event.Decision{}
	if !change {
		d = w.m.Decider.CheckContent(req, content)
	} else if d, mode, err = w.checkChange(req, p, content); err != nil {
		return done(err)
	}
	switch {
	case d.Action == event.ActionAllow:
	case change && req.Settings == digest(content): // somebody said yes to it
	case change:
		return answer{again: true}
	default:
		return answer{errno: denyErrno(d), denied: &d}
	}
	if err := w.freshUmask(); err != nil {
		return failedHere(err.Error())
	}
	// The copy is made unnamed, so that no other task can open it for writing.
	fd, err := perform.Tmpfile(p.to.Parent.FD, unix.O_TMPFILE|unix.O_WRONLY, mode)
	if err != nil {
		return done(err)
	}
	f := os.NewFile(uintptr(fd), "settings")
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return done(err)
	}
	if err := f.Chmod(os.FileMode(mode)); err != nil {
		return done(err)
	}
	// link(2) does not replace: the copy takes the old file's name for a moment,
	// under the tree lock, and is renamed from there.
	if err := perform.Unlink(p.from.Parent.FD, p.from.Last, 0); err != nil {
		return done(err)
	}
	if err := unix.Linkat(unix.AT_FDCWD, proc.SelfPath(fd), p.from.Parent.FD, p.from.Last, unix.AT_SYMLINK_FOLLOW); err != nil {
		return done(err)
	}
	err = perform.Rename(p.from.Parent.FD, p.from.Last, p.to.Parent.FD, p.to.Last, uint(req.Flags))
	if err == nil { // both files are gone
		w.g.acts.forget(&req.Object)
		w.g.acts.forget(&req.Target)
	}
	return done(err)
}

// keepsSettings is the decision about a rename over a settings file that asks, unless
// the file says the same then but for what may change: d, with what else would. change is
// not set where that cannot be told.
func (w *worker) keepsSettings(req *event.Request, p *pair, d event.Decision) (_ event.Decision, change bool) {
	content, _, err := readSettings(p.from.Parent.FD, p.from.Last)
	if err != nil {
		return d, false
	}
	kept, _, err := w.checkChange(req, p, content)
	switch {
	case err != nil:
		return d, false
	case kept.Action != event.ActionAllow:
		d.Reason += "; " + kept.Reason
		req.Settings = digest(content)
		return d, true
	}
	kept.GuardContent = true
	return kept, true
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return string(sum[:])
}

// checkChange judges what is to replace a settings file by what that says, and says
// what mode it has: it is for git's user to open it to others.
func (w *worker) checkChange(req *event.Request, p *pair, content []byte) (event.Decision, uint32, error) {
	was, mode, err := readSettings(p.to.Parent.FD, p.to.Last)
	if err != nil {
		return event.Decision{}, 0, err
	}
	return w.m.Decider.CheckChange(req, was, content), mode, nil
}

// readSettings reads a regular file, and says what its permissions are.
func readSettings(dir int, name string) (content []byte, mode uint32, err error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, unix.EACCES
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return nil, 0, err
	}
	if len(b) > maxSettings {
		return nil, 0, errors.Join(unix.EFBIG)
	}
	return b, st.Mode & 0o777, nil
}

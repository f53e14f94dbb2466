package gate

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// drafts are files that tasks are writing and whose content the decider wants to see
// first (Decision.GuardContent): a repository's settings, and what says where a
// repository is.
//
// A new file is made empty, and the task gets a descriptor of another, without a name:
// the draft. When nobody has the draft open for writing any more, which the kernel
// says by granting a lease, what it holds is judged, and if it may stand, written
// into the file. That is done before the next call of the session is served, so
// whoever looks through us finds the file as it was written; who only looks at its
// size (stat) may find it empty for a moment.
//
// Who holds what: the file's only descriptor for writing is ours, and by name it is
// opened for writing by nobody whom the policy has not let. Its name may be moved or
// removed meanwhile; the content follows the inode. Whoever keeps the draft open
// keeps the file empty; at the end of the session all that is left is judged. What
// may not stand is recorded as denied, and the file stays as it was.
type drafts struct {
	n    atomic.Int64
	mu   sync.Mutex // guards list, and one at a time looks through it
	list []*draft
}

type draft struct {
	file, text *os.File // what has the name, for writing; what was written, for reading
	req        event.Request
	start      time.Time
	m          *member
	owner      *proc.Creds // who may ask for a lease of the draft
}

// maxDrafts bounds the files that are being written at once.
const maxDrafts = 256

// draft gives the task a draft of the file that was just made for it in a directory, of
// which fd is the only descriptor.
func (w *worker) draft(req *event.Request, dir, fd int, o opening) answer {
	file := os.NewFile(uintptr(fd), "file")
	theirs, err := perform.Tmpfile(dir, draftFlags(o.flags), o.mode)
	if err != nil {
		return sealed(file, o.flags) // a file system without nameless files
	}
	return w.handDraft(req, file, theirs, o)
}

// redraft gives the task a draft of a file that is there.
func (w *worker) redraft(req *event.Request, p *proc.Pinned, o opening) answer {
	from, name := proc.Self(p.FD)
	fd, err := perform.ReopenNow(from, name, unix.O_RDWR)
	if err != nil {
		return opened(-1, err, o.flags)
	}
	file := os.NewFile(uintptr(fd), "file")
	dir, err := unix.Open(parentDir(p.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = file.Close()
		return opened(-1, err, o.flags)
	}
	defer unix.Close(dir)
	theirs, err := perform.Tmpfile(dir, draftFlags(o.flags), p.Stat.Mode&0o777)
	if err != nil {
		_ = file.Close()
		return opened(-1, err, o.flags)
	}
	if o.flags&unix.O_TRUNC == 0 {
		if err := copyText(theirs, file); err != nil {
			unix.Close(theirs)
			_ = file.Close()
			return opened(-1, err, o.flags)
		}
	}
	return w.handDraft(req, file, theirs, o)
}

// copyText fills a draft with what the file has.
func copyText(draft int, file *os.File) error {
	b, err := io.ReadAll(io.LimitReader(file, maxSettings+1))
	if err != nil {
		return err
	}
	if len(b) > maxSettings {
		return unix.EFBIG
	}
	_, err = unix.Pwrite(draft, b, 0)
	return err
}

// draftFlags are those to make a draft with. Nobody gives it a name: O_EXCL.
func draftFlags(flags int) int {
	return flags&^(unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW) | unix.O_TMPFILE | unix.O_EXCL
}

func (w *worker) handDraft(req *event.Request, file *os.File, theirs int, o opening) answer {
	dir, name := proc.Self(theirs)
	ours, err := perform.ReopenNow(dir, name, unix.O_RDONLY)
	if err != nil {
		unix.Close(theirs)
		return sealed(file, o.flags)
	}
	d := &draft{file: file, text: os.NewFile(uintptr(ours), "draft"), req: *req, start: w.start, m: w.m}
	if d.owner, err = w.th.MakerCreds(); err != nil {
		unix.Close(theirs)
		d.close()
		return failedHere(err.Error())
	}
	if !errors.Is(d.lease(), unix.EAGAIN) { // this file system would not tell when it is closed
		unix.Close(theirs)
		_ = d.text.Close()
		return sealed(file, o.flags)
	}
	if !w.g.drafts.add(d) {
		unix.Close(theirs)
		d.close()
		return answer{errno: unix.EAGAIN, denied: &event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.EAGAIN), Reason: "too many files with settings are being written"}}
	}
	return opened(theirs, nil, o.flags)
}

// sealed answers with a descriptor that can only read what was just made: it stays
// empty until something that is judged takes its place. Who only makes the file does
// not notice, who writes gets EBADF.
func sealed(file *os.File, flags int) answer {
	defer file.Close()
	dir, name := proc.Self(int(file.Fd()))
	const writes = unix.O_ACCMODE | unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC | unix.O_APPEND
	reader, err := perform.ReopenNow(dir, name, flags&^writes|unix.O_RDONLY)
	return opened(reader, err, flags)
}

func (l *drafts) add(d *draft) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) >= maxDrafts {
		return false
	}
	l.list = append(l.list, d)
	l.n.Store(int64(len(l.list)))
	return true
}

// any says whether somebody may be writing.
func (l *drafts) any() bool { return l.n.Load() > 0 }

// settle puts what has been written to an end in its place. Without an actor, at the
// end of the session, that is all there is.
func (g *Gate) settle(a *proc.Actor) {
	l := &g.drafts
	l.mu.Lock()
	defer l.mu.Unlock()
	var left []*draft
	for _, d := range l.list {
		if a != nil && (a.Become(d.owner) != nil || d.lease() != nil) {
			left = append(left, d)
			continue
		}
		denied, err := d.publish()
		if err != nil {
			denied = &event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.EIO), Reason: "what was written could not be put in its place: " + err.Error()}
		}
		if denied != nil {
			d.m.Recorder.Record(g.event(&d.req, *denied, d.start, denyErrno(*denied)))
		}
		d.close()
	}
	l.list = left
	l.n.Store(int64(len(left)))
}

// lease asks for a lease of the draft, and gives it back: EAGAIN says that somebody
// has it open for writing.
func (d *draft) lease() error {
	fd := d.text.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err
	}
	_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
	return err
}

// publish judges what was written, and writes it into the file.
func (d *draft) publish() (denied *event.Decision, err error) {
	content, err := io.ReadAll(io.LimitReader(io.NewSectionReader(d.text, 0, maxSettings+1), maxSettings+1))
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(d.text.Fd()), &st); err != nil {
		return nil, err
	}
	switch {
	case len(content) > maxSettings:
		return &event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.EFBIG), Reason: "the file is too long to be judged"}, nil
	case len(content) > 0:
		if d := d.m.Decider.CheckContent(&d.req, content); d.Action != event.ActionAllow {
			return &d, nil
		}
	}
	if err := unix.Ftruncate(int(d.file.Fd()), 0); err != nil {
		return nil, err
	}
	if _, err := unix.Pwrite(int(d.file.Fd()), content, 0); err != nil {
		return nil, err
	}
	// What the task said of the file by its descriptor, it said of the draft.
	if err := unix.Fchmod(int(d.file.Fd()), st.Mode&0o777); err != nil {
		return nil, err
	}
	return nil, unix.UtimesNanoAt(unix.AT_FDCWD, proc.SelfPath(int(d.file.Fd())), []unix.Timespec{st.Atim, st.Mtim}, 0)
}

func (d *draft) close() {
	_ = d.file.Close()
	_ = d.text.Close()
}

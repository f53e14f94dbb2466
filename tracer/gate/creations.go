package gate

import (
	"cmp"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// creations are the regular files that this session made: what it wrote itself is
// no secret of the host, so a decider may let it open them again under a name that
// is a secret's.
//
// A file counts as made here when the gate itself made it for a task: by an open
// that made the name (always with O_EXCL, so nothing that stood there is taken for
// new), or with O_TMPFILE. A file that was truncated, overwritten, renamed or linked
// does not become the session's by that, and one that it made stays so under any
// name. Directories never count, nor what mknod(2) makes, since there is no
// descriptor of it, nor what calls make that are let go on.
//
// A file is known by device and inode number and besides by what no later file
// with that number shares: its handle (name_to_handle_at(2)), in which file systems
// keep the inode's generation, and its time of birth, which nothing sets. Both must
// be the same; where a file system has not both its files do not count.
//
// # What may race with whom
//
//   - Tasks of the session with each other: they cannot. What is asked about is the
//     object that the request is about, by the numbers of the descriptor or entry
//     that will be acted on. The file is opened anew by its path to see its handle; if
//     a path leads elsewhere by then the numbers are others, and it does not count.
//     Open calls hold a descriptor meanwhile, so the number cannot be used again;
//     changes of names hold the tree lock, under which no task changes any.
//   - A host program that removes the session's file and makes its own: that has
//     another generation and another time of birth, whatever its number.
//   - A host program that renames its file over the session's between judgement
//     and act of a rename, link or removal: the name that was judged is acted on,
//     as of all names. An open is of the object that was judged.
//   - A host program that writes into the session's file: the inode stays the
//     same. What is changed later than ownLasts after the session got its last
//     descriptor to write, or changed the file by name, is taken for the host's, and
//     the file does not count from then on. What the host writes before that, or by
//     way of a descriptor that the session has kept open, it may read.
type creations struct {
	mu     sync.Mutex // guards what follows
	recent shelf      // files of ordinary names, that may be renamed soon
	kept   shelf      // those that were given a secret's name
}

const (
	// ownLasts is how long after the session could last begin to change a file a
	// change counts as its own: a program may take its time before it writes.
	ownLasts = time.Minute
	// maxRecent and maxKept bound what is remembered, the oldest is forgotten first.
	// What is forgotten is not the session's any more, which protects more.
	maxRecent, maxKept = 1 << 13, 1 << 12
)

// creation is a file that the session made.
type creation struct {
	stamp
	by      *member
	changed time.Time // when the session last began to change it
	seq     uint64
}

// stamp is what tells a file from all that ever have its number.
type stamp struct {
	born   int64 // ns of CLOCK_REALTIME
	handle string
}

// fidHandle is AT_HANDLE_FID: a handle that identifies, and need not be one to open by.
const fidHandle = 0x200

// stampOf looks at the file that fd is open on, of which O_PATH is enough, and says
// when it was last changed. ok is false for what is no regular file, or cannot be told
// from a later one.
func stampOf(fd int) (id FileID, s stamp, changed time.Time, ok bool) {
	const want = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_CTIME | unix.STATX_BTIME
	var x unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, want, &x) != nil ||
		x.Mask&want != want || x.Mode&unix.S_IFMT != unix.S_IFREG {
		return id, s, changed, false
	}
	h, err := handleOf(fd)
	if err != nil {
		return id, s, changed, false
	}
	s.handle = string(binary.NativeEndian.AppendUint32(h.Bytes(), uint32(h.Type())))
	s.born = x.Btime.Sec*int64(time.Second) + int64(x.Btime.Nsec)
	id = FileID{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino}
	return id, s, time.Unix(x.Ctime.Sec, int64(x.Ctime.Nsec)), true
}

func handleOf(fd int) (unix.FileHandle, error) {
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP { // an overlay; since Linux 6.6
		h, _, err = unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH|fidHandle)
	}
	return h, err
}

// tellsFiles reports whether a file that the session makes in a directory would be
// known again: its file system is asked by created, and tells each of its files from all
// that ever have its number.
func tellsFiles(dir string) bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, cmp.Or(dir, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if local, err := perform.Local(fd); err != nil || !local {
		return false
	}
	var x unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BTIME, &x) != nil || x.Mask&unix.STATX_BTIME == 0 {
		return false
	}
	_, err = handleOf(fd)
	return err == nil
}

// created remembers a file that was just made for the task in a directory, by a
// descriptor of it. secret says that its name is a secret's. A file system's server is
// not asked, and could say what it likes.
func (w *worker) created(in *proc.Pinned, fd int, secret bool) {
	if w.quick(in) {
		w.g.creations.made(fd, secret, w.m)
	}
}

func (c *creations) made(fd int, secret bool, by *member) {
	id, s, _, ok := stampOf(fd)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id) // whose number it was
	f := creation{stamp: s, by: by, changed: time.Now()}
	if secret {
		c.kept.put(id, f, maxKept)
	} else {
		c.recent.put(id, f, maxRecent)
	}
}

// known is what was last made with these numbers. Whether it is what has them now is
// to be looked at.
func (c *creations) known(id FileID) (creation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.kept.files[id]
	if !ok {
		f, ok = c.recent.files[id]
	}
	return f, ok
}

// changing notes that the session is about to change a file of a secret's name, or to
// give it one.
func (c *creations) changing(id FileID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.kept.files[id]
	if !ok {
		if f, ok = c.recent.files[id]; !ok {
			return
		}
		c.drop(id)
	}
	f.changed = time.Now()
	c.kept.put(id, f, maxKept)
}

// forget takes back a file that is gone, or the host's by now.
func (c *creations) forget(id FileID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id)
}

func (c *creations) drop(id FileID) {
	delete(c.recent.files, id)
	delete(c.kept.files, id)
}

// shelf holds a bounded number of files, the last ones that came.
type shelf struct {
	files map[FileID]creation
	order []place // a ring once it is full, which begins at next
	next  int
	seq   uint64
}

// place is when a file came. It is nobody's if the file went meanwhile.
type place struct {
	id  FileID
	seq uint64
}

// put adds a file, or changes what is known of it.
func (s *shelf) put(id FileID, f creation, most int) {
	if was, ok := s.files[id]; ok {
		f.seq = was.seq
		s.files[id] = f
		return
	}
	if s.files == nil {
		s.files = map[FileID]creation{}
	}
	s.seq++
	f.seq = s.seq
	s.files[id] = f
	at := place{id, f.seq}
	if len(s.order) < most {
		s.order = append(s.order, at)
		return
	}
	if old := s.order[s.next]; s.files[old.id].seq == old.seq {
		delete(s.files, old.id)
	}
	s.order[s.next] = at
	s.next = (s.next + 1) % most
}

// changesOwn notes what an allowed request is about to do to files that have, or get,
// a secret's name.
func (w *worker) changesOwn(req *event.Request) {
	const changes = event.AccessWrite | event.AccessCreate | event.AccessDelete | event.AccessMeta
	if req.Access&changes == 0 && req.Flags&unix.O_TRUNC == 0 {
		return
	}
	w.g.creations.changing(FileID{req.Object.Dev, req.Object.Ino})
	if req.Op == event.OpRename && req.Flags&unix.RENAME_EXCHANGE != 0 {
		w.g.creations.changing(FileID{req.Target.Dev, req.Target.Ino})
	}
}

// losesName notes, before it is done, that an entry is removed or replaced; gone is to be
// called once it is.
func (c *creations) losesName(n *proc.Name, o *event.Object) (gone func()) {
	id := FileID{o.Dev, o.Ino}
	if _, ok := c.known(id); !ok {
		return func() {}
	}
	var st unix.Stat_t
	if unix.Fstatat(n.Parent.FD, strings.TrimRight(n.Last, "/"), &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Nlink > 1 {
		return func() { c.changing(id) }
	}
	return func() { c.forget(id) }
}

package escapes_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// A slowFS is a FUSE file system of our own (linux/fuse.h, protocol 7.31) whose answers
// may take long. In its root stand "never1" and "never2", which are not opened until the task gives up,
// "late", which is after a moment, and whatever is looked up below "lost", which is not
// found until then; no directory is made until then, either.
type slowFS struct {
	fd int

	mu      sync.Mutex      // guards held
	held    map[uint64]bool // requests that wait
	waited  int             // how many did
	stopped int             // how many were given up
}

const (
	fuseLookup, fuseForget, fuseGetattr, fuseMkdir, fuseOpen, fuseRead, fuseRelease = 1, 2, 3, 9, 14, 15, 18
	fuseFlush, fuseInit, fuseInterrupt, fuseBatchForget                             = 25, 26, 36, 42
)

// fuseParallelDirs is FUSE_PARALLEL_DIROPS: without it one look-up in a directory waits
// for another, and for no signal.
const fuseParallelDirs = 1 << 18

const (
	nodeRoot = iota + 1
	nodeNever
	nodeLate
	nodeLost
)

const slowText = "ordinary\n"

// fuseHead is struct fuse_in_header.
type fuseHead struct {
	Len, Opcode    uint32
	Unique, Node   uint64
	UID, GID, PID  uint32
	ExtLen, Unused uint16
}

// fuseAttr is struct fuse_attr.
type fuseAttr struct {
	Ino, Size, Blocks, Atime, Mtime, Ctime                                   uint64
	AtimeNS, MtimeNS, CtimeNS, Mode, Nlink, UID, GID, Rdev, BlockSize, Flags uint32
}

// serve answers until the file system is unmounted.
func (s *slowFS) serve() {
	buf := make([]byte, 1<<17)
	for {
		n, err := unix.Read(s.fd, buf)
		if err == unix.EINTR || err == unix.ENOENT || err == unix.EAGAIN { // ENOENT: given up before we saw it
			continue
		}
		var h fuseHead
		if err != nil || binary.Read(bytes.NewReader(buf[:n]), binary.NativeEndian, &h) != nil {
			return
		}
		s.one(&h, buf[binary.Size(h):n])
	}
}

func (s *slowFS) one(h *fuseHead, body []byte) {
	switch h.Opcode {
	case fuseInit:
		s.answer(h.Unique, 0, []uint32{7, 31, 0, fuseParallelDirs, 0, 1 << 16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	case fuseLookup:
		s.lookup(h, string(bytes.TrimRight(body, "\x00")))
	case fuseGetattr:
		s.answer(h.Unique, 0, []uint64{0, 0}, attrOf(h.Node))
	case fuseMkdir:
		s.hold(h.Unique)
	case fuseOpen:
		switch h.Node {
		case nodeNever:
			s.hold(h.Unique)
		case nodeLate:
			time.AfterFunc(50*time.Millisecond, func() { s.answer(h.Unique, 0, []uint64{1, 0}) })
		}
	case fuseRead:
		offset := binary.NativeEndian.Uint64(body[8:])
		s.answer(h.Unique, 0, []byte(slowText[min(offset, uint64(len(slowText))):]))
	case fuseRelease, fuseFlush:
		s.answer(h.Unique, 0)
	case fuseForget, fuseBatchForget: // nobody waits
	case fuseInterrupt:
		s.giveUp(binary.NativeEndian.Uint64(body))
	default:
		s.answer(h.Unique, unix.ENOSYS)
	}
}

func (s *slowFS) lookup(h *fuseHead, name string) {
	node := map[string]uint64{"never1": nodeNever, "never2": nodeNever, "late": nodeLate, "lost": nodeLost}[name]
	switch {
	case h.Node == nodeLost:
		s.hold(h.Unique)
	case node == 0:
		s.answer(h.Unique, unix.ENOENT)
	default:
		s.answer(h.Unique, 0, []uint64{node, 0, 0, 0, 0}, attrOf(node)) // no time to live
	}
}

func attrOf(node uint64) fuseAttr {
	a := fuseAttr{Ino: node, Mode: unix.S_IFDIR | 0o755, Nlink: 2, BlockSize: 4096}
	if node == nodeNever || node == nodeLate {
		a.Mode, a.Nlink, a.Size = unix.S_IFREG|0o644, 1, uint64(len(slowText))
	}
	return a
}

func (s *slowFS) hold(unique uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[unique] = true
	s.waited++
}

// giveUp answers what was interrupted. An interrupt may come again.
func (s *slowFS) giveUp(unique uint64) {
	s.mu.Lock()
	was := s.held[unique]
	delete(s.held, unique)
	if was {
		s.stopped++
	}
	s.mu.Unlock()
	if was {
		s.answer(unique, unix.EINTR)
	}
}

func (s *slowFS) answer(unique uint64, errno unix.Errno, parts ...any) {
	var b bytes.Buffer
	for _, p := range append([]any{uint32(0), -int32(errno), unique}, parts...) {
		if err := binary.Write(&b, binary.NativeEndian, p); err != nil {
			panic(err)
		}
	}
	binary.NativeEndian.PutUint32(b.Bytes(), uint32(b.Len()))
	_, _ = unix.Write(s.fd, b.Bytes()) // ENOENT: it was given up meanwhile
}

// mountSlow mounts one at {ws}/slow, in a mount namespace of the calling thread, which
// its programs inherit.
func mountSlow(t *testing.T, g *trial.Ground) *slowFS {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		trial.Skip(t, "fuse", err.Error())
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		trial.Skip(t, "fuse", err.Error())
	}
	s, dir := &slowFS{fd: fd, held: map[uint64]bool{}}, g.Workspace+"/slow"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("slow", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)); err != nil {
		t.Fatalf("mount: %v", err)
	}
	var served sync.WaitGroup
	served.Go(s.serve)
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		served.Wait()
		unix.Close(fd)
	})
	return s
}

// TestSlowOpens: a file system that does not answer holds up the task that asks it, and
// nobody else; a signal ends the wait as it does natively (P29).
func TestSlowOpens(t *testing.T) {
	trial.NeedRoot(t)
	for _, c := range []struct{ name, path, profile string }{
		{"open", "{ws}/slow/never", ""}, {"open observed", "{ws}/slow/never", "observe"}, {"look-up", "{ws}/slow/lost/file", ""},
		{"mkdir", "{ws}/slow/made", ""}, // which holds up others that change names
	} {
		t.Run("P29/"+c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				const want = "waiting=2\nopen: ret=-1 errno=4\nkilled=9\nopen: ret=0 errno=0\ncontent: " + slowText
				argv := []string{"{victim}", "slow", c.path, "{ws}/slow/late", "{ok}"}
				if c.name == "mkdir" {
					argv = append(argv, "mkdir")
				}
				g := trial.NewGround(t, nobody)
				s := mountSlow(t, g)
				r := g.Native(trial.Options{}, argv...)
				if _, after, _ := strings.Cut(r.Stdout, "\n"); after != want || s.waited == 0 {
					t.Fatalf("control: %d waited: %s", s.waited, r.Text())
				}
				natively := s.waited
				r = g.Supervised(trial.Options{Profile: c.profile}, argv...)
				notHeldUp(t, c.name, r)
				if _, after, _ := strings.Cut(r.Stdout, "\n"); after != want {
					t.Errorf("got %s want %s", r.Text(), want)
				}
				for _, e := range trial.Denials(r.Events) {
					t.Errorf("denied: %v", &e)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.waited == natively || s.stopped != s.waited {
					t.Errorf("%d requests waited, natively %d of them; %d were given up, want all", s.waited, natively, s.stopped)
				}
			})
		})
	}
}

// Package proc reads a task as the kernel has it: who it is, what its arguments
// point to, and what its paths mean in its own view. Nothing here trusts a pid
// that it did not pin, or a string that it read twice.
package proc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// ErrGone says that a thread ended while we looked at it.
var ErrGone = errors.New("the task is gone")

// Thread is one thread of a session. It holds a descriptor of /proc/TID, which
// the kernel binds to this very thread: once it is dead every look-up through
// the descriptor fails, even when its number is in use again.
type Thread struct {
	TID, TGID, PPID int
	// ID is the process's identity, see event.Task.
	ID string

	dir  int          // O_PATH of /proc/TID
	refs atomic.Int32 // holders of dir: the table and whoever got the thread from it

	mu    sync.Mutex // guards what follows
	exe   string
	argv  []string
	argvN int
	// exeID is st_dev and inode of the program that was last seen to run.
	exeID ExeID
	// stale counts how many more looks must read exe and argv afresh: an execve
	// was let through and may or may not have happened yet.
	stale int
	// creds are the thread's file credentials; nil when they must be read.
	creds *Creds
	// looseUmask: a thread of the process called umask(2), so what was read of it
	// once is not it any more.
	looseUmask bool
}

// freshLooks is how many look-ups after an execve read the program afresh: the
// first one that a new image makes comes after the kernel replaced it.
const freshLooks = 4

// Retain keeps a thread that was got from a table until another Release.
func (th *Thread) Retain() { th.refs.Add(1) }

// Release gives back what Get returned.
func (th *Thread) Release() {
	if th.refs.Add(-1) == 0 {
		unix.Close(th.dir)
	}
}

func openThread(tid int) (*Thread, error) {
	if tid <= 0 {
		return nil, fmt.Errorf("name task %d: it is not visible in reeve's pid namespace", tid)
	}
	dir, err := unix.Open("/proc/"+strconv.Itoa(tid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, gone(fmt.Sprintf("open /proc/%d", tid), err)
	}
	th := &Thread{TID: tid, dir: dir, stale: 1}
	th.refs.Store(1)
	if err := th.identify(); err != nil {
		unix.Close(dir)
		return nil, err
	}
	return th, nil
}

// identify reads who the thread is. The start time is the thread group
// leader's, so that all threads of a process name the same task.
func (th *Thread) identify() error {
	status, err := th.ReadFile("status", 4096)
	if err != nil {
		return err
	}
	th.TGID = statusInt(status, "Tgid:")
	th.PPID = statusInt(status, "PPid:")
	if th.TGID == 0 {
		return fmt.Errorf("read /proc/%d/status: no Tgid line", th.TID)
	}
	stat, err := readAt(th.dir, "stat", 1024)
	if th.TGID != th.TID {
		stat, err = readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(th.TGID)+"/stat", 1024)
	}
	if err != nil {
		return err
	}
	start, err := startTime(stat)
	if err != nil {
		return fmt.Errorf("read /proc/%d/stat: %w", th.TGID, err)
	}
	th.ID = TaskID(th.TGID, start)
	th.creds = parseCreds(status)
	if !th.Alive() {
		return ErrGone
	}
	return nil
}

// Alive says whether the thread still exists (a zombie does).
func (th *Thread) Alive() bool {
	return unix.Faccessat(th.dir, "stat", unix.F_OK, 0) == nil
}

// Open opens what the thread's own /proc name is: "root", "cwd", "fd/3", "exe".
func (th *Thread) Open(name string, flags int) (int, error) {
	fd, err := unix.Openat(th.dir, name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, gone("open "+name+" of task "+strconv.Itoa(th.TID), err)
	}
	return fd, nil
}

// ReadFile reads up to most bytes of one of the thread's /proc files.
func (th *Thread) ReadFile(name string, most int) ([]byte, error) {
	return readAt(th.dir, name, most)
}

// Task is the thread as the stream names it. argv is included when asked for.
func (th *Thread) Task(argv bool) event.Task {
	exe, args, n := th.program()
	t := event.Task{ID: th.ID, PID: int32(th.TGID), TID: int32(th.TID), PPID: int32(th.PPID), Exe: exe}
	if argv {
		t.Argv, t.ArgvLen = args, uint32(n)
	}
	return t
}

// maxArgv is how many bytes of a command line are kept; its full length is
// stated when it is longer.
const maxArgv = 8192

func (th *Thread) program() (exe string, argv []string, cut int) {
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.stale > 0 {
		th.stale--
		th.exe, _ = readlinkAt(th.dir, "exe")
		th.exeID = statAt(th.dir, "exe")
		raw, _ := readAt(th.dir, "cmdline", maxArgv+1)
		th.argv, th.argvN = SplitArgv(raw, maxArgv)
	}
	return th.exe, th.argv, th.argvN
}

// SplitArgv splits NUL-terminated arguments. When raw is longer than most it is
// cut there and cut is the length of raw.
func SplitArgv(raw []byte, most int) (argv []string, cut int) {
	if len(raw) > most {
		cut, raw = len(raw), raw[:most]
	}
	s := strings.TrimSuffix(string(raw), "\x00")
	if s == "" && len(raw) == 0 {
		return nil, cut
	}
	return strings.Split(s, "\x00"), cut
}

func readAt(dir int, name string, most int) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, gone("open "+name, err)
	}
	defer unix.Close(fd)
	buf := make([]byte, most)
	n := 0
	for n < most {
		k, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, gone("read "+name, err)
		}
		if k == 0 {
			break
		}
		n += k
	}
	return buf[:n], nil
}

func readlinkAt(dir int, name string) (string, error) {
	var buf [4096]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", gone("read link "+name, err)
	}
	return string(buf[:n]), nil
}

// gone turns the errors of a task that ended into ErrGone.
func gone(what string, err error) error {
	if err == unix.ESRCH || err == unix.ENOENT {
		return fmt.Errorf("%s: %w (%v)", what, ErrGone, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ExeID names a program by st_dev and inode.
type ExeID struct{ Dev, Ino uint64 }

// ExeID is that of the program that the thread was last seen to run,
// before the exec that Changing announced.
func (th *Thread) ExeID() ExeID {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.exeID
}

// RunsNow is that of the program that the thread runs.
func (th *Thread) RunsNow() ExeID { return statAt(th.dir, "exe") }

func statAt(dir int, name string) ExeID {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, 0) != nil {
		return ExeID{}
	}
	return ExeID{st.Dev, st.Ino}
}

// Cwd is the thread's working directory, empty when it cannot be told.
func (th *Thread) Cwd() string {
	s, _ := readlinkAt(th.dir, "cwd")
	return s
}

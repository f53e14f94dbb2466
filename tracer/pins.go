package tracer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// What holds a tree, and what knows its tasks, lives as long as somebody has its
// descriptors: reeve, and init. So that tasks are not free where both are killed in one
// instant, it is pinned for the session's life, in a directory of its own that both hold
// locked. Hooks whose supervisor is gone refuse everything. A directory that nobody holds
// is that of a session which nobody ends any more: the next reeve of root does.

// pinRoot is where sessions have their directories.
const pinRoot = bpffs + "/reeve"

const bpffs = "/sys/fs/bpf"

// pins are one session's.
type pins struct {
	dir  string
	lock *os.File
}

// PinGap says what is lost where nothing can be pinned, nothing where it can.
func PinGap() []string {
	if err := pinnable(); err != nil {
		return []string{"kill -9 of reeve and of its init in one instant: the hooks are gone with both (" + err.Error() + ")"}
	}
	return nil
}

// pinnable makes pinRoot, if there is a place for it.
func pinnable() error {
	var st unix.Statfs_t
	if err := unix.Statfs(bpffs, &st); err != nil || st.Type != unix.BPF_FS_MAGIC {
		return errors.New("no file system for BPF is mounted at " + bpffs)
	}
	if err := os.Mkdir(pinRoot, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Whoever owns it could have made it, and take away what is in it.
	var own unix.Stat_t
	if err := unix.Lstat(pinRoot, &own); err != nil {
		return fmt.Errorf("look at %s: %w", pinRoot, err)
	}
	if own.Uid != 0 || own.Mode&unix.S_IFMT != unix.S_IFDIR || own.Mode&0o022 != 0 {
		return errors.New(pinRoot + " is not root's alone")
	}
	return nil
}

// newPins makes a session's directory, which nobody takes for left behind.
func newPins() (*pins, error) {
	if err := pinnable(); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		dir, err := os.MkdirTemp(pinRoot, "s") // the kernel allows no dots in names
		if err != nil {
			return nil, err
		}
		lock, err := lockPins(dir)
		if err == nil || try == maxPinTries {
			return &pins{dir, lock}, err
		}
	}
}

// maxPinTries is how often another reeve may take a directory for left behind before
// it is locked.
const maxPinTries = 3

// errHeld says that somebody holds a directory.
var errHeld = errors.New("somebody holds it")

// lockPins locks a directory that is there.
func lockPins(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		err = errHeld
	}
	if err == nil {
		_, err = os.Lstat(dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// remove takes the pins away; it may be called again, and for none.
func (p *pins) remove() error {
	if p == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(p.dir), p.lock.Close())
}

// pin pins what confines the session, and what knows its tasks.
func (s *Session) pin(l *Launcher) (err error) {
	if s.watch == nil {
		return nil
	}
	if s.pins, err = newPins(); err != nil {
		return nil //nolint:nilerr // PinGap says it
	}
	if err = s.watch.witness.Pin(s.pins.dir); err == nil && l.hooks != nil {
		err = l.hooks.Pin(s.pins.dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("pin what holds the session: %w", err), s.pins.remove())
	}
	return s.process.Pinned(s.pins.dir, int(s.pins.lock.Fd()))
}

// EndSurvivors ends the tasks of sessions of which nobody is left, and takes their pins
// away. It returns how many there were. The error names a session whose tasks do not end:
// they stay under its hooks. It needs root.
func EndSurvivors() (ended int, err error) {
	dirs, err := os.ReadDir(pinRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil {
		err = pinnable()
	}
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, d := range dirs {
		dir := filepath.Join(pinRoot, d.Name())
		lock, err := lockPins(dir)
		if errors.Is(err, errHeld) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			var n int
			n, err = endMarked(dir)
			ended += n
			if err == nil {
				err = os.RemoveAll(dir)
			}
			lock.Close()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("end what is left of the session pinned at %s: %w", dir, err))
		}
	}
	return ended, errors.Join(errs...)
}

// dying is how long killed tasks may take to end.
const dying = 5 * time.Second

// endMarked kills all tasks that are marked in a session's directory, until there are
// none.
func endMarked(dir string) (killed int, err error) {
	marks, err := witness.OpenMarks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // it had not begun
	}
	if err != nil {
		return 0, err
	}
	defer marks.Close()
	seen := map[int]bool{}
	for until := time.Now().Add(dying); ; time.Sleep(5 * time.Millisecond) {
		left, err := marked(marks)
		if err != nil || len(left) == 0 {
			return len(seen), err
		}
		if time.Now().After(until) {
			return len(seen), fmt.Errorf("%d tasks do not end, %d among them", len(left), left[0])
		}
		for _, pid := range left {
			seen[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// marked are the living processes that have a mark.
func marked(marks *witness.Marks) (pids []int, err error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		has, err := marks.Has(pid)
		if err != nil {
			return pids, err
		}
		if !has {
			continue
		}
		if _, dead := proc.ParentState(pid); !dead {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

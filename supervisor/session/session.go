// Package session is one supervised run as a thing on this machine: its id, its
// directory in the state, its manifest, the lock that says it is alive, its
// private temp directory and the environment its command starts with.
//
// The state directory belongs to reeve alone (0700) and looks like this:
//
//	reeve.db                       the default store
//	sessions/<ULID>/manifest.json  what was run, by whom, under which policy
//	sessions/<ULID>/lock           held (flock) while the session's reeve lives, and
//	                               until its init has saved what that one left
//	sessions/<ULID>/lost           how many records there are, if the stream lacks some
//	sessions/<ULID>/bus/           the stream, until all of it is in the store
//	sessions/<ULID>/rings…         what was in the kernel's rings when reeve was killed,
//	                               and what of it is in the stream: package ring
//	sessions/<ULID>/tmp/           scratch of reeve's own; no task may look inside
//
// A task's own temp directory lies outside the state, under the system's.
package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
)

// Config says what to make a session with. Time and randomness are given, so a
// test can repeat a session.
type Config struct {
	// Now is the session's start; Random feeds its id.
	Now    time.Time
	Random io.Reader
	// SystemTemp is the directory the private temp directory is made in; empty
	// means os.TempDir().
	SystemTemp string
	// TempOwner is who the private temp directory belongs to: the user the
	// command runs as. Nil means the user reeve runs as.
	TempOwner *Owner
	// Temp is the private temp directory of an outer session, which this one
	// shares: it is neither made nor removed.
	Temp string
	// MinFree is how many bytes must be free below the state before a session
	// may start; zero means DefaultMinFree.
	MinFree uint64
}

// Owner is a user and a group by number.
type Owner struct{ UID, GID int }

// DefaultMinFree is the space a session needs before it starts. A stream's file
// store allocates its first block at once, and an audit that stops after ten
// records is worse than a command that was not started.
const DefaultMinFree = 32 << 20

// Session is a live session of this process. It is not safe for use by several
// goroutines at once.
type Session struct {
	// ID is the ULID: sortable by start time.
	ID string
	// Dir is the session's directory in the state, TempDir the directory its
	// tasks use as TMPDIR.
	Dir, TempDir string

	lock   *os.File
	shared bool // TempDir is another session's
}

// BusDir is where the session's stream is kept until the store has it.
func (s *Session) BusDir() string { return filepath.Join(s.Dir, busName) }

// ScratchDir is reeve's own scratch space for this session.
func (s *Session) ScratchDir() string { return filepath.Join(s.Dir, scratchName) }

// Create makes a new session: its directory, its lock, its temp directory. When
// it returns an error nothing is left behind. It fails before anything else when
// the state has no room, so that no command starts whose record cannot be kept.
func (st *State) Create(cfg Config) (*Session, error) {
	minFree := cfg.MinFree
	if minFree == 0 {
		minFree = DefaultMinFree
	}
	if err := st.checkFree(minFree); err != nil {
		return nil, err
	}
	id, err := ulid.New(ulid.Timestamp(cfg.Now), cfg.Random)
	if err != nil {
		return nil, fmt.Errorf("make session id: %w", err)
	}
	s := &Session{ID: id.String(), Dir: st.dirOf(id.String())}
	if err := s.makeDir(); err != nil {
		return nil, fullDisk(fmt.Errorf("make session directory %s: %w", s.Dir, err))
	}
	if cfg.Temp != "" {
		s.TempDir, s.shared = cfg.Temp, true
		return s, nil
	}
	if err := s.makeTemp(cfg); err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s, nil
}

// makeDir builds the directory under a name that no other reeve looks at, takes
// the lock, and only then gives it its real name: a reeve that stores what
// crashed sessions left must never find a live session unlocked.
func (s *Session) makeDir() error {
	building := filepath.Join(filepath.Dir(s.Dir), buildingPrefix+s.ID)
	if err := os.Mkdir(building, 0o700); err != nil {
		return err
	}
	undo := func(err error) error { return errors.Join(err, os.RemoveAll(building)) }
	for _, sub := range []string{busName, scratchName} {
		if err := os.Mkdir(filepath.Join(building, sub), 0o700); err != nil {
			return undo(err)
		}
	}
	if err := makeLoss(building); err != nil {
		return undo(err)
	}
	lock, err := takeLock(filepath.Join(building, lockName))
	if err != nil {
		return undo(err)
	}
	if err := os.Rename(building, s.Dir); err != nil {
		return undo(errors.Join(err, lock.Close()))
	}
	s.lock = lock
	return nil
}

func (s *Session) makeTemp(cfg Config) error {
	base := cfg.SystemTemp
	if base == "" {
		base = os.TempDir()
	}
	// The policy speaks about resolved paths; TMPDIR should be one.
	base, err := filepath.EvalSymlinks(base)
	if err != nil {
		return fmt.Errorf("resolve temp directory: %w", err)
	}
	dir := filepath.Join(base, tempPrefix+s.ID)
	// Mkdir fails on anything that is already there, a planted symlink included.
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make session temp directory: %w", err)
	}
	s.TempDir = dir
	if cfg.TempOwner == nil {
		return nil
	}
	if err := os.Lchown(dir, cfg.TempOwner.UID, cfg.TempOwner.GID); err != nil {
		return errors.Join(fmt.Errorf("give away session temp directory: %w", err), os.Remove(dir))
	}
	return nil
}

// Discard undoes Create, for a session that did not start.
func (s *Session) Discard() error {
	return errors.Join(s.removeTemp(), os.RemoveAll(s.Dir), s.unlock())
}

// unlock gives up the lock, whoever holds its file besides us.
func (s *Session) unlock() error {
	return errors.Join(unix.Flock(int(s.lock.Fd()), unix.LOCK_UN), s.lock.Close())
}

// Keep is what a process holds that outlives this one on the session's behalf: the
// session's directory, which the caller closes, and the descriptor of the lock,
// which stays the session's. As long as it is held after our death, the session is
// alive for others.
func (s *Session) Keep() (dir *os.File, lock int, err error) {
	if dir, err = os.Open(s.Dir); err != nil {
		return nil, -1, fmt.Errorf("open session directory: %w", err)
	}
	return dir, int(s.lock.Fd()), nil
}

// Close ends the session on disk: it removes the temp directory with its content
// and, when stored says that the store has all of the stream, everything of the
// session but its manifest; then it gives up the lock. Close may be called once,
// when no task of the session lives any more.
func (s *Session) Close(stored bool) error {
	err := errors.Join(s.removeTemp(), os.RemoveAll(s.ScratchDir()))
	if stored {
		err = errors.Join(err, strip(s.Dir))
	}
	return errors.Join(err, s.unlock())
}

// strip removes what a stored session does not need: all but manifest and lock.
func strip(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clear session directory: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != manifestName && e.Name() != lockName {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func (s *Session) removeTemp() error {
	if s.shared {
		return nil
	}
	return removeTemp(s.TempDir)
}

// removeTemp deletes a session's temp directory. A tool may have left read-only
// directories in it (Go's module cache does), which their owner can open again.
func removeTemp(dir string) error {
	if dir == "" {
		return nil
	}
	err := os.RemoveAll(dir)
	if errors.Is(err, unix.EACCES) {
		//nolint:errcheck // RemoveAll below reports what could not be opened.
		filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() && err == nil {
				chmodDir(path)
			}
			return nil
		})
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("the session's temp directory is still there, remove it yourself: %w", err)
	}
	return nil
}

// chmodDir gives a directory back to its owner without following a symlink that was
// put in its place. It may be closed to everybody, so it is not opened for that.
func chmodDir(path string) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}

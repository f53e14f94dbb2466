package session

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
)

const (
	busName        = "bus"
	scratchName    = "tmp"
	lockName       = "lock"
	manifestName   = "manifest.json"
	sessionsName   = "sessions"
	storeName      = "reeve.db"
	buildingPrefix = ".new-"
	tempPrefix     = "reeve-"
)

// State is the directory in which reeve keeps all it knows on this machine.
type State struct {
	// Dir is absolute and resolved.
	Dir string
}

// DefaultStateDir is where the state lives when --state does not say: the value
// of $REEVE_STATE, else /var/lib/reeve for root, else $XDG_STATE_HOME/reeve, else
// ~/.local/state/reeve.
func DefaultStateDir(getenv func(string) string, uid int) (string, error) {
	if dir := getenv("REEVE_STATE"); dir != "" {
		return dir, nil
	}
	if uid == 0 {
		return "/var/lib/reeve", nil
	}
	// The XDG specification tells to ignore a relative value.
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "reeve"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "reeve"), nil
	}
	return "", withHint(errors.New("find state directory: neither $XDG_STATE_HOME nor $HOME is set"),
		"name one with --state DIR or $REEVE_STATE")
}

// OpenState opens the state directory, making it (0700) when it is not there. It
// refuses a directory of somebody else's, and one that others can look into:
// whoever can write there could change what is on record, and reeve does not
// take rights away from a directory that it was merely pointed at.
func OpenState(dir string) (*State, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fullDisk(withHint(fmt.Errorf("make state directory: %w", err),
			"name another one with --state DIR or $REEVE_STATE"))
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("resolve state directory: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	sessions := filepath.Join(dir, sessionsName)
	if err := os.Mkdir(sessions, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fullDisk(fmt.Errorf("make state directory: %w", err))
	}
	if err := checkPrivate(sessions); err != nil {
		return nil, err
	}
	return &State{Dir: dir}, nil
}

func checkPrivate(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("open state directory %s: %w", dir, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("open state directory %s: %w", dir, unix.ENOTDIR)
	case int(st.Uid) != os.Geteuid():
		return withHint(fmt.Errorf("open state directory %s: it belongs to uid %d", dir, st.Uid),
			"name a directory of your own with --state DIR or $REEVE_STATE")
	case st.Mode&0o077 != 0:
		return withHint(fmt.Errorf("open state directory %s: others may enter it (mode %#o)", dir, st.Mode&0o7777),
			"chmod 700 "+dir+", or name another directory with --state DIR")
	}
	return nil
}

// StoreURL is the address of the default store.
func (st *State) StoreURL() string {
	return (&url.URL{Scheme: "sqlite", Path: filepath.Join(st.Dir, storeName)}).String()
}

func (st *State) sessionsDir() string { return filepath.Join(st.Dir, sessionsName) }

// SessionDir is the directory of a session.
func (st *State) SessionDir(id string) string { return st.dirOf(id) }

func (st *State) dirOf(id string) string { return filepath.Join(st.sessionsDir(), id) }

// Sessions lists the ids of all sessions in the state, oldest first.
func (st *State) Sessions() ([]string, error) {
	entries, err := os.ReadDir(st.sessionsDir())
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && isID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Pending are the sessions whose stream is not known to be in the store: those
// that run, and what crashed ones left. It only looks for the stream's directory,
// so it is cheap however many sessions there were.
func (st *State) Pending() ([]string, error) {
	ids, err := st.Sessions()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ids, func(id string) bool {
		for _, name := range []string{busName, scratchName} {
			if _, err := os.Lstat(filepath.Join(st.dirOf(id), name)); !errors.Is(err, os.ErrNotExist) {
				return false
			}
		}
		return true
	}), nil
}

// isID keeps names that are no session, and paths, away from the file system.
func isID(s string) bool {
	_, err := ulid.ParseStrict(s)
	return err == nil
}

// ParseID is the canonical form of a session id as a person may type it; the
// error says what was expected.
func ParseID(s string) (string, error) {
	id, err := ulid.ParseStrict(strings.ToUpper(s))
	if err != nil {
		return "", fmt.Errorf("%q is not a session id (26 letters and digits, see `reeve sessions`)", s)
	}
	return id.String(), nil
}

func (st *State) checkFree(minFree uint64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(st.Dir, &fs); err != nil {
		return fmt.Errorf("look at state directory %s: %w", st.Dir, err)
	}
	free := fs.Bavail * uint64(fs.Bsize)
	hint := "free some space there, remove old sessions with `reeve sessions rm`, or name another --state DIR"
	if free < minFree {
		return withHint(fmt.Errorf("state directory %s: %d MiB free, %d MiB needed to record a session: %w",
			st.Dir, free>>20, minFree>>20, unix.ENOSPC), hint)
	}
	// Some file systems count no inodes and state zero for both.
	if fs.Files > 0 && fs.Ffree < 16 {
		return withHint(fmt.Errorf("state directory %s: no inodes left: %w", st.Dir, unix.ENOSPC), hint)
	}
	return nil
}

package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLive says that a session's reeve is still running.
var ErrLive = errors.New("session is still running")

// takeLock takes the lock file. The kernel gives it up when the last descriptor
// is closed, so it ends with its process however that ends; the descriptor is
// close-on-exec, so no task inherits it.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLive
	}
	return nil, errors.Join(err, f.Close())
}

// Claim is a dead session in our hands: while it is held, no other reeve stores
// or removes what the session left.
type Claim struct {
	ID, Dir string
	lock    *os.File
}

// Claim takes a session that nobody runs any more. The error is ErrLive when
// somebody does, os.ErrNotExist when the state has no such session.
func (st *State) Claim(id string) (*Claim, error) {
	if !isID(id) {
		return nil, fmt.Errorf("claim session %q: %w", id, os.ErrNotExist)
	}
	dir := st.dirOf(id)
	if _, err := os.Lstat(dir); err != nil {
		return nil, fmt.Errorf("claim session %s: %w", id, err)
	}
	lock, err := takeLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("claim session %s: %w", id, err)
	}
	return &Claim{ID: id, Dir: dir, lock: lock}, nil
}

// Live says whether the session's reeve is still running.
func (st *State) Live(id string) bool {
	c, err := st.Claim(id)
	if err != nil {
		return errors.Is(err, ErrLive)
	}
	_ = c.Release()
	return false
}

// BusDir is the claimed session's stream; HasBus says whether there still is one.
func (c *Claim) BusDir() string { return filepath.Join(c.Dir, busName) }

// HasBus says whether the session left a stream that is not known to be stored.
func (c *Claim) HasBus() bool {
	entries, err := os.ReadDir(c.BusDir())
	return err == nil && len(entries) > 0
}

// Manifest is that of the session.
func (c *Claim) Manifest() (Manifest, error) { return readManifest(filepath.Join(c.Dir, manifestName)) }

// Unclean says that the session did not end in order: its scratch space, which
// Close removes, is still there.
func (c *Claim) Unclean() bool {
	_, err := os.Lstat(filepath.Join(c.Dir, scratchName))
	return err == nil
}

// Stored says that the store has all of the session's stream: it removes the
// stream, and what else a crashed session left.
func (c *Claim) Stored() error {
	return errors.Join(strip(c.Dir), c.removeTemp())
}

// removeTemp deletes the temp directory that the manifest names, if its name is
// one that Create gives: a manifest is data, not an order to delete any path.
func (c *Claim) removeTemp() error {
	m, err := readManifest(filepath.Join(c.Dir, manifestName))
	if err != nil {
		return nil //nolint:nilerr // No readable manifest, no known temp directory.
	}
	if filepath.Base(m.TempDir) != tempPrefix+c.ID {
		return nil
	}
	return removeTemp(m.TempDir)
}

// Remove deletes the session's directory and gives up the claim.
func (c *Claim) Remove() error {
	err := errors.Join(c.removeTemp(), os.RemoveAll(c.Dir))
	return errors.Join(err, c.lock.Close())
}

// Release gives up the claim.
func (c *Claim) Release() error { return c.lock.Close() }

// Prune removes the directories of dead sessions for which keep says no. It
// never touches one whose stream is not in the store yet. The store's own
// retention decides what keep says. What a reeve left that died while it made a
// session's directory goes too, once it is an hour older than now.
func (st *State) Prune(now time.Time, keep func(id string) bool) (removed []string, err error) {
	ids, err := st.Sessions()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, id := range ids {
		if keep(id) {
			continue
		}
		c, err := st.Claim(id)
		switch {
		case errors.Is(err, ErrLive), errors.Is(err, os.ErrNotExist):
		case err != nil:
			errs = append(errs, err)
		case c.HasBus():
			errs = append(errs, c.Release())
		default:
			if err := c.Remove(); err != nil {
				errs = append(errs, err)
				continue
			}
			removed = append(removed, id)
		}
	}
	return removed, errors.Join(append(errs, st.sweep(now))...)
}

// youngest is the age below which a directory may still be in the making.
const youngest = time.Hour

func (st *State) sweep(now time.Time) error {
	entries, err := os.ReadDir(st.sessionsDir())
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	var errs []error
	for _, e := range entries {
		id, building := strings.CutPrefix(e.Name(), buildingPrefix)
		if !building || !isID(id) {
			continue
		}
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < youngest {
			continue
		}
		errs = append(errs, os.RemoveAll(filepath.Join(st.sessionsDir(), e.Name())))
	}
	return errors.Join(errs...)
}

package bus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLive says that another process has the directory open: a session that is
// still running, or a reeve that is just collecting what it left.
var ErrLive = errors.New("it is in use by another process")

const (
	lockName      = "lock"
	removedSuffix = ".removed"
)

// dirLock is an exclusive flock on a file in a directory. The kernel drops it
// with the process, however that ends.
type dirLock struct{ f *os.File }

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLive
	}
	if err == nil {
		// The directory may have been removed and made again meanwhile.
		err = sameFile(f, path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &dirLock{f}, nil
}

func sameFile(f *os.File, path string) error {
	a, err := f.Stat()
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	b, err := os.Lstat(path)
	if err != nil || !os.SameFile(a, b) {
		return ErrLive
	}
	return nil
}

func (l *dirLock) release() error { return l.f.Close() }

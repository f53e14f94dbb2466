package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lossName is a file of a session's directory with a number in it: how many records
// there should be. It is made with the session, at its full length, since what
// loses records is as a rule a disk that has no room for anything new.
const (
	lossName   = "lost"
	lossDigits = 20
)

func lossText(n uint64) string { return fmt.Sprintf("%0*d\n", lossDigits, n) }

func makeLoss(dir string) error {
	return os.WriteFile(filepath.Join(dir, lossName), []byte(lossText(0)), 0o600)
}

// NoteLoss states how many records the session made, where its stream has not taken
// all of them: the next reeve records how many it lacks.
func (s *Session) NoteLoss(n uint64) error {
	f, err := os.OpenFile(filepath.Join(s.Dir, lossName), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("note what is lost: %w", err)
	}
	_, err = f.WriteAt([]byte(lossText(n)), 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("note that %d records were made: %w", n, err)
	}
	return nil
}

// Made is what NoteLoss stated, 0 if nothing.
func (c *Claim) Made() (uint64, error) {
	text, err := readOwn(filepath.Join(c.Dir, lossName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read what is lost: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read what is lost: %s: not a number", filepath.Join(c.Dir, lossName))
	}
	return n, nil
}

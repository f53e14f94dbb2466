package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// The bounds of what is mirrored: the start of a session must not wait for a
// large cache, of which then only the directory is linked, to be read.
const (
	mirrorEntries = 4000
	mirrorCopy    = 16 << 10 // smaller files are copied, larger ones linked
)

// Seed puts what tools read of the host's caches into the private ones in the
// temp directory, before any task of the session lives. The directories belong to
// owner, if there is one, since the tools write into them.
func (s *Session) Seed(links []policy.CacheLink, owner *Owner) error {
	for _, l := range links {
		below, ok := strings.CutPrefix(l.Name, s.TempDir+"/")
		if !ok || filepath.Clean(l.Name) != l.Name {
			return fmt.Errorf("bug: cache link %s is outside the session's temp directory", l.Name)
		}
		if err := s.makeParents(filepath.Dir(below), owner); err != nil {
			return fullDisk(fmt.Errorf("make private cache: %w", err))
		}
		if err := mirror(l.Target, l.Name, owner); err != nil {
			return fullDisk(fmt.Errorf("make private cache: %w", err))
		}
	}
	return nil
}

// mirror makes name a directory like target: its directories are made, its small
// files copied, since tools append to their indexes, and its large ones linked.
func mirror(target, name string, owner *Owner) error {
	entries, whole := list(target)
	if !whole {
		return os.Symlink(target, name)
	}
	for _, e := range entries {
		to := filepath.Join(name, e.below)
		var err error
		switch {
		case e.info.IsDir():
			err = os.Mkdir(to, 0o700)
		case e.info.Mode().IsRegular() && e.info.Size() <= mirrorCopy:
			err = copyFile(filepath.Join(target, e.below), to)
		case e.info.Mode().IsRegular():
			err = os.Symlink(filepath.Join(target, e.below), to)
		default:
			continue
		}
		if err == nil && owner != nil {
			err = os.Lchown(to, owner.UID, owner.GID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type entry struct {
	below string
	info  os.FileInfo
}

var errLarge = errors.New("larger than what is mirrored")

// list walks dir, parents first; whole is false when it is too large, or not
// there, or cannot be read.
func list(dir string) (entries []entry, whole bool) {
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if len(entries) >= mirrorEntries {
			return errLarge
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		entries = append(entries, entry{below, info})
		return nil
	})
	return entries, err == nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

func (s *Session) makeParents(below string, owner *Owner) error {
	dir := s.TempDir
	for _, part := range strings.Split(below, "/") {
		dir = filepath.Join(dir, part)
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if owner != nil {
			if err := os.Lchown(dir, owner.UID, owner.GID); err != nil {
				return err
			}
		}
	}
	return nil
}

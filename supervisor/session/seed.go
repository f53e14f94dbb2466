package session

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// The bounds of what is mirrored: the first program that looks must not wait for
// a large cache, of which then only the directory is linked, to be read.
const (
	mirrorEntries = 4000
	mirrorCopy    = 16 << 10 // smaller files are copied, larger ones linked
)

// Seeder puts what tools read of the host's caches into the private ones in the
// temp directory. It can do so while tasks of the session live, who may change
// names there: every step stays inside directories that were opened before.
type Seeder struct {
	links []seedLink
	temp  *os.Root // nil when there is nothing to do
	owner *Owner
}

type seedLink struct {
	below, target string
	host          *os.Root // nil when it is not there, or cannot be read
}

// Seeder opens what Seed will need, before any task of the session lives. What it
// makes belongs to owner, if there is one, since the tools write into it.
func (s *Session) Seeder(links []policy.CacheLink, owner *Owner) (_ *Seeder, err error) {
	x := &Seeder{owner: owner}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	for _, l := range links {
		below, ok := strings.CutPrefix(l.Name, s.TempDir+"/")
		if !ok || filepath.Clean(l.Name) != l.Name {
			return nil, fmt.Errorf("bug: cache link %s is outside the session's temp directory", l.Name)
		}
		host, err := os.OpenRoot(l.Target)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			host = nil
		}
		x.links = append(x.links, seedLink{below, l.Target, host})
	}
	if len(x.links) == 0 {
		return x, nil
	}
	if x.temp, err = os.OpenRoot(s.TempDir); err != nil {
		return nil, fmt.Errorf("open the session's temp directory: %w", err)
	}
	return x, nil
}

// Seed makes the private caches. It is called once, from a thread with reeve's
// own credentials. What a task has made there already stays.
func (x *Seeder) Seed() error {
	for _, l := range x.links {
		err := x.makeParents(path.Dir(l.below))
		if err == nil {
			err = x.mirror(l)
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fullDisk(fmt.Errorf("make private cache: %w", err))
		}
	}
	return nil
}

// Close closes what was opened.
func (x *Seeder) Close() error {
	var errs []error
	for _, l := range x.links {
		if l.host != nil {
			errs = append(errs, l.host.Close())
		}
	}
	if x.temp != nil {
		errs = append(errs, x.temp.Close())
	}
	return errors.Join(errs...)
}

// mirror makes a directory like the host's: its directories are made, its small
// files copied, since tools append to their indexes, and its large ones linked.
func (x *Seeder) mirror(l seedLink) error {
	entries, whole := list(l.host)
	if !whole {
		return x.temp.Symlink(l.target, l.below)
	}
	for _, e := range entries {
		to := path.Join(l.below, e.below)
		var err error
		switch {
		case e.info.IsDir():
			err = x.mkdir(to)
		case e.info.Mode().IsRegular() && e.info.Size() <= mirrorCopy:
			err = x.copy(l.host, e.below, to)
		case e.info.Mode().IsRegular():
			err = x.temp.Symlink(path.Join(l.target, e.below), to)
		default:
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mkdir makes a directory and gives it to the owner, who may have put another
// file in its place by then: what is given away is a directory that is still ours.
func (x *Seeder) mkdir(below string) error {
	if err := x.temp.Mkdir(below, 0o700); err != nil || x.owner == nil {
		return err
	}
	dir, err := x.temp.OpenFile(below, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return x.give(dir)
}

// give makes a file that reeve has just made the owner's.
func (x *Seeder) give(f *os.File) error {
	if x.owner == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s was replaced: %w", f.Name(), os.ErrExist)
	}
	return f.Chown(x.owner.UID, x.owner.GID)
}

type entry struct {
	below string
	info  os.FileInfo
}

var errLarge = errors.New("larger than what is mirrored")

// list walks dir, parents first; whole is false when it is too large or cannot
// be read.
func list(dir *os.Root) (entries []entry, whole bool) {
	if dir == nil {
		return nil, false
	}
	err := fs.WalkDir(dir.FS(), ".", func(below string, d os.DirEntry, err error) error {
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
		entries = append(entries, entry{below, info})
		return nil
	})
	return entries, err == nil
}

// copy copies a regular file that was small a moment ago.
func (x *Seeder) copy(host *os.Root, from, to string) error {
	in, err := host.OpenFile(from, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may have become a FIFO
	if err != nil {
		return err
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is no file any more", from))
	}
	out, err := x.temp.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, mirrorCopy))
	return errors.Join(err, x.give(out), out.Close())
}

func (x *Seeder) makeParents(below string) error {
	dir := ""
	for _, part := range strings.Split(below, "/") {
		dir = path.Join(dir, part)
		if err := x.mkdir(dir); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

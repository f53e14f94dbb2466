package rulebook

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// file is the user's policy file, by the directory that it really stands in.
type file struct {
	path string // resolved
	name string // its last component
	dir  int    // -1: there is no such directory, and so no file
	text []byte
	stat unix.Stat_t // zero when there is no file
}

// open finds the file, checks whose it is and who can reach it, and reads it.
func (b *Book) open() (*file, error) {
	path, err := resolve(b.cfg.File)
	if err != nil {
		return nil, err
	}
	for _, one := range []string{path, b.cfg.File} {
		if err := b.outOfReach(one); err != nil {
			return nil, err
		}
	}
	f := &file{path: path, name: filepath.Base(path), dir: -1}
	f.dir, err = unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		f.dir = -1
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open directory %s: %w", filepath.Dir(path), err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(f.dir, &st); err == nil {
		err = own(filepath.Dir(path), &st)
	}
	if err == nil {
		err = f.read()
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// resolve follows the links of a path whose end need not be there.
func resolve(path string) (string, error) {
	rest := ""
	for at := filepath.Clean(path); ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		resolved, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(resolved, rest), nil
		}
		if _, statErr := os.Lstat(at); statErr == nil || !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find the user's policy file %s: %w", path, err) // a link that leads nowhere
		}
	}
}

// own refuses what belongs to somebody else, and what others can write.
func own(path string, st *unix.Stat_t) error {
	switch {
	case int(st.Uid) != os.Geteuid() && (st.Uid != 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR):
		return fmt.Errorf("%s belongs to uid %d, and this is uid %d: no rules are written there", path, st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s can be written by others (mode %#o): no rules are written there before chmod go-w", path, st.Mode&0o7777)
	}
	return nil
}

// read reads the file as it is now.
func (f *file) read() error {
	f.text, f.stat = nil, unix.Stat_t{}
	fd, err := unix.Openat(f.dir, f.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", f.path, err)
	}
	in := os.NewFile(uintptr(fd), f.path)
	defer in.Close()
	if err := unix.Fstat(fd, &f.stat); err != nil {
		return fmt.Errorf("look at %s: %w", f.path, err)
	}
	if f.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is no regular file", f.path)
	}
	if err := own(f.path, &f.stat); err != nil {
		return err
	}
	if f.text, err = io.ReadAll(io.LimitReader(in, policy.MaxSource+1)); err != nil {
		return err
	}
	if len(f.text) > policy.MaxSource {
		return fmt.Errorf("%s has more than %d bytes", f.path, policy.MaxSource)
	}
	return nil
}

func (f *file) close() {
	if f.dir >= 0 {
		unix.Close(f.dir)
		f.dir = -1
	}
}

// lockPatience is how long another reeve may take to write its rule.
const lockPatience = 5 * time.Second

// lock keeps other reeves from writing until close. It is the directory's, since
// the file is replaced.
func (f *file) lock() error {
	for end := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(f.dir, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			if err != nil {
				err = fmt.Errorf("another reeve writes in %s: try again (%w)", filepath.Dir(f.path), err)
			}
			return err
		}
	}
}

// replace puts text in the place of the file, on the disk too.
func (f *file) replace(text []byte) error {
	fail := func(err error) error { return fmt.Errorf("write %s: %w", f.path, err) }
	temp := "." + f.name + "." + rand.Text()
	fd, err := unix.Openat(f.dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fail(err)
	}
	out := os.NewFile(uintptr(fd), temp)
	if f.stat.Ino != 0 {
		err = out.Chmod(os.FileMode(f.stat.Mode & 0o777))
	}
	if err == nil {
		_, err = out.Write(text)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = f.unchanged()
	}
	if err == nil {
		err = unix.Renameat(f.dir, temp, f.dir, f.name)
	}
	if err != nil {
		return fail(errors.Join(err, unix.Unlinkat(f.dir, temp, 0)))
	}
	if err := unix.Fsync(f.dir); err != nil {
		return fail(err)
	}
	return nil
}

// unchanged says that the file is still the one that was read: an editor takes
// no lock.
func (f *file) unchanged() error {
	var st unix.Stat_t
	err := unix.Fstatat(f.dir, f.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		st, err = unix.Stat_t{}, nil
	}
	if err == nil && (st.Ino != f.stat.Ino || st.Size != f.stat.Size || st.Mtim != f.stat.Mtim) {
		err = errors.New("somebody changes it just now: try again")
	}
	return err
}

// makeDir makes the directory of the file, for its user alone.
func (b *Book) makeDir() error {
	path, err := resolve(b.cfg.File)
	if err == nil {
		err = b.outOfReach(path)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return fmt.Errorf("make the directory of the user's policy file: %w", err)
	}
	return nil
}

package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openRoots opens a file that only root can have written, by a way that only
// root can have laid: every directory from / on, and the file, belong to root, are
// not writable by others, and are no symbolic links. Directories above the file's
// own may be sticky, as /tmp is: nobody takes root's entries out of them. It goes
// down the way itself, so that what was looked at is what is opened.
//
// Where the file's directory is not there the error is os.ErrNotExist. Where only
// the file is not, a directory on the way that others can write is the error all
// the same, since they may have taken the file away.
func openRoots(path string) (*os.File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	way, names := "/", strings.Split(strings.TrimPrefix(path, "/"), "/")
	loose := rootsAlone(at, way, unix.S_ISVTX)
	for i, name := range names {
		way = filepath.Join(way, name)
		flags := unix.O_PATH | unix.O_DIRECTORY
		if i == len(names)-1 {
			flags = unix.O_RDONLY | unix.O_NONBLOCK // a FIFO must not make us wait for its writer
		}
		next, err := unix.Openat(at, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			err = astray(at, name, way, err)
		}
		unix.Close(at)
		switch at = next; {
		case errors.Is(err, os.ErrNotExist) && i == len(names)-1 && loose != nil:
			return nil, loose
		case err != nil:
			return nil, err
		case loose == nil && i < len(names)-2:
			loose = rootsAlone(at, way, unix.S_ISVTX)
		case loose == nil:
			loose = rootsAlone(at, way, 0)
		}
	}
	if loose != nil {
		unix.Close(at)
		return nil, loose
	}
	return os.NewFile(uintptr(at), path), nil
}

// astray says why the way to an envelope ends.
func astray(at int, name, way string, err error) error {
	var st unix.Stat_t
	switch {
	case unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return withHint(fmt.Errorf("%s is a symbolic link, which an envelope is not read through", way), "put the directory or file itself there")
	case errors.Is(err, os.ErrNotExist):
		return err
	case errors.Is(err, os.ErrPermission):
		return withHint(fmt.Errorf("%s: %w, and without the envelope nothing is started", way, err), "as root: chmod a+rX "+way)
	}
	return fmt.Errorf("%s: %w", way, err)
}

// rootsAlone is an error where others than root own or can write what is open,
// unless it has one of the mode bits in despite.
func rootsAlone(fd int, way string, despite uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", way, err)
	}
	if st.Uid == 0 && (st.Mode&0o022 == 0 || st.Mode&despite != 0) {
		return nil
	}
	return withHint(fmt.Errorf("others than root can write %s (owner %d, mode %04o)", way, st.Uid, st.Mode&0o7777),
		"as root: chown root "+way+" && chmod go-w "+way)
}

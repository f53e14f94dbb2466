package ring

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errNotFile says that what has the name of a file of ours is none. Neither of them
// is ever made as anything else, so what it was meant to hold is gone for good.
var errNotFile = errors.New("it is not a file")

// openFile opens a file of the session's directory. It waits for nobody, as it would
// for whoever writes to a pipe, and follows no link.
func openFile(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		return nil, errNotFile
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotFile
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

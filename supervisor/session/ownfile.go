package session

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxOwnFile is far above what a file of a session's directory that is read as a
// whole has.
const maxOwnFile = 64 << 20

// readOwn reads a file of a session's directory. Whatever was put in its place, it
// waits for nobody, as it would for whoever writes to a pipe, and follows no link.
func readOwn(path string) (text []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxOwnFile {
		return nil, fmt.Errorf("%s is not a file that reeve wrote", path)
	}
	return io.ReadAll(f)
}

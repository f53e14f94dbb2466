package gocache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// dir is a build cache in the file system.
type dir struct{ path string }

// The ends of the names of the files of actions and outputs.
const (
	actionEnd = "-a"
	outputEnd = "-d"
)

func (d dir) file(x id, end string) string {
	return filepath.Join(d.path, fmt.Sprintf("%02x", x[0]), fmt.Sprintf("%x", x[:])+end)
}

// found is an action whose output is there, complete and readable.
type found struct {
	entry
	path string    // of the output
	used time.Time // when it was last made or used, to the hour
	head string    // the first bytes of the output
}

// find looks an action up, and reads the first most bytes of its output. What does
// not hold together is not there: ok is false.
func (d dir) find(action id, most int) (f found, ok bool) {
	text, err := read(d.file(action, actionEnd), entrySize+1)
	if err != nil {
		return f, false
	}
	if f.entry, err = parseEntry(text.head, action); err != nil {
		return f, false
	}
	f.path = d.file(f.output, outputEnd)
	output, err := read(f.path, most)
	if err != nil || output.info.Size() != f.size {
		return f, false
	}
	f.used, f.head = output.info.ModTime(), output.head
	return f, true
}

type beginning struct {
	info os.FileInfo
	head string
}

// read reads the first bytes of a regular file, most at most. One that is not there,
// or of which no byte is wanted, is not opened: opens are decided, which takes time.
func read(path string, most int) (b beginning, err error) {
	if b.info, err = os.Lstat(path); err != nil || !b.info.Mode().IsRegular() {
		return b, errors.Join(err, errEntry)
	}
	if most == 0 {
		return b, nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return b, err
	}
	defer f.Close()
	if b.info, err = f.Stat(); err != nil || !b.info.Mode().IsRegular() {
		return b, errors.Join(err, errEntry)
	}
	buf := make([]byte, most)
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return b, err
	}
	b.head = string(buf[:n])
	return b, nil
}

// put keeps an output, which is what body has, and returns where. Files come to be
// complete, by their last name: whoever puts or reads the same at once sees the one
// or the other.
func (d dir) put(action id, e entry, body io.Reader) (path string, err error) {
	path = d.file(e.output, outputEnd)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == e.size {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return "", err
		}
	} else if err := d.keep(path, func(f io.Writer) error { return copyOutput(f, body, e) }); err != nil {
		return "", err
	}
	return path, d.keep(d.file(action, actionEnd), func(f io.Writer) error {
		_, err := io.WriteString(f, e.format(action))
		return err
	})
}

// copyOutput copies an output that must be the one it is said to be.
func copyOutput(to io.Writer, from io.Reader, e entry) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), from)
	switch {
	case err != nil:
		return err
	case n != e.size || id(sum.Sum(nil)) != e.output:
		return fmt.Errorf("output %x has another content than was said", e.output)
	}
	return nil
}

// keep makes a file under a name of its own, and gives it the name path when write
// has written it.
func (d dir) keep(path string, write func(io.Writer) error) error {
	f, err := create(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// create makes a file that is not yet an entry, and its directory, if `go clean`
// has just removed that.
func create(parent string) (*os.File, error) {
	const pattern = "reeve-*.tmp"
	f, err := os.CreateTemp(parent, pattern)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return nil, err
	}
	return os.CreateTemp(parent, pattern)
}

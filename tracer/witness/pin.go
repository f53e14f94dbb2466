package witness

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// marksName is the pin of the marks in a session's directory.
const marksName = "marks"

// Pin keeps the programs in place, and what knows the session's tasks, while their pins
// in dir, a directory of a BPF file system, are there: see OpenMarks.
func (w *Witness) Pin(dir string) error {
	for i, l := range w.links {
		if err := l.Pin(filepath.Join(dir, "witness"+strconv.Itoa(i))); err != nil {
			return fmt.Errorf("pin the witness: %w", err)
		}
	}
	if err := w.objects.Marks.Pin(filepath.Join(dir, marksName)); err != nil {
		return fmt.Errorf("pin the witness's marks: %w", err)
	}
	return nil
}

// Marks know the tasks of a session whose witness was pinned, as it may be, by
// somebody who is gone.
type Marks struct {
	m     *ebpf.Map
	value []byte
}

// OpenMarks opens what Pin pinned in dir. The error wraps fs.ErrNotExist if that is
// nothing.
func OpenMarks(dir string) (*Marks, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, marksName), nil)
	if err != nil {
		return nil, fmt.Errorf("open the witness's marks: %w", err)
	}
	if m.Type() != ebpf.TaskStorage {
		return nil, errors.Join(fmt.Errorf("open the witness's marks: a map of type %s", m.Type()), m.Close())
	}
	return &Marks{m, make([]byte, m.ValueSize())}, nil
}

// Has reports whether a process is marked. One that is gone is not.
func (m *Marks) Has(pid int) (bool, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH || err == unix.EINVAL {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the mark of process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	err = m.m.Lookup(int32(fd), m.value)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, ebpf.ErrKeyNotExist), errors.Is(err, unix.ESRCH):
		return false, nil
	}
	return false, fmt.Errorf("look for the mark of process %d: %w", pid, err)
}

// Close lets go of the marks.
func (m *Marks) Close() error { return m.m.Close() }

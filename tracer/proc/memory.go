package proc

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// PathMax is the kernel's limit of a path with its NUL.
const PathMax = 4096

// ErrTooLong says that a string has no end within its limit.
var ErrTooLong = errors.New("string has no end within its limit")

const pageSize = 4096

// Read fills buf from the thread's memory at addr. unix.EFAULT if any of it is
// not mapped; EPERM if the task may not be read.
func (th *Thread) Read(addr uint64, buf []byte) error {
	n, err := th.read(addr, buf)
	if err != nil {
		return err
	}
	if n < len(buf) {
		return unix.EFAULT
	}
	return nil
}

// read returns how much could be read; part of it may be unmapped.
func (th *Thread) read(addr uint64, buf []byte) (int, error) {
	if len(buf) == 0 {
		return 0, nil
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}
	n, err := unix.ProcessVMReadv(th.TID, local, remote, 0)
	if err != nil {
		return 0, err
	}
	return n, nil
}

// String reads a NUL-terminated string of less than most bytes into buf (which
// has at least most bytes). It reads page by page, since what is behind the
// string's last page may not be mapped. unix.EFAULT, ErrTooLong.
func (th *Thread) String(addr uint64, buf []byte, most int) (string, error) {
	n := 0
	for n < most {
		chunk := min(pageSize-int((addr+uint64(n))%pageSize), most-n)
		if n == 0 {
			chunk = min(chunk, 512) // most strings are short
		}
		k, err := th.read(addr+uint64(n), buf[n:n+chunk])
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(buf[n:n+k], 0); i >= 0 {
			return string(buf[:n+i]), nil
		}
		if k < chunk {
			return "", unix.EFAULT
		}
		n += k
	}
	return "", ErrTooLong
}

// Path reads a path as the kernel does: ENAMETOOLONG when it has no end within
// PathMax bytes.
func (th *Thread) Path(addr uint64, buf []byte) (string, error) {
	s, err := th.String(addr, buf, PathMax)
	if errors.Is(err, ErrTooLong) {
		return "", unix.ENAMETOOLONG
	}
	return s, err
}

// window is a piece of a task's memory that was read at once: arguments lie side
// by side, so one read mostly gives many of them.
type window struct {
	th   *Thread
	base uint64
	buf  []byte
	n    int
}

// at gives up to size bytes at addr: what is there up to the end of the page.
func (w *window) at(addr uint64, size int) ([]byte, error) {
	if addr < w.base || addr+uint64(size) > w.base+uint64(w.n) {
		n, err := w.th.read(addr, w.buf)
		if err != nil {
			return nil, err
		}
		w.base, w.n = addr, n
	}
	have := w.buf[addr-w.base : w.n]
	if len(have) < size {
		return nil, unix.EFAULT
	}
	return have, nil
}

// maxArgument is the longest argument that execve takes (MAX_ARG_STRLEN), and
// MaxArgv more than all of them may have together (three quarters of _STK_LIM).
const (
	maxArgument = 32 * pageSize
	MaxArgv     = 8 << 20
)

// Argv reads a whole argument vector. E2BIG says that an argument is longer than
// the kernel takes, ErrTooLong that all have more than limit bytes.
func (th *Thread) Argv(addr uint64, limit int) (argv []string, err error) {
	if addr == 0 {
		return nil, nil
	}
	pointers := window{th: th, buf: make([]byte, 512)}
	text := window{th: th, buf: make([]byte, pageSize)}
	for i, total := 0, 0; ; i++ {
		raw, err := pointers.at(addr+8*uint64(i), 8)
		if err != nil {
			return nil, fmt.Errorf("read argument pointer %d: %w", i, err)
		}
		p := le64(raw)
		if p == 0 {
			return argv, nil
		}
		s, err := th.argument(&text, p)
		if err != nil {
			return nil, fmt.Errorf("read argument %d: %w", i, err)
		}
		argv = append(argv, s)
		if total += len(s) + 9; total > limit { // with its NUL and its pointer
			return nil, ErrTooLong
		}
	}
}

// argument reads one argument, from what was read of its neighbours if it is
// there.
func (th *Thread) argument(text *window, p uint64) (string, error) {
	if have, err := text.at(p, 1); err == nil {
		if i := bytes.IndexByte(have, 0); i >= 0 {
			return string(have[:i]), nil
		}
	}
	s, err := th.String(p, make([]byte, maxArgument), maxArgument)
	if errors.Is(err, ErrTooLong) {
		return "", unix.E2BIG
	}
	return s, err
}

// CutArgv is what is kept of an argument vector for the record; cut is the number
// of bytes of the whole, NULs included, when it is not all.
func CutArgv(argv []string) (kept []string, cut int) {
	total := 0
	for _, s := range argv {
		if room := maxArgv - total; room > 0 && len(s) < room {
			kept = append(kept, s)
		} else if room > 0 {
			kept = append(kept, s[:room-1])
			total = maxArgv
		}
		total, cut = total+len(s)+1, cut+len(s)+1
	}
	if len(kept) == len(argv) && cut <= maxArgv {
		return argv, 0
	}
	return kept, cut
}

func le64(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

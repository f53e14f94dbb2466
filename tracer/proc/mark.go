package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// A mark is a number that a process carries and hands on to everything that it
// starts: its hard limit of file locks (RLIMIT_LOCKS), which the kernel has not
// used since 2.4. It is inherited by fork, kept by exec, and can be lowered but
// never raised (setrlimit(2)); whoever relies on it keeps tasks from lowering it.

// RlimitLocks is the resource that carries the mark.
const RlimitLocks = unix.RLIMIT_LOCKS

// Mark is the number that the thread's process carries.
func (th *Thread) Mark() (uint64, error) {
	var r unix.Rlimit
	err := unix.Prlimit(th.TGID, RlimitLocks, nil, &r)
	if err == unix.EPERM { // another user's, and we lack CAP_SYS_RESOURCE
		return th.markFile()
	}
	if err != nil {
		return 0, fmt.Errorf("read the mark of task %d: %w", th.TGID, err)
	}
	if !th.Alive() { // the number may have been another's
		return 0, ErrGone
	}
	return r.Max, nil
}

// markFile reads the mark where only /proc tells it.
func (th *Thread) markFile() (uint64, error) {
	text, err := th.ReadFile("limits", 4096)
	if err != nil {
		return 0, err
	}
	_, line, ok := bytes.Cut(text, []byte("Max file locks"))
	f := bytes.Fields(line)
	if !ok || len(f) < 2 {
		return 0, errors.New("read the mark of a task: no line on file locks")
	}
	if string(f[1]) == "unlimited" {
		return unix.RLIM_INFINITY, nil
	}
	return strconv.ParseUint(string(f[1]), 10, 64)
}

// SetMark gives the thread's process a lower number than it has.
func (th *Thread) SetMark(mark uint64) error {
	r := unix.Rlimit{Cur: mark, Max: mark}
	if err := unix.Prlimit(th.TGID, RlimitLocks, &r, nil); err != nil {
		return fmt.Errorf("mark task %d: %w", th.TGID, err)
	}
	if got, err := th.Mark(); err != nil || got != mark {
		return fmt.Errorf("mark task %d: it has %d (%v)", th.TGID, got, err)
	}
	return nil
}

package lsm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/bpf"
)

// Adopt makes a task the session's first one: what it makes from here on is the
// session's, and so on down, whatever they do. It must have one thread, which
// waits: held at a notification, or our child waiting for us.
func (e *Engine) Adopt(pid int) error {
	if threads, err := threads(pid); err != nil || len(threads) != 1 {
		return fmt.Errorf("adopt task %d: it has %d threads, and may have one only", pid, len(threads))
	}
	return e.mark(pid, bpf.LsmScope{Session: e.session, Promised: 1})
}

// Enclose is Adopt for a session inside another: the process, which may have any
// number of threads, is in it from here on, with all that it starts. Its own
// session may neither signal it nor look into it.
func (e *Engine) Enclose(pid int) error {
	// The first thread's mark is every thread's that has none.
	return e.markAll(pid, func(tid int) (bool, error) {
		switch s, err := e.scope(tid); {
		case errors.Is(err, ebpf.ErrKeyNotExist):
		case err != nil || s.Warden != 0:
			return false, err
		}
		return true, e.mark(tid, bpf.LsmScope{Session: e.session, Warden: 1})
	})
}

// Hand says that a process of this session is in a session inside it now, which
// has a number and hooks of its own: it and all that it starts are still judged
// here, and what is recorded of them says the number.
func (e *Engine) Hand(pid int, number uint32) error {
	return e.markAll(pid, func(tid int) (bool, error) {
		s, err := e.scope(tid)
		if errors.Is(err, ebpf.ErrKeyNotExist) && tid != pid {
			return false, nil // its process's mark holds
		}
		if err != nil || s.Inner == number {
			return false, err
		}
		s.Inner = number
		return true, e.mark(tid, s)
	})
}

// markAll calls mark for every thread, the first one first, until it has nothing
// to do for any.
func (e *Engine) markAll(pid int, mark func(tid int) (bool, error)) error {
	if _, err := mark(pid); err != nil {
		return err
	}
	for again := true; again; {
		list, err := threads(pid)
		if err != nil {
			return fmt.Errorf("list the threads of process %d: %w", pid, err)
		}
		again = false
		for _, tid := range list {
			did, err := mark(tid)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			again = again || did
		}
	}
	return nil
}

func threads(pid int) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return nil, err
	}
	list := make([]int, 0, len(entries))
	for _, entry := range entries {
		if tid, err := strconv.Atoi(entry.Name()); err == nil {
			list = append(list, tid)
		}
	}
	return list, nil
}

// openTask names a thread to the kernel.
func openTask(tid int) (int, error) {
	const thread = unix.O_EXCL // PIDFD_THREAD, Linux 6.9
	fd, err := unix.PidfdOpen(tid, thread)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.PidfdOpen(tid, 0) // it must be a first thread then
	}
	return fd, err
}

func (e *Engine) mark(tid int, s bpf.LsmScope) error {
	fd, err := openTask(tid)
	if err != nil {
		return fmt.Errorf("mark task %d: %w", tid, err)
	}
	defer unix.Close(fd)
	if err := e.loaded.Maps[bpf.LsmMapScopes].Update(int32(fd), s, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("mark task %d: %w", tid, err)
	}
	return nil
}

func (e *Engine) scope(tid int) (s bpf.LsmScope, err error) {
	fd, err := openTask(tid)
	if err != nil {
		return s, fmt.Errorf("look at the mark of task %d: %w", tid, err)
	}
	defer unix.Close(fd)
	if err := e.loaded.Maps[bpf.LsmMapScopes].Lookup(int32(fd), &s); err != nil {
		return s, fmt.Errorf("look at the mark of task %d: %w", tid, err)
	}
	return s, nil
}

// Population is how many tasks there are in a session inside another besides the
// process that began it. Once that one is gone and this is 0 nobody is judged by
// the session's hooks any more, ever.
func (e *Engine) Population() (n uint64, err error) {
	if err := e.loaded.Variables["population"].Get(&n); err != nil {
		return 0, fmt.Errorf("count the session's tasks: %w", err)
	}
	return n, nil
}

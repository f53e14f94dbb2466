package gate

import (
	"math"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// segments are the shared memory segments that the gate made for tasks, where the
// session shares the machine's IPC namespace. That the kernel names reeve as the
// maker is not enough: it names a number, which was another process's before.
// That the gate made one with that number is not either: once it is removed the
// number can become somebody else's. Both together are: what exists since before
// has another number, and what came after has another maker.
type segments struct {
	mu sync.Mutex // guards by
	by map[int]*member
}

// maxSegments bounds how many there may be at once, of a session and those inside
// it: the machine has room for few (SHMMNI, 4096), and they outlive their makers.
const maxSegments = 256

const reasonSegments = "the session has as many shared memory segments as it may"

// own says whether a segment was made for the worker's session, or inside it.
func (s *segments) own(w *worker, id int) bool {
	s.mu.Lock()
	by := s.by[id]
	s.mu.Unlock()
	if by == nil || !w.made(by) {
		return false
	}
	maker, there := proc.ShmMaker(id)
	return there && maker == os.Getpid()
}

// make makes a segment that is not there yet, for the worker's session. One that
// nothing of the kernel's is held back from may have any number.
func (s *segments) make(w *worker, key int, size uint64, flags int) answer {
	if size > math.MaxInt {
		return answer{errno: unix.EINVAL}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) >= maxSegments && w.m.Handling[Kernel] == Refuse {
		if s.prune(); len(s.by) >= maxSegments {
			d := event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.ENOSPC), Reason: reasonSegments}
			return answer{errno: unix.ENOSPC, denied: &d}
		}
	}
	id, err := unix.SysvShmGet(key, int(size), flags)
	if err != nil {
		return done(err)
	}
	if s.by == nil {
		s.by = map[int]*member{}
	}
	s.by[id] = w.m
	return answer{val: int64(id)}
}

// prune forgets those that are gone; mu is held.
func (s *segments) prune() {
	there := proc.ShmMadeBy(os.Getpid())
	for id := range s.by {
		if !slices.Contains(there, id) {
			delete(s.by, id)
		}
	}
}

// remove removes those that are left, since nobody is to whom they could be of use.
func (s *segments) remove(failed func(id int, err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) == 0 {
		return
	}
	s.prune()
	for id := range s.by {
		if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
			failed(id, err)
		}
	}
	s.by = nil
}

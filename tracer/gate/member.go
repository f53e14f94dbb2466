package gate

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// Members are the session that the gate serves and the sessions that were begun
// inside it. Which one a task belongs to is written on its process, see
// proc.Mark: the gate marks the process that begins a session, everything that
// it starts inherits the mark, and nobody in the session can change it. A mark
// that means nothing belongs to no member, and is refused everything.

// Member is what holds for the tasks of one session.
type Member struct {
	Decider  Decider
	Recorder Recorder
	// Asker may be nil: then what the decider asks about is denied.
	Asker Asker
	// Programs, which may be nil, knows programs by more than their path.
	Programs Programs
	// Handling is its own plan's; where it and the outer session's differ, calls
	// are performed.
	Handling Table
	// Holder is nil without hooks, and for the session that the gate serves: see
	// Config.Injector.
	Holder Holder
}

// member is a Member with its place.
type member struct {
	Member
	index  int
	parent *member // nil for the session itself
	// client is the task that began it, by its ID: it is held to the member's
	// rules, and yet is what the session is seen by from outside. Its environment
	// and its descriptors are the outer session's, so the member does not own it.
	// Empty for the session itself.
	client string
}

// owner is the member that a process belongs to as an object: of the client of
// m the one that it came from.
func (m *member) owner(task string) *member {
	for m.parent != nil && m.client == task {
		m = m.parent
	}
	return m
}

// within says whether a member is m or was begun inside it.
func (m *member) within(outer *member) bool {
	for ; m != nil; m = m.parent {
		if m == outer {
			return true
		}
	}
	return false
}

// maxMembers bounds how many sessions may ever be begun inside one.
const maxMembers = 256

// topMark is the largest mark that a member has: none but limits that somebody
// set on the whole session before are lower.
const topMark = 1 << 40

// members are the sessions by their index.
type members struct {
	any  atomic.Bool // some were begun: marks have to be looked at
	base uint64      // the session's own mark, or above; a member's is base-index
	mu   sync.Mutex  // guards list
	list []*member
}

func (s *members) init(own Member) error {
	var r unix.Rlimit
	if err := unix.Getrlimit(proc.RlimitLocks, &r); err != nil {
		return fmt.Errorf("read the limit of file locks: %w", err)
	}
	s.base = min(r.Max, topMark)
	s.list = []*member{{Member: own}}
	return nil
}

func (s *members) main() *member { return s.list[0] } // set before anybody else looks

// at is the member with an index, nil if there is none.
func (s *members) at(index uint64) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index >= uint64(len(s.list)) {
		return nil
	}
	return s.list[index]
}

// RecorderOf takes what is recorded of the session with an index.
func (g *Gate) RecorderOf(index int) Recorder {
	if m := g.members.at(uint64(index)); m != nil {
		return m.Recorder
	}
	return g.cfg.Recorder
}

// of is the member that a thread belongs to.
func (s *members) of(th *proc.Thread) (*member, error) {
	if !s.any.Load() {
		return s.main(), nil
	}
	mark, err := th.Mark()
	if err != nil {
		return nil, err
	}
	if mark >= s.base {
		return s.main(), nil
	}
	if m := s.at(s.base - mark); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("the task has a mark that reeve did not give it (%d)", mark)
}

// errNoRoom says that there can be no more members.
var errNoRoom = errors.New("too many sessions were begun inside this one")

// add makes a member inside parent, which the task client began.
func (s *members) add(parent *member, own Member, client string) (*member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= maxMembers || uint64(len(s.list)) > s.base {
		return nil, errNoRoom
	}
	m := &member{own, len(s.list), parent, client}
	for c := range m.Handling {
		if m.Handling[c] != parent.Handling[c] {
			m.Handling[c] = narrower(parent.Handling[c], m.Handling[c])
		}
	}
	s.list = append(s.list, m)
	s.any.Store(true)
	return m, nil
}

// narrower is how a class is handled that the outer and the inner session would
// handle differently. What the outer one traps is what there is; where the inner
// one would act for the task, the floor of the outer one is not enough.
func narrower(outer, inner Handling) Handling {
	switch {
	case outer == Untrapped, outer == Refuse:
		return outer
	case inner == Refuse:
		return Refuse
	}
	return Perform
}

// owns says whether a process belongs to the worker's own session.
func (w *worker) owns(pid int) bool {
	if !w.g.owns(pid) {
		return false
	}
	if w.m == w.g.members.main() {
		return true
	}
	th, err := w.g.table.Get(pid)
	if err != nil {
		return false
	}
	defer th.Release()
	if th.ID == w.th.ID {
		return true // whoever began a session is not that session's, and yet its own
	}
	m, err := w.g.members.of(th)
	return err == nil && m.owner(th.ID).within(w.m)
}

// made says whether what a member made counts as the worker's session's own.
func (w *worker) made(by *member) bool { return by.within(w.m) }

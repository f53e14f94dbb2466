package spawn

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/ring"
)

// Keep has init hold the session's directory, in which it saves what the rings hold
// should this process die, the lock by which the session is alive until then, and
// the links of programs that are to write into the rings until the tree is gone. All
// stay the caller's.
func (p *Process) Keep(dir, lock int, links []int) error {
	return p.tell(message{Kind: kindKeep}, append([]int{dir, lock}, links...)...)
}

// KeepRing has init hold a ring. Its number is not 0 and its own; the descriptor
// stays the caller's. What is in a ring whose number is told again is not saved any
// more.
func (p *Process) KeepRing(h ring.Held) error {
	return p.tell(message{Kind: kindKeep, PID: int(h.Number), Status: uint32(h.Size)}, h.FD)
}

// DropRing ends what KeepRing began: all of the ring is safe.
func (p *Process) DropRing(number uint32) error {
	err := p.tell(message{Kind: kindUnkeep, PID: int(number)})
	if errors.Is(err, ErrInitDied) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// Pinned has init hold the lock of the directory dir, in which what confines the tree
// is pinned, and remove it should this process die, when the tree is gone. The lock
// stays the caller's.
func (p *Process) Pinned(dir string, lock int) error {
	return p.tell(message{Kind: kindPinned, Step: dir}, lock)
}

func (p *Process) tell(m message, fds ...int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return ErrInitDied
	}
	return p.conn.send(m, fds...)
}

// kept is what init holds for a supervisor that dies. It is for one goroutine, but
// for detach: links come before the tree begins, and go after its end.
type kept struct {
	dir   int   // of the session, if has is set
	has   bool  // whether there is anything to save to
	lock  int   // held, nothing more
	links []int // until detach
	rings []ring.Held
	pins  string // a directory that is locked by a descriptor that nobody closes
}

func (k *kept) keep(m message, fds []int) {
	switch {
	case m.Kind == kindPinned:
		k.pins = m.Step
	case m.PID == 0 && len(fds) > 1:
		k.dir, k.has, k.lock, k.links = fds[0], true, fds[1], fds[2:]
	case len(fds) == 1:
		k.drop(uint32(m.PID))
		k.rings = append(k.rings, ring.Held{Number: uint32(m.PID), FD: fds[0], Size: int(m.Status)})
	}
}

// detach lets go of the links: nobody is left who could make a record. A supervisor
// that lives detaches the programs while others wait for nothing, as it takes a while.
func (k *kept) detach() {
	closeAll(k.links)
	k.links = nil
}

func (k *kept) drop(number uint32) {
	k.rings = slices.DeleteFunc(k.rings, func(h ring.Held) bool {
		if h.Number != number {
			return false
		}
		unix.Close(h.FD)
		return true
	})
}

// save saves what the rings hold. Nobody writes into them any more. What cannot be
// saved is said where the command's own output goes: nobody else is left to hear it.
func (k *kept) save() {
	if !k.has {
		return
	}
	if err := ring.Save(k.dir, k.rings); err != nil {
		fmt.Fprintln(os.Stderr, "reeve-init: records of a killed session are lost:", err)
	}
	// Now the session is over, though hooks take their time to be detached.
	unix.Close(k.lock)
}

// unpin removes the pins. What cannot be removed the next reeve removes.
func (k *kept) unpin() {
	if k.pins != "" {
		_ = os.RemoveAll(k.pins)
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

package lsm

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// What the gate tells the hooks: descriptors that it hands out, and answers to what
// the policy asks about.

// Inject tells the hooks that a thread which waits for an answer is given one
// descriptor with it, which was judged. Injected takes it back, whether it was
// used or not.
func (e *Engine) Inject(tid int) error {
	if err := e.loaded.Maps[bpf.LsmMapInjected].Update(uint32(tid), uint32(1), ebpf.UpdateAny); err != nil {
		return fmt.Errorf("announce a descriptor for thread %d: %w", tid, err)
	}
	return nil
}

// Injected ends what Inject began.
func (e *Engine) Injected(tid int) error {
	err := e.loaded.Maps[bpf.LsmMapInjected].Delete(uint32(tid))
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("withdraw a descriptor for thread %d: %w", tid, err)
	}
	return nil
}

// Own marks what the supervisor made for a task, where that is of use, given any
// descriptor of it.
func (e *Engine) Own(fd int) error {
	if !e.marks {
		return nil
	}
	err := e.loaded.Maps[bpf.LsmMapOwnInodes].Update(int32(fd), uint32(bpf.LsmOwnOWN_CONTENT), ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) { // what is there may say more
		return fmt.Errorf("mark what the session made: %w", err)
	}
	return nil
}

// Answered lets a file that somebody said yes to, to read it or to run it, be mapped
// as code where the policy asks about that, given any descriptor of it: a hook can ask
// nobody. What may be read may be copied into memory and run there as well. It lifts
// no denial, and no question about running the file.
func (e *Engine) Answered(fd int) error {
	if err := e.loaded.Maps[bpf.LsmMapAnswered].Update(int32(fd), uint32(1), ebpf.UpdateAny); err != nil {
		return fmt.Errorf("mark what was answered yes: %w", err)
	}
	return nil
}

// Made reports whether the session made the file that a path of this process leads
// to, or replaced what it held. A symbolic link at its end is not followed; of
// directories, in which others may have put something, it says no.
func (e *Engine) Made(path string) bool {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	var mark uint32
	return e.loaded.Maps[bpf.LsmMapOwnInodes].Lookup(int32(fd), &mark) == nil
}

// Created reports whether a file did not exist before the session made it, given any
// descriptor of it, as far as a hook saw that and the kernel has not forgotten the inode
// since.
func (e *Engine) Created(fd int) bool {
	var mark uint32
	return e.loaded.Maps[bpf.LsmMapOwnInodes].Lookup(int32(fd), &mark) == nil && mark&uint32(bpf.LsmOwnOWN_MADE) != 0
}

// Announce lets a thread execute files that the policy asks about, since the
// answer was yes: it replaces what was announced for the thread before. It lifts
// no denial.
func (e *Engine) Announce(tid int, files []witness.Inode) error {
	var a bpf.LsmAnnouncement
	if len(files) > len(a.Files) {
		return fmt.Errorf("bug: %d files announced for one exec, %d can be", len(files), len(a.Files))
	}
	a.Count = uint32(len(files))
	for i, f := range files {
		a.Files[i].Dev, a.Files[i].Ino = toKernelDev(f.Dev), f.Ino
	}
	if err := e.loaded.Maps[bpf.LsmMapAnnounced].Update(uint32(tid), a, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("announce exec of thread %d: %w", tid, err)
	}
	return nil
}

// Grant is an answer to a question of the policy: accesses to one file, for one
// thread or, with TID 0, all of the session; Once for one time.
type Grant struct {
	// Dev is the device of the file's super block, in the form of st_dev.
	Dev, Ino uint64
	TID      int
	Access   event.Access
	Once     bool
}

func (g Grant) key() bpf.LsmGrantKey {
	return bpf.LsmGrantKey{Dev: toKernelDev(g.Dev), Ino: g.Ino, Tid: uint32(g.TID)}
}

// Allow lets pass what the policy asks about; it lifts no denial. It replaces
// what was granted to the same thread for the same file.
func (e *Engine) Allow(g Grant) error {
	v := bpf.LsmGrant{Access: uint32(g.Access)}
	if g.Once {
		v.Once = 1
	}
	if err := e.loaded.Maps[bpf.LsmMapGrants].Update(g.key(), v, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("grant inode %d: %w", g.Ino, err)
	}
	return nil
}

// Revoke takes a grant back; one that is gone is as good.
func (e *Engine) Revoke(g Grant) error {
	if err := e.loaded.Maps[bpf.LsmMapGrants].Delete(g.key()); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("revoke the grant of inode %d: %w", g.Ino, err)
	}
	return nil
}

package spawn

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// To end a tree is a race with it. Three things are against us, each alone and
// together: many processes that fork (a bomb), deep trees, and chains, in which each
// process forks one more and exits, so that none lives as long as it takes to look
// through /proc. For us is that whoever loses its parent becomes the child of root,
// a subreaper, that a process with a fatal signal pending does not fork, and that the
// kernel lets nobody fork out of a process group that is being killed.
//
//   - Chains: the children of root are read from the one file that lists them and
//     killed as they are seen, over and over, with theirs, since whoever exits keeps
//     its child until the end of that. Where they have a session of their own, all
//     of whose groups are the tree's, their group is killed, and a chain with it.
//   - Bombs and trees: all that is seen is stopped, until nothing new is seen, and
//     killed then.
//
// They take turns, and neither gives up. That a look through /proc sees nobody says
// nothing: a chain is hardly ever seen there. Only who waits for children knows.

// endTree kills every descendant of root, which must be a subreaper and the calling
// process, and returns when gone says that there is none left.
func endTree(root int, gone func() bool) {
	for wait := time.Millisecond; !gone(); wait = min(2*wait, 50*time.Millisecond) {
		killChildren(root, wait)
		seen, _ := stopTree(root) // what cannot be seen is looked for again
		for pid := range seen {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// childless reports whether this process has no children, not even dead ones.
func childless() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err == unix.ECHILD
}

// looksEmpty is how often in a row nobody may be seen before lifeless believes it.
const looksEmpty = 3

// lifeless makes what reports whether nobody below this process lives, where nobody
// reaps the dead ones.
func lifeless() func() bool {
	self, empty := os.Getpid(), 0
	buf := make([]byte, 64<<10)
	return func() bool {
		children, _ := childrenOf(self, buf) // where there is no list the look through /proc decides
		live := slices.ContainsFunc(children, func(pid int) bool {
			parent, dead := proc.ParentState(pid)
			return parent > 0 && !dead
		})
		if !live {
			below, err := proc.Descendants(self)
			live = err != nil || len(below) > 0
		}
		if empty++; live {
			empty = 0
		}
		return empty >= looksEmpty
	}
}

// killChildren kills the children of root that it sees, and theirs, again and again for
// a while. Whoever is orphaned becomes the child of root's first thread. Where the
// kernel has no list of children it only waits.
func killChildren(root int, during time.Duration) {
	end := time.Now().Add(during)
	outside, err := unix.Getsid(root)
	if err != nil {
		outside = 0 // of no process
	}
	buf := make([]byte, 64<<10) // what more there is comes when these are reaped
	for again := true; again; again = time.Now().Before(end) {
		pids, err := childrenOf(root, buf)
		if err != nil {
			time.Sleep(during)
			return
		}
		for _, pid := range pids {
			kill(pid, outside)
			theirs, _ := childrenOf(pid, buf) // it may be gone
			for _, pid := range theirs {
				kill(pid, outside)
			}
		}
		time.Sleep(during / 10)
	}
}

// kill kills a process, and its group if that is not of the session outside.
func kill(pid, outside int) {
	sid, err := unix.Getsid(pid)
	group, gerr := unix.Getpgid(pid)
	if err == nil && gerr == nil && outside > 0 && sid > 0 && sid != outside && group > 1 {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
}

// childrenOf are the children of a process's first thread, as many as buf has room for.
func childrenOf(pid int, buf []byte) ([]int, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(buf[:n], ' ') // of a number that is cut nothing is known
	var out []int
	for field := range bytes.FieldsSeq(buf[:max(whole, 0)]) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// maxLooks is how often stopTree looks at most: in a chain there is always somebody new.
const maxLooks = 8

// stopTree stops all that it sees, until it sees nothing new.
func stopTree(root int) (map[int]bool, error) {
	seen := map[int]bool{}
	for grew, looks := true, 0; grew && looks < maxLooks; looks++ {
		grew = false
		pids, err := proc.Descendants(root)
		if err != nil {
			return seen, err
		}
		for _, pid := range pids {
			if !seen[pid] {
				seen[pid], grew = true, true
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
		}
	}
	return seen, nil
}

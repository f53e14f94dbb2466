package spawn

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// To end a tree is a race with it. Three things are against us, each alone and
// together: many processes that fork (a bomb), deep trees, and chains, in which each
// process forks one more and exits, so that none lives as long as it takes to look
// through /proc. For us is that whoever loses its parent becomes the child of root,
// a subreaper, and that a process with a fatal signal pending does not fork.
//
//   - Chains: the children of root are read from the one file that lists them and
//     killed as they are seen, over and over, which takes some microseconds each
//     time. A process of a chain is a child of root from its parent's exit to its own.
//   - Bombs and trees: all that is seen is stopped, until nothing new is seen, and
//     killed then.
//
// They take turns, and neither gives up.

// EndTree kills every descendant of root, which must be a subreaper and the calling
// process, and returns when there is none left.
func EndTree(root int) {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		killChildren(root, wait)
		seen, err := stopTree(root)
		if err == nil && len(seen) == 0 {
			return
		}
		for pid := range seen {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// killChildren kills the children of root that it sees, again and again for a while.
// Whoever is orphaned becomes the child of root's first thread. Where the kernel has
// no list of children it only waits.
func killChildren(root int, during time.Duration) {
	end := time.Now().Add(during)
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/task/%d/children", root, root), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		time.Sleep(during)
		return
	}
	defer unix.Close(fd)
	buf := make([]byte, 64<<10) // what more there is comes when these are reaped
	for time.Now().Before(end) {
		n, err := unix.Pread(fd, buf, 0)
		if err != nil || n <= 0 {
			time.Sleep(min(during, time.Millisecond)) // those of other threads, or on their way
			continue
		}
		whole := bytes.LastIndexByte(buf[:n], ' ') // of a number that is cut nothing is known
		for field := range bytes.FieldsSeq(buf[:max(whole, 0)]) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
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

package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Descendants are the live processes below root, zombies left out.
func Descendants(root int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || strings.HasPrefix(e.Name(), "0") {
			continue
		}
		ppid, dead := ParentState(pid)
		if ppid > 0 && !dead {
			children[ppid] = append(children[ppid], pid)
		}
	}
	var out []int
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		out = append(out, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return out, nil
}

// HoldsMaster says whether a process has the master of the pseudo-terminal with
// this index open.
func HoldsMaster(pid int, index uint32) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fdinfo"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	want := []byte("\ntty-index:\t" + strconv.FormatUint(uint64(index), 10) + "\n")
	for _, e := range entries {
		info, err := readAt(unix.AT_FDCWD, dir+"/"+e.Name(), 1024)
		if err == nil && bytes.Contains(info, want) {
			return true
		}
	}
	return false
}

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// TaskID is the identity of a process: its pid and its start time in clock
// ticks since boot.
func TaskID(pid int, start uint64) string {
	return strconv.Itoa(pid) + "-" + strconv.FormatUint(start, 10)
}

// StartTime is the start time of a process in clock ticks since boot.
func StartTime(pid int) (uint64, error) {
	stat, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/stat", 1024)
	if err != nil {
		return 0, err
	}
	return startTime(stat)
}

// statFields splits /proc/PID/stat after the command name, which may itself
// contain spaces and parentheses: field 0 is the state, field 3 of proc(5).
func statFields(stat []byte) ([][]byte, error) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return nil, errors.New("no command name")
	}
	f := bytes.Fields(stat[i+1:])
	if len(f) < 20 {
		return nil, fmt.Errorf("%d fields, expected at least 20", len(f))
	}
	return f, nil
}

func startTime(stat []byte) (uint64, error) {
	f, err := statFields(stat)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(f[19]), 10, 64)
}

// ParentState is the parent process of pid, 0 if it is gone, and whether pid is
// dead: a zombie of which no other thread lives.
func ParentState(pid int) (ppid int, dead bool) {
	stat, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/stat", 1024)
	if err != nil {
		return 0, true
	}
	f, err := statFields(stat)
	if err != nil {
		return 0, true
	}
	ppid, _ = strconv.Atoi(string(f[1]))
	threads, _ := strconv.Atoi(string(f[17]))
	return ppid, (f[0][0] == 'Z' || f[0][0] == 'X') && threads <= 1
}

// Stopped says whether a process is stopped by a signal.
func Stopped(pid int) bool {
	stat, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/stat", 1024)
	if err != nil {
		return false
	}
	f, err := statFields(stat)
	return err == nil && f[0][0] == 'T'
}

// Descends says whether pid is root or a descendant of it.
func Descends(pid, root int) bool {
	for i := 0; pid > 1 && i < 4096; i++ {
		if pid == root {
			return true
		}
		pid, _ = ParentState(pid)
	}
	return false
}

func statusInt(status []byte, key string) int {
	f := statusFields(status, key)
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(f[0])
	return n
}

func statusFields(status []byte, key string) []string {
	i := bytes.Index(status, []byte("\n"+key))
	if i < 0 {
		return nil
	}
	line := status[i+1+len(key):]
	if j := bytes.IndexByte(line, '\n'); j >= 0 {
		line = line[:j]
	}
	return strings.Fields(string(line))
}

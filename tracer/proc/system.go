package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BootNS is the time since boot in nanoseconds, suspend included.
func BootNS() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}

// OwnTTY is the device number of our controlling terminal, 0 if there is none.
func OwnTTY() int {
	stat, err := readAt(unix.AT_FDCWD, "/proc/self/stat", 1024)
	if err != nil {
		return 0
	}
	return ttyNr(stat)
}

// TTY is the device number of the thread's controlling terminal, 0 if none.
func (th *Thread) TTY() int {
	stat, err := th.ReadFile("stat", 1024)
	if err != nil {
		return 0
	}
	return ttyNr(stat)
}

// TTYDevice is the device number, as stat(2) has it, of a tty_nr of proc(5).
func TTYDevice(nr int) uint64 {
	return unix.Mkdev(uint32(nr>>8&0xfff), uint32(nr&0xff|nr>>12&0xfff00))
}

func ttyNr(stat []byte) int {
	f, err := statFields(stat)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(string(f[4]))
	return n
}

// Signals is a set of signals, bit n-1 for signal n.
type Signals uint64

// SignalSet is the set of some signals.
func SignalSet(list ...unix.Signal) (s Signals) {
	for _, sig := range list {
		s |= 1 << (sig - 1)
	}
	return s
}

// Deliverable says whether one of a set of signals waits that the thread would
// handle, or stop for, if its call returned: pending, not blocked, not ignored.
func (th *Thread) Deliverable(among Signals) bool {
	status, err := th.ReadFile("status", 4096)
	if err != nil {
		return true
	}
	mask := func(key string) uint64 {
		f := statusFields(status, key)
		if len(f) != 1 {
			return 0
		}
		n, _ := strconv.ParseUint(f[0], 16, 64)
		return n
	}
	waiting := mask("SigPnd:")
	if statusInt(status, "Threads:") == 1 {
		waiting |= mask("ShdPnd:") // of several threads another may take it
	}
	waiting &^= mask("SigBlk:") | mask("SigIgn:")
	waiting &= uint64(among)
	// Of the rest only a handler or a stop make the call return; the default
	// action of others is to do nothing (SIGCHLD …) or to kill, which ends the
	// wait by itself.
	const stops = 1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	return waiting&(mask("SigCgt:")|stops) != 0
}

// BinfmtInterpreters are the interpreters of the enabled binfmt_misc entries:
// an exec may end in one of them instead of in the file that was named.
func BinfmtInterpreters() []string {
	files, _ := filepath.Glob("/proc/sys/fs/binfmt_misc/*")
	var out []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !bytes.HasPrefix(b, []byte("enabled\ninterpreter ")) {
			continue
		}
		line, _, _ := bytes.Cut(b[len("enabled\ninterpreter "):], []byte("\n"))
		out = append(out, string(line))
	}
	return out
}

// Ioctl is ioctl(2) with a structure that the kernel reads.
func Ioctl(fd int, cmd uint32, arg []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(cmd), uintptr(unsafe.Pointer(unsafe.SliceData(arg))))
	if errno != 0 {
		return errno
	}
	return nil
}

// ShmMaker is the process that made a System V shared memory segment.
func ShmMaker(id int) (pid int, ok bool) {
	segments(func(at, maker int) {
		if at == id {
			pid, ok = maker, true
		}
	})
	return pid, ok
}

// ShmMadeBy are the shared memory segments that a process made.
func ShmMadeBy(pid int) (ids []int) {
	segments(func(id, maker int) {
		if maker == pid {
			ids = append(ids, id)
		}
	})
	return ids
}

func segments(visit func(id, maker int)) {
	b, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return
	}
	for line := range bytes.Lines(b) {
		// key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime
		f := bytes.Fields(line)
		if len(f) < 5 {
			continue
		}
		id, err := strconv.Atoi(string(f[1]))
		maker, err2 := strconv.Atoi(string(f[4]))
		if err == nil && err2 == nil {
			visit(id, maker)
		}
	}
}

// Exists says whether there is a task with this number.
func Exists(tid int) bool { return unix.Kill(tid, 0) != unix.ESRCH }

// Leader is the thread group of a thread, the number itself if it is gone.
func Leader(tid int) int {
	status, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(tid)+"/status", 4096)
	if err != nil {
		return tid
	}
	return statusInt(status, "Tgid:")
}

// GroupWithin says whether every process of a process group satisfies owns, and
// there is one.
func GroupWithin(pgid int, owns func(int) bool) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	found := false
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if g, err := unix.Getpgid(pid); err != nil || g != pgid {
			continue
		}
		if !owns(pid) {
			return false
		}
		found = true
	}
	return found
}

// Ended is what the fdinfo of a pidfd says of a process that is gone.
const Ended = -1

// FdinfoPID is the process that the fdinfo of a pidfd names, Ended if it is gone, 0
// if it is none.
func FdinfoPID(info []byte) int { return statusInt(info, "Pid:") }

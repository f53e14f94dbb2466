package proc

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Prctl is prctl(2) with a command and a message as its arguments.
func Prctl(option int, command uintptr, message []byte) (int, error) {
	var at unsafe.Pointer
	if len(message) > 0 {
		at = unsafe.Pointer(&message[0])
	}
	n, _, errno := unix.Syscall6(unix.SYS_PRCTL, uintptr(option), command, uintptr(at), uintptr(len(message)), 0, 0)
	runtime.KeepAlive(message)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

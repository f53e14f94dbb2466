package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Utimens is utimensat(2) with a nil ts for now, which the library's call
// cannot express.
func Utimens(dir int, path string, ts *[2]unix.Timespec, flags int) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(dir), uintptr(unsafe.Pointer(p)),
		uintptr(unsafe.Pointer(ts)), uintptr(flags), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

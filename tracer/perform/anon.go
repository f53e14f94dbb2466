package perform

import "golang.org/x/sys/unix"

const (
	mfdNoexecSeal = 0x8  // MFD_NOEXEC_SEAL (Linux 6.3)
	mfdExec       = 0x10 // MFD_EXEC
)

// Memfd makes an anonymous file without execute permission, sealed so that it
// stays without. On a kernel before 6.3 it is an ordinary one, of which the gate
// refuses the exec.
func Memfd(name string, flags uint32) (int, error) {
	want := int(flags&^mfdExec) | unix.MFD_CLOEXEC
	fd, err := unix.MemfdCreate(name, want|mfdNoexecSeal)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate(name, want)
	}
	return fd, err
}

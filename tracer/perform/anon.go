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

// Sealed is an anonymous file that holds data and cannot be changed, at its
// beginning.
func Sealed(name string, data []byte) (fd int, err error) {
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|mfdNoexecSeal)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			fd = -1
		}
	}()
	for off := 0; off < len(data); {
		n, err := unix.Pwrite(fd, data[off:], int64(off))
		if err != nil {
			return fd, err
		}
		off += n
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return fd, err
}

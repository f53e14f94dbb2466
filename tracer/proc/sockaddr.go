package proc

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sockaddr is a decoded socket address. Raw is what the kernel would be given.
type Sockaddr struct {
	Family uint16
	Addr   netip.Addr
	Port   uint16
	// Path is a unix socket's path, or its abstract name without the leading NUL.
	Path     string
	Abstract bool
	// Unnamed is a unix address without a name (autobind).
	Unnamed bool
	Raw     []byte
}

// SockaddrMax is sizeof(struct sockaddr_storage): the kernel refuses more.
const SockaddrMax = 128

// Sockaddr reads a socket address. EINVAL for a length the kernel refuses too.
func (th *Thread) Sockaddr(addr, length uint64) (Sockaddr, error) {
	n := int(int32(length))
	if n < 2 || n > SockaddrMax {
		return Sockaddr{}, unix.EINVAL
	}
	raw := make([]byte, n)
	if err := th.Read(addr, raw); err != nil {
		return Sockaddr{}, err
	}
	return ParseSockaddr(raw)
}

// ParseSockaddr decodes a raw socket address of at least two bytes.
func ParseSockaddr(raw []byte) (Sockaddr, error) {
	if len(raw) < 2 {
		return Sockaddr{}, unix.EINVAL
	}
	s := Sockaddr{Family: binary.NativeEndian.Uint16(raw), Raw: raw}
	switch s.Family {
	case unix.AF_INET:
		if len(raw) < unix.SizeofSockaddrInet4 {
			return s, unix.EINVAL
		}
		s.Port = binary.BigEndian.Uint16(raw[2:])
		s.Addr = netip.AddrFrom4([4]byte(raw[4:8]))
	case unix.AF_INET6:
		if len(raw) < 24 { // SIN6_LEN_RFC2133
			return s, unix.EINVAL
		}
		s.Port = binary.BigEndian.Uint16(raw[2:])
		s.Addr = netip.AddrFrom16([16]byte(raw[8:24])).Unmap()
	case unix.AF_UNIX:
		name := raw[2:]
		switch {
		case len(name) == 0:
			s.Unnamed = true
		case name[0] == 0:
			s.Abstract, s.Path = true, string(name[1:])
		default:
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			if len(name) > 108 {
				return s, unix.EINVAL
			}
			s.Path = string(name)
		}
	}
	return s, nil
}

// PathSockaddr is the raw address of a unix socket path.
func PathSockaddr(path string) []byte {
	raw := make([]byte, 2, 3+len(path))
	binary.NativeEndian.PutUint16(raw, unix.AF_UNIX)
	return append(append(raw, path...), 0)
}

// Connect is connect(2) with a raw address.
func Connect(fd int, raw []byte) error { return sockCall(unix.SYS_CONNECT, fd, raw) }

// Bind is bind(2) with a raw address.
func Bind(fd int, raw []byte) error { return sockCall(unix.SYS_BIND, fd, raw) }

func sockCall(nr uintptr, fd int, raw []byte) error {
	_, _, errno := unix.Syscall(nr, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(raw))), uintptr(len(raw)))
	if errno != 0 {
		return errno
	}
	return nil
}

// Getsockname is the address that fd is bound to.
func Getsockname(fd int) (Sockaddr, error) {
	raw := make([]byte, SockaddrMax)
	n := uint32(len(raw))
	_, _, errno := unix.Syscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&raw[0])), uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return Sockaddr{}, errno
	}
	return ParseSockaddr(raw[:min(int(n), len(raw))])
}

// Sendmsg is sendmsg(2) with a raw address, data and control messages.
func Sendmsg(fd int, name, data, control []byte, flags int) (int, error) {
	iov := unix.Iovec{Base: unsafe.SliceData(data)}
	iov.SetLen(len(data))
	h := unix.Msghdr{Iov: &iov}
	h.SetIovlen(1)
	if len(name) > 0 {
		h.Name, h.Namelen = &name[0], uint32(len(name))
	}
	if len(control) > 0 {
		h.Control = &control[0]
		h.SetControllen(len(control))
	}
	n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), uintptr(flags))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Write puts buf into the thread's memory at addr.
func (th *Thread) Write(addr uint64, buf []byte) error {
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := unix.ProcessVMWritev(th.TID, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}, 0)
	if err != nil {
		return err
	}
	if n < len(buf) {
		return unix.EFAULT
	}
	return nil
}

// pidfdThread is PIDFD_THREAD (Linux 6.9): a descriptor of one thread.
const pidfdThread = unix.O_EXCL

// GetFD duplicates a descriptor of the thread into our table. EBADF if the
// thread has no such descriptor.
func (th *Thread) GetFD(fd int32) (int, error) {
	pidfd, err := unix.PidfdOpen(th.TID, pidfdThread)
	if err == unix.EINVAL { // before 6.9: the process, whose threads mostly share it
		pidfd, err = unix.PidfdOpen(th.TGID, 0)
	}
	if err != nil {
		return -1, gone("open a pidfd", err)
	}
	defer unix.Close(pidfd)
	if !th.Alive() { // the number may have been used again before the open
		return -1, ErrGone
	}
	return unix.PidfdGetfd(pidfd, int(fd), 0)
}

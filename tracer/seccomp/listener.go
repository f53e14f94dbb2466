package seccomp

import (
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Notification is struct seccomp_notif: one call of one thread, waiting.
type Notification struct {
	ID    uint64
	PID   uint32 // the thread's id in our pid namespace, 0 if it is not visible
	Flags uint32
	Nr    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

type response struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

type addfd struct {
	id         uint64
	flags      uint32
	srcfd      uint32
	newfd      uint32
	newfdFlags uint32
}

// The ioctl numbers of a listener: _IOWR('!', n, size) (linux/seccomp.h).
const (
	ioctlRecv     = 0xc0502100
	ioctlSend     = 0xc0182101
	ioctlIDValid  = 0x40082102
	ioctlAddFD    = 0x40182103
	ioctlSetFlags = 0x40082104

	flagContinue  = 1      // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	flagAddFDSend = 1 << 1 // SECCOMP_ADDFD_FLAG_SEND
	flagSyncWake  = 1      // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
)

// Listener is the supervisor's end of a filter. Its methods may be called from
// any thread at once; the kernel answers each notification at most once.
// ENOENT from any of them means that the call is no longer waiting.
type Listener struct{ FD int }

// Install puts the filter on the calling OS thread alone and returns the fd of
// its listener, close-on-exec. The thread must have no_new_privs or
// CAP_SYS_ADMIN; EBUSY means that another supervisor already listens.
func Install(filter []bpf.RawInstruction) (int, error) {
	if len(filter) == 0 || len(filter) > 4096 {
		return -1, fmt.Errorf("install seccomp filter: %d instructions, the kernel takes 1 to 4096", len(filter))
	}
	insns := make([]unix.SockFilter, len(filter))
	for i, f := range filter {
		insns[i] = unix.SockFilter{Code: f.Op, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	prog := unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	const setModeFilter = 1
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, setModeFilter, flags, uintptr(unsafe.Pointer(&prog)))
	if errno == unix.EINVAL { // WAIT_KILLABLE_RECV is Linux 5.19
		flags &^= unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
		fd, _, errno = unix.RawSyscall(unix.SYS_SECCOMP, setModeFilter, flags, uintptr(unsafe.Pointer(&prog)))
	}
	if errno != 0 {
		return -1, fmt.Errorf("install seccomp filter: %w", errno)
	}
	return int(fd), nil
}

// SyncWakeUp asks the kernel to run the woken side at once on the same CPU,
// which more than halves a round trip (Linux 6.6; an error before is harmless).
func (l Listener) SyncWakeUp() error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.FD), ioctlSetFlags, flagSyncWake)
	if errno != 0 {
		return fmt.Errorf("set synchronous wake-up: %w", errno)
	}
	return nil
}

// Wait blocks until a notification is there. over says that there will be none
// to serve any more: no task is left that could send one, or stop is readable
// (-1 for none). timeout is in milliseconds, -1 for none.
func (l Listener) Wait(stop, timeout int) (ready, over bool, err error) {
	p := []unix.PollFd{{Fd: int32(l.FD), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
	_, err = unix.Poll(p, timeout)
	switch {
	case err == unix.EINTR:
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("poll seccomp listener: %w", err)
	}
	re := p[0].Revents
	gone := re&unix.POLLIN == 0 && re&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	return re&unix.POLLIN != 0, gone || p[1].Revents != 0, nil
}

// Recv takes one notification into n. ENOENT: the thread was killed meanwhile.
func (l Listener) Recv(n *Notification) error {
	*n = Notification{} // the kernel refuses a struct that is not zeroed
	return l.ioctl(ioctlRecv, unsafe.Pointer(n))
}

// Valid says whether the call is still waiting, and so whether what was read of
// its thread belongs to it.
func (l Listener) Valid(id uint64) bool {
	return l.ioctl(ioctlIDValid, unsafe.Pointer(&id)) == nil
}

// Continue lets the kernel carry the call out with whatever its arguments are by then.
func (l Listener) Continue(id uint64) error {
	return l.send(response{id: id, flags: flagContinue})
}

// Return makes the call return val.
func (l Listener) Return(id uint64, val int64) error { return l.send(response{id: id, val: val}) }

// Fail makes the call fail with errno, which must not be zero.
func (l Listener) Fail(id uint64, errno unix.Errno) error {
	if errno == 0 {
		errno = unix.EACCES // a refusal never turns into success
	}
	return l.send(response{id: id, err: -int32(errno)})
}

// ReturnFD puts our descriptor fd into the thread's table and makes the call
// return its number there, in one step.
func (l Listener) ReturnFD(id uint64, fd int, cloexec bool) error {
	a := addfd{id: id, flags: flagAddFDSend, srcfd: uint32(fd)}
	if cloexec {
		a.newfdFlags = unix.O_CLOEXEC
	}
	return l.ioctl(ioctlAddFD, unsafe.Pointer(&a))
}

// AddFD puts our descriptor into the thread's table without answering the call,
// and returns its number there.
func (l Listener) AddFD(id uint64, fd int, cloexec bool) (int, error) {
	a := addfd{id: id, srcfd: uint32(fd)}
	if cloexec {
		a.newfdFlags = unix.O_CLOEXEC
	}
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.FD), ioctlAddFD, uintptr(unsafe.Pointer(&a)))
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

func (l Listener) send(r response) error { return l.ioctl(ioctlSend, unsafe.Pointer(&r)) }

func (l Listener) ioctl(req uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.FD), req, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR: // the kernel did nothing; all five are safe to repeat
			continue
		}
		return errno
	}
}

package proc

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// interruptSignal makes a blocked call of one of our threads return EINTR. A
// real-time signal that nothing else uses.
const interruptSignal = syscall.Signal(62)

type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const saRestart = 0x10000000

// armInterrupt takes SA_RESTART off the handler that the runtime installed, so
// that a blocked call returns instead of starting again.
var armInterrupt = sync.OnceValue(func() error {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, interruptSignal)
	go func() {
		for range ch {
		}
	}()
	var sa sigaction
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(interruptSignal), 0,
		uintptr(unsafe.Pointer(&sa)), 8, 0, 0)
	if errno != 0 {
		return errno
	}
	sa.flags &^= saRestart
	_, _, errno = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(interruptSignal),
		uintptr(unsafe.Pointer(&sa)), 0, 8, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
})

// BlockSignals blocks every signal on the calling, locked OS thread, but for those
// that a fault of its own raises. A signal that interrupts the injection of a
// descriptor makes the kernel (6.18: seccomp_notify_addfd) forget the descriptor
// and answer the task with 0: the runtime's own preemption signal would do.
func BlockSignals() error {
	set := unix.Sigset_t{}
	for i := range set.Val {
		set.Val[i] = ^uint64(0)
	}
	for _, s := range []syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT} {
		set.Val[0] &^= 1 << (s - 1)
	}
	return unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil)
}

// Interruptible runs f with the calling thread open to Interrupt.
func Interruptible(f func() error) error {
	var set unix.Sigset_t
	set.Val[(interruptSignal-1)/64] = 1 << ((interruptSignal - 1) % 64)
	if err := unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil); err != nil {
		return err
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil) }()
	return f()
}

// ArmInterrupt prepares Interrupt; it must be called before the first one.
func ArmInterrupt() error { return armInterrupt() }

// Interrupt makes the call that our OS thread tid is blocked in return EINTR.
// It does nothing lasting if the thread is not blocked: the caller repeats it.
func Interrupt(tid int) { _ = unix.Tgkill(os.Getpid(), tid, interruptSignal) }

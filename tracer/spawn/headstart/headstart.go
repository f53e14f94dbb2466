// Package headstart is the very first step of a launch: it starts the session's
// init. It imports next to nothing (fmt would be too much), so that the Go runtime sets it up before the
// packages of buses and stores, and a program that knows early that it will want
// an init has it come up on another processor meanwhile.
package headstart

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
)

// InitName is argv[0] of the session's init.
const InitName = "reeve-init"

// Init is an init that waits for its orders.
type Init struct {
	Process *os.Process
	// Socket is our end of the launch socket.
	Socket int
}

type attempt struct {
	init Init
	err  error
}

// begun is what Begin started and nobody has taken.
var begun atomic.Pointer[attempt]

// Begin starts an init for a later Take. An error is Take's.
func Begin() {
	var a attempt
	a.init, a.err = start()
	begun.Store(&a)
}

// Take gives the caller the init that was begun, or one that it starts now.
func Take() (Init, error) {
	if a := begun.Swap(nil); a != nil {
		return a.init, a.err
	}
	return start()
}

// Drop ends an init that was begun and that nobody needs.
func Drop() {
	a := begun.Swap(nil)
	if a == nil || a.err != nil {
		return
	}
	_ = syscall.Close(a.init.Socket) // upon which it exits
	_, _ = a.init.Process.Wait()
}

// The call close_range(2) and its flag, which package syscall does not know, are
// the same on every architecture.
const (
	sysCloseRange     = 436
	closeRangeCloexec = 4
	lastFD            = 1<<32 - 1
)

func start() (Init, error) {
	// What we were started with above 2 is not for the command.
	if _, _, errno := syscall.RawSyscall(sysCloseRange, 3, lastFD, closeRangeCloexec); errno != 0 {
		return Init{}, os.NewSyscallError("keep descriptors from the command: close_range", errno)
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return Init{}, os.NewSyscallError("make the launch socket: socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "launch")
	p, err := os.StartProcess("/proc/self/exe", []string{InitName}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs},
		Env:   []string{"GOMAXPROCS=2", "GOGC=off"},
	})
	if err = errors.Join(err, theirs.Close()); err != nil {
		_ = syscall.Close(fds[0])
		return Init{}, os.NewSyscallError("start the session's init", err)
	}
	return Init{Process: p, Socket: fds[0]}, nil
}

package lsm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// What Available may find wrong.
var (
	// ErrNothingRefused says that LSM programs load, but are not asked.
	ErrNothingRefused = errors.New("a program that refuses was loaded, but nothing was refused")
	// ErrAttach says that they load, but do not attach: bpf is not among the
	// security modules.
	ErrAttach = errors.New("attach a program")
	// ErrControl says that they could not be tried.
	ErrControl = errors.New("the control failed")
)

// Available says whether LSM programs work here; nil says that they do. It tries
// once.
var Available = sync.OnceValue(try)

// Promising says whether it is worth trying. Where bpf is not among the kernel's
// security modules, as most distributions have it, no start should pay for a try;
// where it is, or that cannot be read, Available is the proof.
func Promising() bool {
	modules, err := os.ReadFile("/sys/kernel/security/lsm")
	return err != nil || slices.Contains(strings.Split(strings.TrimSpace(string(modules)), ","), "bpf")
}

// try loads one that refuses a harmless call of one
// thread of ours, and sees it refused.
func try() error {
	runtime.LockOSThread() // the program knows this thread's id
	defer runtime.UnlockOSThread()
	call := func() error { _, err := unix.Getpgid(os.Getpid()); return err }
	if err := call(); err != nil {
		return fmt.Errorf("%w: %w", ErrControl, err)
	}
	// Without a hook to attach to it cannot load, but where such programs are
	// forbidden that is said first, before the kernel's types have to be read.
	spec := refusal()
	spec.AttachTo = ""
	if p, err := ebpf.NewProgram(spec); err == nil {
		_ = p.Close()
	} else if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("load a program: %w", unix.EPERM) // the library's hint about memory misleads
	}
	p, err := ebpf.NewProgram(refusal())
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := link.AttachLSM(link.LSMOptions{Program: p})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAttach, err)
	}
	defer l.Close()
	if err := call(); !errors.Is(err, unix.EPERM) {
		return ErrNothingRefused
	}
	return nil
}

// refusal refuses getpgid(2) of another process id than 0 to this thread.
func refusal() *ebpf.ProgramSpec {
	self := int64(os.Getpid())<<32 | int64(unix.Gettid())
	return &ebpf.ProgramSpec{
		Name: "reeve_probe", Type: ebpf.LSM, AttachType: ebpf.AttachLSMMac,
		AttachTo: "task_getpgid", License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.FnGetCurrentPidTgid.Call(),
			asm.LoadImm(asm.R1, self, asm.DWord),
			asm.JNE.Reg(asm.R0, asm.R1, "other"),
			asm.Mov.Imm(asm.R0, -int32(unix.EPERM)),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("other"),
			asm.Return(),
		},
	}
}

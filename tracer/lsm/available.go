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

// Prefetch begins what New will want of the kernel, where LSM programs work at all.
func Prefetch() {
	if Available() == nil {
		_, _ = renameLock()
	}
}

// tried is closed when the program that was tried may go: see try.
var tried = make(chan struct{})

// leave lets it go.
var leave = sync.OnceFunc(func() { close(tried) })

// try loads one that refuses a harmless call of one thread of ours, and sees it
// refused. To take it from its hook again the kernel waits for 0.1 s, in which no
// other program comes to any hook, so that is left until ours are there.
func try() error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the program knows this thread's id, which ends with us
		at, err := tryHere()
		result <- err
		if at != nil {
			<-tried
			_ = at.Close()
		}
	}()
	return <-result
}

// tryHere is try on the thread that calls it, to which the program at the hook
// that it returns refuses the call until that is closed.
func tryHere() (at link.Link, err error) {
	call := func() error { _, err := unix.Getpgid(os.Getpid()); return err }
	if err := call(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrControl, err)
	}
	// Without a hook to attach to it cannot load, but where such programs are
	// forbidden that is said first, before the kernel's types have to be read.
	spec := refusal()
	spec.AttachTo = ""
	if p, err := ebpf.NewProgramWithOptions(spec, ebpf.ProgramOptions{LogDisabled: true}); err == nil {
		_ = p.Close()
	} else if errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("load a program: %w", unix.EPERM) // the library's hint about memory misleads
	}
	const name = "refusal"
	loaded, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{name: refusal()}},
		ebpf.CollectionOptions{Cache: kernelTypes()})
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	l, err := link.AttachLSM(link.LSMOptions{Program: loaded.Programs[name]})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAttach, err)
	}
	if err := call(); !errors.Is(err, unix.EPERM) {
		return l, ErrNothingRefused
	}
	return l, nil
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

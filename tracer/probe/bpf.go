package probe

import (
	"context"
	"errors"
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/witness"
)

const hintRoot = "run as root; in a container, with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN in the initial user namespace"

// tryTracepoints loads what the witness consists of, the parts first.
func tryTracepoints(context.Context, Config) []Result {
	return []Result{tryTaskStorage(), tryTracepointBTF(), tryWitness()}
}

func tryTaskStorage() Result {
	spec, err := bpf.LoadWitness()
	if err != nil {
		return unknown(TaskStorage, "%v", err)
	}
	m, err := ebpf.NewMap(spec.Maps[bpf.WitnessMapMarks])
	if err != nil {
		return refused(TaskStorage, "create a map", err)
	}
	defer m.Close()
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return unknown(TaskStorage, "pidfd_open: %v", err)
	}
	defer unix.Close(self)
	if err := m.Update(int32(self), bpf.WitnessMark{}, ebpf.UpdateAny); err != nil {
		return refused(TaskStorage, "mark this process", err)
	}
	return yes(TaskStorage, "marked this process")
}

func tryTracepointBTF() Result {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "reeve_probe", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp,
		AttachTo: "sched_process_exec", License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return refused(TracepointBTF, "load a program", err)
	}
	defer p.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return refused(TracepointBTF, "attach a program", err)
	}
	_ = l.Close()
	return yes(TracepointBTF, "loaded and attached a program")
}

func tryWitness() Result {
	w, err := witness.New(witness.Config{Verify: true})
	if err != nil {
		return refused(Witness, "load", err)
	}
	if err := w.Close(); err != nil {
		return unknown(Witness, "close: %v", err)
	}
	return yes(Witness, "loaded and attached")
}

// refused explains an error of loading.
func refused(name, what string, err error) Result {
	r := no(name, "%s: %v", what, err)
	switch {
	case errors.Is(err, witness.ErrNamespace):
		return r.withHint("run reeve in the host's pid namespace")
	case os.Geteuid() != 0:
		r.Reason = what + ": refused to an ordinary user"
		return r.withHint(hintRoot)
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, ebpf.ErrNotSupported):
		return r.withHint("the kernel must have /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)")
	case errors.Is(err, unix.EPERM):
		r.Reason = what + ": refused although we are root (EPERM): lockdown, a hardened kernel, or missing capabilities"
		return r.withHint(hintRoot)
	}
	return r
}

// tryLSM loads a program that refuses one harmless call of one thread of ours,
// and sees it refused.
func tryLSM(context.Context, Config) []Result {
	runtime.LockOSThread() // the program knows this thread's id
	defer runtime.UnlockOSThread()
	return []Result{denyGetpgid()}
}

func denyGetpgid() Result {
	call := func() error { _, err := unix.Getpgid(os.Getpid()); return err }
	if err := call(); err != nil {
		return unknown(BPFLSM, "the control failed: %v", err)
	}
	p, err := ebpf.NewProgram(lsmProgram())
	switch {
	case errors.Is(err, btf.ErrNotFound):
		return no(BPFLSM, "the kernel was built without it: %v", err).withHint("it needs CONFIG_BPF_LSM")
	case errors.Is(err, unix.EPERM) && os.Geteuid() == 0:
		return no(BPFLSM, "this kernel refuses LSM programs, although we are root (EPERM at load)").
			withHint("lockdown, a hardened kernel or a hypervisor's policy forbids them: nothing that reeve could ask for")
	case err != nil:
		return refused(BPFLSM, "load a program", err)
	}
	defer p.Close()
	l, err := link.AttachLSM(link.LSMOptions{Program: p})
	if err != nil {
		return refused(BPFLSM, "attach a program", err).withHint(hintLSM())
	}
	defer l.Close()
	if err := call(); !errors.Is(err, unix.EPERM) {
		return no(BPFLSM, "a program that refuses was loaded, but nothing was refused").withHint(hintLSM())
	}
	return yes(BPFLSM, "loaded a program and saw it refuse a call")
}

// lsmProgram refuses getpgid(2) of another process id than 0 to this thread.
func lsmProgram() *ebpf.ProgramSpec {
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

package probe

import (
	"context"
	"errors"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/lsm"
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
// and sees it refused; then what the engine lsm consists of.
func tryLSM(context.Context, Config) []Result {
	r := denyGetpgid()
	if r.State != Yes {
		return []Result{r, no(LSMPrograms, "cannot be without %s", BPFLSM)}
	}
	return []Result{r, tryLSMPrograms()}
}

func tryLSMPrograms() Result {
	if err := lsm.Loads(); err != nil {
		return no(LSMPrograms, "%v", err).withHint("they were made for Linux 6.12 and newer")
	}
	return yes(LSMPrograms, "loaded")
}

func denyGetpgid() Result {
	err := lsm.Available()
	switch {
	case err == nil:
		return yes(BPFLSM, "loaded a program and saw it refuse a call")
	case errors.Is(err, lsm.ErrControl):
		return unknown(BPFLSM, "%v", err)
	case errors.Is(err, lsm.ErrNothingRefused), errors.Is(err, lsm.ErrAttach):
		return no(BPFLSM, "%v", err).withHint(hintLSM())
	case errors.Is(err, btf.ErrNotFound):
		return no(BPFLSM, "the kernel was built without it: %v", err).withHint("it needs CONFIG_BPF_LSM")
	case errors.Is(err, unix.EPERM) && os.Geteuid() == 0:
		return no(BPFLSM, "this kernel refuses LSM programs, although we are root (EPERM at load)").
			withHint("lockdown, a hardened kernel or a hypervisor's policy forbids them: nothing that reeve could ask for")
	}
	return refused(BPFLSM, "load a program", err)
}

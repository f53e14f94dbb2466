package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

const hintSymbols = "the hooks must see whether names change while they read them: " +
	"the kernel's symbols must be readable by root and hold rename_lock (CONFIG_KALLSYMS_ALL)"

// renameLock is the address of the kernel's lock of renames, whose sequence says
// whether names have changed.
var renameLock = sync.OnceValues(func() (uint64, error) {
	at, err := symbol("rename_lock")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", hintSymbols, err)
	}
	return at, nil
})

// errNoSymbol says that the kernel knows no such name, or does not tell.
var errNoSymbol = errors.New("the kernel does not tell a symbol")

// symbol is the address of a symbol of the kernel's, as /proc/kallsyms has it: that is
// a list of some 100,000 lines, and a program may ask for one of them.
func symbol(name string) (uint64, error) {
	text := append([]byte(name), 0)
	length := len(text)
	text = append(text, make([]byte, -length&7)...)
	at := int16(-8 - len(text)) // of the stack: the answer, and above it the name
	code := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	for i := 0; i < len(text); i += 8 {
		code = append(code, asm.LoadImm(asm.R1, int64(binary.NativeEndian.Uint64(text[i:])), asm.DWord),
			asm.StoreMem(asm.RFP, at+8+int16(i), asm.R1, asm.DWord))
	}
	code = append(code,
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, at, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(at)+8), asm.Mov.Imm(asm.R2, int32(length)), asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Reg(asm.R4, asm.RFP), asm.Add.Imm(asm.R4, int32(at)),
		asm.FnKallsymsLookupName.Call(),
		asm.LoadMem(asm.R1, asm.RFP, at, asm.DWord), asm.StoreMem(asm.R6, 0, asm.R1, asm.DWord),
		asm.Return())
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "reeve_symbol", Type: ebpf.Syscall, Flags: sleepable, License: "Dual BSD/GPL", Instructions: code,
	})
	if err != nil {
		return 0, fmt.Errorf("load a program that asks for a symbol: %w", err)
	}
	defer p.Close()
	var found uint64
	status, err := p.Run(&ebpf.RunOptions{Context: &found, ContextOut: &found})
	if err != nil {
		return 0, fmt.Errorf("run a program that asks for a symbol: %w", err)
	}
	if status != 0 || found == 0 {
		return 0, fmt.Errorf("%w: %s (status %d)", errNoSymbol, name, int32(status))
	}
	return found, nil
}

// sleepable is BPF_F_SLEEPABLE of linux/bpf.h.
const sleepable = 1 << 4

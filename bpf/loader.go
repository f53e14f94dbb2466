package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// LoadTracepoints loads the tp_btf programs of an object whose maps exist
// already. It does what ebpf.NewCollection does, with the relocations left to the
// library, but reads no more of the kernel's types than they need (a command
// waits for us to be ready). A caller that gets an error should go the library's
// way, which explains what is wrong.
func LoadTracepoints(spec *ebpf.CollectionSpec, maps map[string]*ebpf.Map) (_ map[string]*ebpf.Program, err error) {
	members := localMembers(spec.Types)
	wanted := map[string]bool{}
	for name := range members {
		wanted[name] = true
	}
	for _, p := range spec.Programs {
		wanted[traceType(p)] = true
	}
	kernel, release, err := readKernelTypes(wanted)
	if err != nil {
		return nil, err
	}
	defer release()
	target, err := kernel.spec(members)
	if err != nil {
		return nil, err
	}
	programs := map[string]*ebpf.Program{}
	defer func() {
		if err != nil {
			for _, p := range programs {
				_ = p.Close()
			}
		}
	}()
	for name, p := range spec.Programs {
		id, err := kernel.typedef(traceType(p))
		if err != nil {
			return nil, err
		}
		code, err := relocate(p, maps, target)
		if err != nil {
			return nil, fmt.Errorf("relocate %s: %w", name, err)
		}
		if programs[name], err = load(p, code, id); err != nil {
			return nil, fmt.Errorf("load %s: %w", name, err)
		}
		runtime.KeepAlive(maps)
	}
	return programs, nil
}

// traceType is the name of the kernel's type for a tracepoint.
func traceType(p *ebpf.ProgramSpec) string { return "btf_trace_" + p.AttachTo }

// localMembers are the structs that an object knows and the members that it names
// of each, nameless parts included.
func localMembers(types *btf.Spec) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for t, err := range types.All() {
		s, ok := t.(*btf.Struct)
		if err != nil || !ok || s.Name == "" {
			continue
		}
		names := map[string]bool{}
		for _, m := range s.Members {
			names[m.Name] = true
		}
		out[s.Name] = names
	}
	return out
}

// relocate is the program's code with the maps and the kernel's offsets filled in.
func relocate(p *ebpf.ProgramSpec, maps map[string]*ebpf.Map, target *btf.Spec) ([]byte, error) {
	code := p.Copy().Instructions
	var relocations []*btf.CORERelocation
	var where []*asm.Instruction
	for i := range code {
		ins := &code[i]
		if r := btf.CORERelocationMetadata(ins); r != nil {
			relocations, where = append(relocations, r), append(where, ins)
		}
		if !ins.IsLoadFromMap() || ins.Reference() == "" {
			continue
		}
		m := maps[ins.Reference()]
		if m == nil {
			return nil, fmt.Errorf("no map %s", ins.Reference())
		}
		if err := ins.AssociateMap(m); err != nil {
			return nil, fmt.Errorf("map %s: %w", ins.Reference(), err)
		}
	}
	noTypeIDs := func(btf.Type) (btf.TypeID, error) {
		return 0, errors.New("bug: the program asks for ids of types")
	}
	fixups, err := btf.CORERelocate(relocations, []*btf.Spec{target}, p.ByteOrder, noTypeIDs)
	if err != nil {
		return nil, err
	}
	for i, f := range fixups {
		if err := f.Apply(where[i]); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	err = code.Marshal(&b, p.ByteOrder)
	return b.Bytes(), err
}

// progLoadAttr is what BPF_PROG_LOAD takes of union bpf_attr (linux/bpf.h).
type progLoadAttr struct {
	progType, insnCount    uint32
	insns, license         uint64
	logLevel, logSize      uint32
	logBuf                 uint64
	kernVersion, progFlags uint32
	progName               [16]byte
	ifindex, attachType    uint32
	btfFD, funcInfoSize    uint32
	funcInfo               uint64
	funcInfoCount          uint32
	lineInfoSize           uint32
	lineInfo               uint64
	lineInfoCount          uint32
	attachBTFID            uint32
}

const (
	cmdProgLoad     = 5  // BPF_PROG_LOAD
	typeTracing     = 26 // BPF_PROG_TYPE_TRACING
	attachTraceTP   = 23 // BPF_TRACE_RAW_TP
	loadAttempts    = 30
	instructionSize = 8
)

// load hands the code to the verifier. This is one of the few places that need
// unsafe: no library offers the bare call.
func load(p *ebpf.ProgramSpec, code []byte, target uint32) (*ebpf.Program, error) {
	license := append([]byte(p.License), 0)
	attr := progLoadAttr{
		progType: typeTracing, attachType: attachTraceTP, attachBTFID: target,
		insnCount: uint32(len(code) / instructionSize),
	}
	copy(attr.progName[:len(attr.progName)-1], p.Name)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&code[0])
	pin.Pin(&license[0])
	attr.insns = uint64(uintptr(unsafe.Pointer(&code[0])))
	attr.license = uint64(uintptr(unsafe.Pointer(&license[0])))
	for range loadAttempts {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, cmdProgLoad, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		switch errno {
		case 0:
			return ebpf.NewProgramFromFD(int(fd))
		case unix.EAGAIN: // a signal interrupted the verifier
			continue
		}
		return nil, errno
	}
	return nil, unix.EAGAIN
}

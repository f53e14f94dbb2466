// Package seccomp makes the filter that sends a session's calls to us, and
// speaks the kernel's user-notification protocol on its listener.
package seccomp

import (
	"errors"
	"fmt"
	"sort"

	libseccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h).
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

const (
	x32Bit    = 0x40000000 // __X32_SYSCALL_BIT
	retNotify = uint32(libseccomp.ActionUserNotify)
	retAllow  = uint32(libseccomp.ActionAllow)
	retErrno  = uint32(libseccomp.ActionErrno)
)

// lastKnown is the highest call number whose meaning we know, on every
// architecture (numbers above 423 are shared). Higher ones are notified, so
// that a call of tomorrow's kernel is refused and recorded instead of missed.
const lastKnown = 471

// Newer than the library's table, by number (asm-generic/unistd.h).
var newer = map[string]uint32{
	"file_getattr": 468, "file_setattr": 469, "listns": 470, "rseq_slice_yield": 471,
}

// Test is one comparison of a call's argument. The kernel itself looks only at
// the low word of flags, commands and families, so that is what is compared:
// a comparison of all 64 bits can be passed by setting a high bit.
type Test struct {
	Arg  int
	Kind TestKind
	Val  uint32
}

// TestKind is the kind of a Test.
type TestKind uint8

// The kinds of a Test.
const (
	// Equal holds when the low word is Val; NotEqual when it is not.
	Equal TestKind = iota
	NotEqual
	// AnyBit holds when the low word has any bit of Val.
	AnyBit
	// NonNull holds when any of the 64 bits is set (pointers).
	NonNull
)

// Rule names a call and when to act on it: when any test holds, or always if
// there is none.
type Rule struct {
	Name string
	Any  []Test
	// Errno answers in the filter itself; zero means notification.
	Errno unix.Errno
}

// Number is the call's number on this machine's architecture; ok is false when
// the architecture has no such call.
func Number(name string) (nr int, ok bool) {
	if n, found := newer[name]; found {
		return int(n), true
	}
	info, err := arch.GetInfo("")
	if err != nil {
		return 0, false
	}
	n, found := info.SyscallNames[name]
	return n, found
}

// NativeArch is the AUDIT_ARCH value of this machine.
func NativeArch() (uint32, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return 0, fmt.Errorf("find this machine's seccomp architecture: %w", err)
	}
	return uint32(info.ID), nil
}

// Build makes the filter: foreign architectures, x32 and unknown numbers are
// notified (and will be refused), rules act as they say, everything else runs.
//
// The tests on arguments come first, in our own instructions, since the library
// compares 64 bits; calls without tests follow, assembled by the library. Every
// comparison before an untrapped call returns reads only the architecture and
// the number, so that the kernel's action cache (since Linux 5.11) answers for
// read, write and the like without running the filter at all.
func Build(rules []Rule) ([]bpf.RawInstruction, error) {
	native, err := NativeArch()
	if err != nil {
		return nil, err
	}
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: native, SkipTrue: 1},
		bpf.RetConstant{Val: retNotify},
		bpf.LoadAbsolute{Off: offsetNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: lastKnown + 1, SkipFalse: 1},
		bpf.RetConstant{Val: retNotify},
	}
	var plain []string
	for _, r := range rules {
		nr, ok := Number(r.Name)
		if !ok {
			continue // this architecture has no such call
		}
		if _, late := newer[r.Name]; len(r.Any) == 0 && r.Errno == 0 && !late {
			plain = append(plain, r.Name)
			continue
		}
		block, err := block(uint32(nr), r)
		if err != nil {
			return nil, err
		}
		prog = append(prog, block...)
	}
	tail, err := assemble(plain)
	if err != nil {
		return nil, err
	}
	return bpf.Assemble(append(prog, tail...))
}

// block is one call's instructions: skip them if the number differs, else test
// and return; afterwards the accumulator holds the number again.
func block(nr uint32, r Rule) ([]bpf.Instruction, error) {
	ret := bpf.RetConstant{Val: retNotify}
	if r.Errno != 0 {
		ret.Val = retErrno | uint32(r.Errno)
	}
	if len(r.Any) == 0 {
		return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: 1}, ret}, nil
	}
	var body []bpf.Instruction
	for _, t := range r.Any {
		low := bpf.LoadAbsolute{Off: offsetArgs + 8*uint32(t.Arg), Size: 4}
		switch t.Kind {
		case Equal:
			body = append(body, low, bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.Val, SkipFalse: 1}, ret)
		case NotEqual:
			body = append(body, low, bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.Val, SkipTrue: 1}, ret)
		case AnyBit:
			body = append(body, low, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: t.Val, SkipFalse: 1}, ret)
		case NonNull:
			high := bpf.LoadAbsolute{Off: low.Off + 4, Size: 4}
			for _, word := range []bpf.Instruction{low, high} {
				body = append(body, word, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, ret)
			}
		default:
			return nil, fmt.Errorf("bug: rule for %s has an unknown test %d", r.Name, t.Kind)
		}
	}
	body = append(body, bpf.RetConstant{Val: retAllow})
	if len(body) > 255 {
		return nil, fmt.Errorf("bug: rule for %s has too many tests", r.Name)
	}
	skip := bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: uint8(len(body))}
	return append([]bpf.Instruction{skip}, body...), nil
}

// assemble lets the library make the part for calls without tests.
func assemble(names []string) ([]bpf.Instruction, error) {
	if len(names) == 0 {
		return nil, errors.New("bug: a filter without plain calls")
	}
	sort.Strings(names)
	p := libseccomp.Policy{
		DefaultAction: libseccomp.ActionAllow,
		Syscalls:      []libseccomp.SyscallGroup{{Names: names, Action: libseccomp.ActionUserNotify}},
	}
	insns, err := p.Assemble()
	if err != nil {
		return nil, fmt.Errorf("assemble seccomp filter: %w", err)
	}
	return insns, nil
}

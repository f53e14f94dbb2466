package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// kernelTypes is as much of the kernel's type information as loading a handful of
// programs needs: where the named fields of the named structs are, and the ids of
// the tracepoints' types. The library decodes and indexes all of it, which takes
// 15 ms, and on a machine with modules theirs as well; this takes 3.
type kernelTypes struct {
	raw   []byte   // the type section
	text  []byte   // the string section
	marks []uint32 // offset in raw of each markEvery-th type; type 0 is void
	types uint32   // one more than the highest type id
	named map[string][]uint32
}

// markEvery is how many types one has to step over to find one.
const markEvery = 32

const kernelBTF = "/sys/kernel/btf/vmlinux"

// The layout of BTF: the kernel's Documentation/bpf/btf.rst.
const (
	btfMagic    = 0xeB9F
	btfTypeSize = 12

	kindInt      = 1
	kindPointer  = 2
	kindArray    = 3
	kindStruct   = 4
	kindUnion    = 5
	kindEnum     = 6
	kindTypedef  = 8
	kindVolatile = 9
	kindConst    = 10
	kindRestrict = 11
	kindTypeTag  = 18
	numKinds     = 20
)

// kindExtra is what follows a type of each kind: fixed bytes, and bytes for each
// of its elements.
var kindExtra = [numKinds]struct{ fixed, each uint32 }{
	kindInt: {fixed: 4}, kindArray: {fixed: 12}, kindStruct: {each: 12}, kindUnion: {each: 12},
	kindEnum: {each: 8}, 13: {each: 8}, 14: {fixed: 4}, 15: {each: 12}, 17: {fixed: 4}, 19: {each: 12},
}

var errTypes = errors.New("unreadable kernel types")

// readKernelTypes finds the structs and typedefs that are wanted by name among
// the types of the running kernel. The result is good until release is called.
func readKernelTypes(wanted map[string]bool) (k *kernelTypes, release func(), err error) {
	b, release, err := mapKernelBTF()
	if err != nil {
		return nil, nil, err
	}
	if k, err = parseKernelTypes(b, wanted); err != nil {
		release()
		return nil, nil, err
	}
	return k, release, nil
}

// mapKernelBTF maps the file, which saves reading 6 MB of it, where the kernel
// can do that (Linux 6.16).
func mapKernelBTF() (b []byte, release func(), err error) {
	f, err := os.Open(kernelBTF)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	b, err = unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err == nil {
		return b, func() { _ = unix.Munmap(b) }, nil
	}
	b = make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", kernelBTF, err)
	}
	return b, func() {}, nil
}

func parseKernelTypes(b []byte, wanted map[string]bool) (*kernelTypes, error) {
	const headerSize = 24
	if len(b) < headerSize || binary.NativeEndian.Uint16(b) != btfMagic {
		return nil, fmt.Errorf("%w: no BTF of this byte order", errTypes)
	}
	section := func(at int) ([]byte, bool) {
		start := uint64(binary.NativeEndian.Uint32(b[4:])) + uint64(binary.NativeEndian.Uint32(b[at:]))
		end := start + uint64(binary.NativeEndian.Uint32(b[at+4:]))
		if end > uint64(len(b)) {
			return nil, false
		}
		return b[start:end], true
	}
	k := &kernelTypes{named: map[string][]uint32{}}
	var okTypes, okText bool
	k.raw, okTypes = section(8)
	k.text, okText = section(16)
	if !okTypes || !okText {
		return nil, fmt.Errorf("%w: cut", errTypes)
	}
	return k, k.scan(wanted)
}

// scan finds where each type is, and the wanted ones.
func (k *kernelTypes) scan(wanted map[string]bool) error {
	var begins [256]bool // a wanted name
	for name := range wanted {
		begins[name[0]] = true
	}
	k.marks, k.types = make([]uint32, 1, 1+len(k.raw)/24/markEvery), 1 // 24 bytes is short for the mean type
	for at := uint32(0); at < uint32(len(k.raw)); k.types++ {
		if uint32(len(k.raw))-at < btfTypeSize {
			return fmt.Errorf("%w: cut", errTypes)
		}
		info := k.word(at + 4)
		kind := info >> 24 & 0x1f
		if kind == 0 || kind >= numKinds {
			return fmt.Errorf("%w: a type of kind %d", errTypes, kind)
		}
		if kind == kindStruct || kind == kindTypedef {
			if text := k.word(at); text < uint32(len(k.text)) && begins[k.text[text]] {
				if name := k.name(text); wanted[string(name)] {
					k.named[string(name)] = append(k.named[string(name)], k.types)
				}
			}
		}
		if k.types%markEvery == 0 {
			k.marks = append(k.marks, at)
		}
		at += typeSize(kind, info)
	}
	return nil
}

// typeSize is how many bytes a type of a known kind takes.
func typeSize(kind, info uint32) uint32 {
	return btfTypeSize + kindExtra[kind].fixed + kindExtra[kind].each*(info&0xffff)
}

func (k *kernelTypes) word(at uint32) uint32 { return binary.NativeEndian.Uint32(k.raw[at:]) }

// name is the string at an offset; empty where there is none.
func (k *kernelTypes) name(at uint32) []byte {
	if at >= uint32(len(k.text)) {
		return nil
	}
	s := k.text[at:]
	if i := bytes.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return nil
}

// typedef is the id of a typedef, which must be there once.
func (k *kernelTypes) typedef(name string) (uint32, error) {
	var found []uint32
	for _, id := range k.named[name] {
		if _, kind, _, err := k.header(id); err == nil && kind == kindTypedef {
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("the kernel has %d types %s", len(found), name)
	}
	return found[0], nil
}

// header is where a type stands, its kind, and how many elements it has.
func (k *kernelTypes) header(id uint32) (at, kind, elements uint32, err error) {
	if id == 0 || id >= k.types {
		return 0, 0, 0, fmt.Errorf("%w: no type %d", errTypes, id)
	}
	at = k.marks[id/markEvery]
	from := max(id/markEvery*markEvery, 1) // types count from 1, offsets from 0
	for ; from < id; from++ {
		info := k.word(at + 4)
		at += typeSize(info>>24&0x1f, info)
	}
	info := k.word(at + 4)
	kind, elements = info>>24&0x1f, info&0xffff
	if end := uint64(at) + btfTypeSize + uint64(kindExtra[kind].fixed) +
		uint64(kindExtra[kind].each)*uint64(elements); end > uint64(len(k.raw)) {
		return 0, 0, 0, fmt.Errorf("%w: cut", errTypes)
	}
	return at, kind, elements, nil
}

// maxDepth bounds how far structs by value are followed.
const maxDepth = 8

// spec is the wanted structs with the wanted members, in the library's form.
func (k *kernelTypes) spec(members map[string]map[string]bool) (*btf.Spec, error) {
	var types []btf.Type
	for name, wanted := range members {
		for _, id := range k.named[name] {
			at, kind, _, err := k.header(id)
			if err != nil {
				return nil, err
			}
			if kind != kindStruct {
				continue
			}
			s := &btf.Struct{Name: name, Size: k.word(at + 8)}
			if s.Members, err = k.members(id, 0, 0, func(m string) bool { return wanted[m] }); err != nil {
				return nil, err
			}
			types = append(types, s)
		}
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		return nil, err
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		return nil, err
	}
	return btf.LoadSpecFromReader(bytes.NewReader(raw))
}

// members are the members of a struct or union, those of its nameless parts
// included, with bits from the outermost start. Bit fields are left out.
func (k *kernelTypes) members(id, base uint32, depth int, want func(string) bool) ([]btf.Member, error) {
	at, kind, n, err := k.header(id)
	if err != nil {
		return nil, err
	}
	if kind != kindStruct && kind != kindUnion || depth > maxDepth {
		return nil, nil
	}
	packed := k.word(at+4)>>31 == 1 // offsets carry the size of bit fields
	var out []btf.Member
	for i := range n {
		m := at + btfTypeSize + 12*i
		name, typ, offset := string(k.name(k.word(m))), k.word(m+4), k.word(m+8)
		if packed {
			if offset>>24 != 0 {
				continue
			}
			offset &= 0xffffff
		}
		if name == "" {
			inner, err := k.members(typ, base+offset, depth+1, want)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
			continue
		}
		if !want(name) {
			continue
		}
		t, err := k.convert(typ, depth+1)
		if err != nil {
			return nil, err
		}
		if t != nil {
			out = append(out, btf.Member{Name: name, Type: t, Offset: btf.Bits(base + offset)})
		}
	}
	return out, nil
}

// convert is a member's type with its names and qualifiers taken off; nil for
// what our programs do not read: relocation then finds no such member.
func (k *kernelTypes) convert(id uint32, depth int) (btf.Type, error) {
	for ; depth <= maxDepth; depth++ {
		at, kind, _, err := k.header(id)
		if err != nil {
			return nil, err
		}
		switch kind {
		case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
			id = k.word(at + 8)
			continue
		case kindPointer:
			return &btf.Pointer{Target: &btf.Void{}}, nil
		case kindInt:
			encoding := btf.IntEncoding(k.word(at+btfTypeSize) >> 24 & 0xf)
			return &btf.Int{Name: string(k.name(k.word(at))), Size: k.word(at + 8), Encoding: encoding}, nil
		case kindStruct:
			s := &btf.Struct{Name: string(k.name(k.word(at))), Size: k.word(at + 8)}
			s.Members, err = k.members(id, 0, depth+1, func(string) bool { return true })
			return s, err
		}
		return nil, nil
	}
	return nil, nil
}

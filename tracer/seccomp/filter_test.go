package seccomp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// data is struct seccomp_data as the BPF virtual machine of x/net wants it: the
// machine loads big-endian words, the kernel native ones, so every 32-bit word
// is stored big-endian at its native place.
func data(nr, arch uint32, args [6]uint64) []byte {
	b := make([]byte, 64)
	binary.BigEndian.PutUint32(b[offsetNr:], nr)
	binary.BigEndian.PutUint32(b[offsetArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(b[offsetArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(b[offsetArgs+8*i+4:], uint32(a>>32))
	}
	return b
}

func machine(t testing.TB, rules []Rule) func(nr, arch uint32, args ...uint64) uint32 {
	t.Helper()
	raw, err := Build(rules)
	if err != nil {
		t.Fatal(err)
	}
	insns, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter does not disassemble")
	}
	vm, err := bpf.NewVM(insns)
	if err != nil {
		t.Fatal(err)
	}
	return func(nr, arch uint32, args ...uint64) uint32 {
		var a [6]uint64
		copy(a[:], args)
		n, err := vm.Run(data(nr, arch, a))
		if err != nil {
			t.Fatal(err)
		}
		return uint32(n)
	}
}

var testRules = []Rule{
	{Name: "openat"}, {Name: "execve"}, {Name: "file_setattr"},
	{Name: "clone3", Errno: unix.ENOSYS},
	{Name: "clone", Any: []Test{{Arg: 0, Kind: AnyBit, Val: unix.CLONE_NEWUSER | unix.CLONE_NEWNS}}},
	{Name: "ioctl", Any: []Test{{Arg: 1, Kind: Equal, Val: 0x5412}, {Arg: 1, Kind: Equal, Val: 0x541c}}},
	{Name: "sendto", Any: []Test{{Arg: 4, Kind: NonNull}, {Arg: 3, Kind: AnyBit, Val: 0x20000000}}},
	{Name: "socketpair", Any: []Test{{Arg: 0, Kind: NotEqual, Val: unix.AF_UNIX}}},
}

func TestFilter(t *testing.T) {
	native, err := NativeArch()
	if err != nil {
		t.Fatal(err)
	}
	run := machine(t, testRules)
	const notify, allow = retNotify, retAllow
	rows := []struct {
		name string
		nr   uint32
		arch uint32
		args []uint64
		want uint32
	}{
		{"plain", unix.SYS_OPENAT, native, nil, notify},
		{"untrapped", unix.SYS_READ, native, nil, allow},
		{"newer than the library", 469, native, nil, notify},
		{"newer than us", lastKnown + 1, native, nil, notify},
		{"far beyond", 9999, native, nil, notify},
		{"minus one", 0xffffffff, native, nil, notify},
		{"i386 open", 5, unix.AUDIT_ARCH_I386, nil, notify},
		{"i386 read", 3, unix.AUDIT_ARCH_I386, nil, notify},
		{"x32", 0x40000000 | 257, native, nil, notify},
		{"x32 read", 0x40000000, native, nil, notify},
		{"static errno", 435, native, nil, retErrno | uint32(unix.ENOSYS)},
		{"clone of a thread", unix.SYS_CLONE, native, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		{"clone of a namespace", unix.SYS_CLONE, native, []uint64{unix.CLONE_NEWUSER}, notify},
		{"high bits of flags", unix.SYS_CLONE, native, []uint64{1<<40 | unix.CLONE_NEWNS}, notify},
		{"only high bits", unix.SYS_CLONE, native, []uint64{unix.CLONE_NEWUSER << 32}, allow},
		{"ioctl", unix.SYS_IOCTL, native, []uint64{0, 0x5401}, allow},
		{"TIOCSTI", unix.SYS_IOCTL, native, []uint64{0, 0x5412}, notify},
		{"TIOCSTI with a high bit", unix.SYS_IOCTL, native, []uint64{0, 1<<32 | 0x5412}, notify},
		{"second of two", unix.SYS_IOCTL, native, []uint64{0, 0x541c}, notify},
		{"send", unix.SYS_SENDTO, native, []uint64{3, 1, 1, 0, 0, 0}, allow},
		{"send to", unix.SYS_SENDTO, native, []uint64{3, 1, 1, 0, 0x7000, 16}, notify},
		{"send to a high address", unix.SYS_SENDTO, native, []uint64{3, 1, 1, 0, 1 << 40, 16}, notify},
		{"fast open", unix.SYS_SENDTO, native, []uint64{3, 1, 1, 0x20000000}, notify},
		{"pair", unix.SYS_SOCKETPAIR, native, []uint64{unix.AF_UNIX}, allow},
		{"pair with a high bit", unix.SYS_SOCKETPAIR, native, []uint64{1<<32 | unix.AF_UNIX}, allow},
		{"pair of another family", unix.SYS_SOCKETPAIR, native, []uint64{unix.AF_TIPC}, notify},
	}
	for _, r := range rows {
		if got := run(r.nr, r.arch, r.args...); got != r.want {
			t.Errorf("%s: %#x, want %#x", r.name, got, r.want)
		}
	}
}

// model is what the rules mean, written down a second time.
func model(native uint32, nr, arch uint32, args [6]uint64) uint32 {
	if arch != native || nr > lastKnown {
		return retNotify
	}
	for _, r := range testRules {
		n, ok := Number(r.Name)
		if !ok || uint32(n) != nr {
			continue
		}
		hit := len(r.Any) == 0
		for _, x := range r.Any {
			low := uint32(args[x.Arg])
			switch x.Kind {
			case Equal:
				hit = hit || low == x.Val
			case NotEqual:
				hit = hit || low != x.Val
			case AnyBit:
				hit = hit || low&x.Val != 0
			case NonNull:
				hit = hit || args[x.Arg] != 0
			}
		}
		switch {
		case hit && r.Errno != 0:
			return retErrno | uint32(r.Errno)
		case hit:
			return retNotify
		}
	}
	return retAllow
}

func TestFilterIsItsModel(t *testing.T) {
	native, err := NativeArch()
	if err != nil {
		t.Fatal(err)
	}
	run := machine(t, testRules)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		nr := uint32(rnd.IntN(480))
		arch := native
		if rnd.IntN(20) == 0 {
			arch = rnd.Uint32()
		}
		var args [6]uint64
		for i := range args {
			args[i] = rnd.Uint64() >> rnd.IntN(64)
			if rnd.IntN(4) == 0 {
				args[i] = []uint64{0, unix.AF_UNIX, 0x5412, 0x541c, 1 << 32, unix.CLONE_NEWUSER}[rnd.IntN(6)]
			}
		}
		if got, want := run(nr, arch, args[:]...), model(native, nr, arch, args); got != want {
			t.Fatalf("call %d arch %#x args %#x: %#x, want %#x", nr, arch, args, got, want)
		}
	}
}

package landlock

import (
	"fmt"
	"math/bits"
)

// right describes one bit of AccessFS: its word, the ABI that brought it, and
// what a kernel without it does.
type right struct {
	word    string
	since   int
	without string
}

// rights are in the order of the bits of AccessFS.
var rights = [...]right{
	{"execute", 1, ""},
	{"write_file", 1, ""},
	{"read_file", 1, ""},
	{"read_dir", 1, ""},
	{"remove_dir", 1, ""},
	{"remove_file", 1, ""},
	{"make_char", 1, ""},
	{"make_dir", 1, ""},
	{"make_reg", 1, ""},
	{"make_sock", 1, ""},
	{"make_fifo", 1, ""},
	{"make_block", 1, ""},
	{"make_sym", 1, ""},
	{"refer", 2, "every rename and link between directories is refused"},
	{"truncate", 3, "truncate(2) is not refused by the floor"},
	{"ioctl_dev", 5, "ioctl(2) on devices is not refused by the floor"},
}

const (
	abiTCP   = 4
	abiScope = 6
)

// AllFS are all the rights this package knows.
const AllFS = IoctlDev<<1 - 1

// FileFS are the rights that mean something on a file that is no directory; the
// kernel refuses a rule with any other on one (security/landlock/fs.c,
// ACCESS_FILE).
const FileFS = Execute | WriteFile | ReadFile | Truncate | IoctlDev

// ReadFS and WriteFS are the rights to look at ground and to change it.
const (
	ReadFS  = ReadFile | ReadDir
	WriteFS = WriteFile | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock | MakeFifo |
		MakeSym | Refer | Truncate
)

// SupportedFS are the rights that a kernel of this ABI can handle.
func SupportedFS(abi int) AccessFS {
	var a AccessFS
	for i, r := range rights {
		if abi >= r.since {
			a |= 1 << i
		}
	}
	return a
}

// Words are the names of the set's members in the kernel's order; bits that this
// package does not know are named by number.
func (a AccessFS) Words() []string {
	var out []string
	for rest := uint64(a); rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		if i < len(rights) {
			out = append(out, rights[i].word)
			continue
		}
		out = append(out, fmt.Sprintf("bit %d", i))
	}
	return out
}

// dropped states, one sentence each, what of s a kernel of this ABI cannot hold.
func (s Spec) dropped(abi int) []string {
	var out []string
	for i, r := range rights {
		if s.HandledFS&(1<<i) != 0 && abi < r.since {
			out = append(out, gap(r.word, r.since, abi, r.without))
		}
	}
	if s.HandledTCP && abi < abiTCP {
		out = append(out, gap("tcp", abiTCP, abi, "bind and connect are not refused by the floor"))
	}
	if s.ScopeSignal && abi < abiScope {
		out = append(out, gap("scope signal", abiScope, abi,
			"signals to other processes are not refused by the floor"))
	}
	if s.ScopeAbstract && abi < abiScope {
		out = append(out, gap("scope abstract", abiScope, abi,
			"abstract unix sockets of others are not refused by the floor"))
	}
	return out
}

func gap(word string, since, abi int, without string) string {
	return fmt.Sprintf("landlock %s needs ABI %d, this kernel has %d: %s", word, since, abi, without)
}

// Package landlock is the floor that Landlock holds: a Spec says what the kernel
// itself still lets a session do whatever the gate is tricked into.
package landlock

// AccessFS is a set of Landlock's file rights, the kernel's own bits
// (LANDLOCK_ACCESS_FS_*, linux/landlock.h).
type AccessFS uint64

// The file rights, in the kernel's order.
const (
	Execute AccessFS = 1 << iota
	WriteFile
	ReadFile
	ReadDir
	RemoveDir
	RemoveFile
	MakeChar
	MakeDir
	MakeReg
	MakeSock
	MakeFifo
	MakeBlock
	MakeSym
	Refer    // ABI 2
	Truncate // ABI 3
	IoctlDev // ABI 5
)

// PathRule grants Access on the file Path, or on everything below it when it is
// a directory. Path is absolute and resolved.
type PathRule struct {
	Path   string
	Access AccessFS
}

// Spec is one ruleset. The zero Spec restricts nothing.
type Spec struct {
	// HandledFS are the rights that are refused unless a rule grants them.
	HandledFS AccessFS
	Paths     []PathRule
	// SkipLinks leaves out rules on paths that cannot be reached, or only through
	// a symbolic link, instead of failing: they grant nothing.
	SkipLinks bool
	// HandledTCP refuses bind and connect on TCP but for the ports listed.
	HandledTCP              bool
	BindPorts, ConnectPorts []uint16
	// ScopeSignal and ScopeAbstract keep signals, and connections to abstract
	// unix sockets, inside the session (ABI 6).
	ScopeSignal, ScopeAbstract bool
}

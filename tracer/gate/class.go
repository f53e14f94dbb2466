package gate

// Class groups operations that are handled alike. Policy lowers to one Handling
// a class; the filter, the floor and `policy check` are made from that table.
type Class uint8

// The classes.
const (
	// Read is an open that can only read.
	Read Class = iota
	// Write is an open that may change content or make the file.
	Write
	// Tree changes names: delete, rename, link, symlink, mkdir, rmdir, mknod.
	Tree
	// Meta is truncate, chmod, chown, setxattr, utime.
	Meta
	// Exec is execve and execveat.
	Exec
	// Connect is connect; Bind is bind and listen; Send is a datagram with an
	// address; Socket is the making of a socket.
	Connect
	Bind
	Send
	Socket
	// Signal is kill and its kin, for kernels without Landlock's signal scope.
	Signal
	// Creds is setuid and its kin: never judged, watched to know who a task is.
	Creds
	// Memfd is memfd_create.
	Memfd
	// Kernel is what a supervised tree has no business with: mount, bpf,
	// namespaces, io_uring, ptrace … (see seccomp.Surfaces).
	Kernel
	NumClasses
)

// Handling says what the gate does with the calls of a class.
type Handling uint8

// The handlings.
const (
	// Untrapped calls do not reach us at all.
	Untrapped Handling = iota
	// Continue decides, then lets the kernel carry on: only where the floor
	// refuses whatever the arguments are changed to, or where all is allowed.
	Continue
	// Perform decides on a pinned object and acts on it for the task.
	Perform
	// Refuse denies every call of the class, and records it.
	Refuse
	// Hook leaves the calls of the class Read or Write to the hooks of package
	// lsm; those that the hooks cannot judge alone are performed: handles
	// (O_PATH), openat2, whose flags are in memory, and exclusive making, which
	// is how git writes what it guards.
	Hook
)

var classNames = [NumClasses]string{
	"read", "write", "tree", "meta", "exec", "connect", "bind", "send", "socket", "signal",
	"creds", "memfd", "kernel",
}

// String is the class's word.
func (c Class) String() string {
	if c < NumClasses {
		return classNames[c]
	}
	return ""
}

// String is the handling's word.
func (h Handling) String() string {
	switch h {
	case Untrapped:
		return "untrapped"
	case Continue:
		return "continue"
	case Perform:
		return "perform"
	case Refuse:
		return "refuse"
	case Hook:
		return "hook"
	}
	return ""
}

// Table is the handling of every class.
type Table [NumClasses]Handling

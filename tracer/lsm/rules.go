package lsm

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/automaton"
	"github.com/reeve-audit/reeve/tracer/event"
)

// Outcome is what one plane says of the paths of one accept class: the actions
// as a policy has them, ActionNone where it says nothing.
type Outcome struct {
	Read, Write, Exec event.Action
	// Make is the action for a file or directory that the very call makes.
	Make event.Action
	// HideRead, HideWrite and HideExec say that a refusal of the access looks as
	// if nothing were there.
	HideRead, HideWrite, HideExec bool
	// Terminal says that only the session's own terminals pass.
	Terminal bool
	// Own says that writing and making pass in a directory that the session made,
	// Secret that reading and writing do of a file that it made.
	Own, Secret bool
}

// The rest of an outcome's bits, as bpf/lsm.h has them.
const (
	outHide     = 2 * bpf.LsmWayNUM_WAYS
	outTerminal = 1 << 15
	outOwn      = 1 << 16
	outSecret   = 1 << 17
)

func (o Outcome) pack() uint32 {
	var out uint32
	for way, w := range map[bpf.LsmWay]struct {
		action event.Action
		hide   bool
	}{
		bpf.LsmWayWAY_READ: {o.Read, o.HideRead}, bpf.LsmWayWAY_WRITE: {o.Write, o.HideWrite},
		bpf.LsmWayWAY_UPDATE: {max(o.Read, o.Write), o.HideWrite},
		bpf.LsmWayWAY_EXEC:   {o.Exec, o.HideExec}, bpf.LsmWayWAY_MAKE: {o.Make, o.HideWrite},
	} {
		out |= uint32(w.action) << (2 * way)
		if w.hide {
			out |= 1 << (outHide + way)
		}
	}
	if o.Terminal {
		out |= outTerminal
	}
	if o.Own {
		out |= outOwn
	}
	if o.Secret {
		out |= outSecret
	}
	return out
}

// Plane is one automaton of a policy. The planes are asked in their order; of
// those that say the same the first is named.
type Plane struct {
	// Need are the accesses that the plane can refuse: AccessRead, AccessWrite,
	// AccessExec.
	Need event.Access
	// Auto is nil for a plane that says one thing of all paths.
	Auto *automaton.Automaton
	// Outcomes are by accept class; one for a plane without automaton.
	Outcomes []Outcome
}

// Surface is a set of what a task of the session may not do by itself.
type Surface uint32

// The surfaces: parts of the kernel, and classes of calls that only the
// supervisor makes for a task.
const (
	Mount     = Surface(bpf.LsmSurfaceSURFACE_MOUNT)
	Namespace = Surface(bpf.LsmSurfaceSURFACE_NAMESPACE)
	BPF       = Surface(bpf.LsmSurfaceSURFACE_BPF)
	Perf      = Surface(bpf.LsmSurfaceSURFACE_PERF)
	Module    = Surface(bpf.LsmSurfaceSURFACE_MODULE)
	Ptrace    = Surface(bpf.LsmSurfaceSURFACE_PTRACE)
	Chroot    = Surface(bpf.LsmSurfaceSURFACE_CHROOT)
	Connect   = Surface(bpf.LsmSurfaceSURFACE_CONNECT)
	Bind      = Surface(bpf.LsmSurfaceSURFACE_BIND)
	Send      = Surface(bpf.LsmSurfaceSURFACE_SEND)
	// Tree are changes of directories, links and sockets.
	Tree = Surface(bpf.LsmSurfaceSURFACE_TREE)
	// Xattr are extended attributes.
	Xattr = Surface(bpf.LsmSurfaceSURFACE_XATTR)
	// Socket is the making of sockets of families that are not open.
	Socket = Surface(bpf.LsmSurfaceSURFACE_SOCKET)
)

// Usersock is the bit of [Rules].Families for NETLINK_USERSOCK: that of AF_UNSPEC, of
// which no socket is.
const Usersock = uint64(1) << unix.AF_UNSPEC

// Rules are what the hooks hold: a policy, lowered.
type Rules struct {
	Planes []Plane
	// Temp is the session's own directory, which the automata know as TempAlias;
	// both empty if there is none.
	Temp, TempAlias string
	// RecordOnly holds nothing but what a plane refuses; paths that cannot be
	// named pass.
	RecordOnly bool
	// AnySignal lets tasks outside be signalled, MemoryExec files without a name
	// run.
	AnySignal, MemoryExec bool
	// Hides says that a plane hides names, so that stat has to be judged, too.
	Hides bool
	// Names says that names and metadata are changed by other calls than those
	// that the supervisor makes, so that their hooks have to judge.
	Names  bool
	Closed Surface
	// Families is a bit set of the socket families that are open besides unix,
	// and TCP and UDP; AF_INET stands for their other protocols. Without [Usersock]
	// netlink is open but for its protocol between programs.
	Families uint64
	// Marks says that what the session makes is marked, as Bulk, Outcome.Own and
	// Outcome.Secret need it.
	Marks bool
	// Bulk is counted by the hooks; the zero value is no limit, or one that the
	// gate counts, to which all that can change a file is notified then.
	Bulk Bulk
}

// Bulk is a limit on how many files that were there before the session may lose
// what they held within a time: by opens, which the hooks count, and by what the
// supervisor does for a task, see Engine.Lose.
type Bulk struct {
	Files  int
	Window time.Duration
	// Expendable tells the paths that do not count: those of whose accept class
	// IsExpendable is true.
	Expendable   *automaton.Automaton
	IsExpendable []bool
	// Keepers are names of programs whose changes do not count, where a program of
	// the name stands that the session could not have put there.
	Keepers []string
	// Held is the decision about one file too many.
	Held event.Decision
}

// MaxPlanes is how many planes the kernel's side has room for.
const MaxPlanes = len(bpf.LsmSession{}.Planes)

// maxCells bounds the table, 64 MiB.
const maxCells = 16 << 20

// procSelf is where rules speak of own tasks.
const procSelf = "/proc/self"

// tables lays the planes out in one table of cells, and says in s where they are.
func (r *Rules) tables(s *bpf.LsmSession) ([]uint32, error) {
	if len(r.Planes) > MaxPlanes {
		return nil, fmt.Errorf("bug: %d planes, the kernel's side takes %d", len(r.Planes), MaxPlanes)
	}
	if len(r.Temp) >= len(s.Temp) {
		return nil, fmt.Errorf("the session's directory %s has a name of more than %d bytes", r.Temp, len(s.Temp)-1)
	}
	s.TempLen = uint32(copy(s.Temp[:], r.Temp))
	if r.Marks {
		s.Marks = 1
	}
	var t table
	for i := range r.Planes {
		p := &r.Planes[i]
		const accesses = event.AccessRead | event.AccessWrite | event.AccessExec
		if p.Need == 0 || p.Need&^accesses != 0 {
			return nil, fmt.Errorf("bug: plane %d can refuse %v", i, p.Need)
		}
		outcomes := make([]uint32, len(p.Outcomes))
		for a, o := range p.Outcomes {
			outcomes[a] = o.pack()
		}
		to, class, err := t.lay(p.Auto, r.TempAlias, outcomes)
		if err != nil {
			return nil, fmt.Errorf("lay out plane %d: %w", i, err)
		}
		to.Need = uint32(p.Need)
		s.Planes[i], s.Class[i] = to, class
	}
	if err := r.limit(s, &t); err != nil {
		return nil, err
	}
	// A power of two, so that an index can be cut to size without a question.
	for n := len(t.cells); n < 4 || n&(n-1) != 0; n++ {
		t.cells = append(t.cells, 0)
	}
	s.Cells = uint32(len(t.cells))
	return t.cells, nil
}

// limit is what the hooks count, see Bulk.
func (r *Rules) limit(s *bpf.LsmSession, t *table) (err error) {
	b := &r.Bulk
	if b.Files == 0 {
		return nil
	}
	if b.Files < 0 || !r.Marks || b.Window <= 0 || b.Expendable == nil || len(b.Keepers) > len(s.Keeper) {
		return fmt.Errorf("bug: a limit of %d files in %v, %d programs without", b.Files, b.Window, len(b.Keepers))
	}
	outcomes := make([]uint32, len(b.IsExpendable))
	for a, yes := range b.IsExpendable {
		if yes {
			outcomes[a] = 1
		}
	}
	if s.Expendable, s.ExpendableClass, err = t.lay(b.Expendable, r.TempAlias, outcomes); err != nil {
		return fmt.Errorf("lay out what is expendable: %w", err)
	}
	for i, name := range b.Keepers {
		var text [8 * len(s.Keeper[i])]byte
		if copy(text[:len(text)-1], name) != len(name) {
			return fmt.Errorf("bug: program %s has a name of more than %d bytes", name, len(text)-1)
		}
		for k := range s.Keeper[i] {
			s.Keeper[i][k] = binary.NativeEndian.Uint64(text[8*k:])
		}
	}
	s.BulkFiles, s.BulkWindow = uint32(b.Files), uint64(b.Window)
	return nil
}

// table is all automata, one after another.
type table struct{ cells []uint32 }

// lay appends the rows of an automaton: for each class of bytes the first cell of
// the row that follows, and the outcome, which is one a class of accepting states.
func (t *table) lay(auto *automaton.Automaton, alias string, outcomes []uint32) (to bpf.LsmPlane, class [256]uint8, err error) {
	tables := automaton.Tables{Classes: 1, Next: []uint16{0}, Accept: []uint32{0}}
	var from [4]automaton.State
	if auto != nil {
		tables = auto.Tables()
		from = [4]automaton.State{
			bpf.LsmFromFROM_START: auto.Start(), bpf.LsmFromFROM_SELF: auto.Run(auto.Start(), procSelf),
			bpf.LsmFromFROM_TEMP: auto.Run(auto.Start(), alias),
		}
	}
	if n := len(t.cells) + len(tables.Next) + len(tables.Accept); n > maxCells {
		return to, class, fmt.Errorf("the policy's tables take more than %d MiB", maxCells>>18)
	}
	to.Classes, class = tables.Classes, tables.ByteClass
	base := uint32(len(t.cells))
	row := func(state uint32) uint32 { return base + state*(tables.Classes+1) }
	for i, state := range from {
		to.From[i] = row(uint32(state))
	}
	for state, accept := range tables.Accept {
		if int(accept) >= len(outcomes) {
			return to, class, fmt.Errorf("bug: there is no outcome for accept class %d", accept)
		}
		first := state * int(tables.Classes)
		for _, next := range tables.Next[first : first+int(tables.Classes)] {
			t.cells = append(t.cells, row(uint32(next)))
		}
		t.cells = append(t.cells, outcomes[accept])
	}
	return to, class, nil
}

// flags are the modes of the hooks.
func (r *Rules) flags() uint32 {
	var f bpf.LsmMode
	for bit, set := range map[bpf.LsmMode]bool{
		bpf.LsmModeRECORD_ONLY: r.RecordOnly, bpf.LsmModeANY_SIGNAL: r.AnySignal, bpf.LsmModeMEMORY_EXEC: r.MemoryExec,
	} {
		if set {
			f |= bit
		}
	}
	return uint32(f)
}

package lsm

import (
	"fmt"

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
}

// The rest of an outcome's bits, as bpf/lsm.h has them.
const (
	outHide     = 2 * bpf.LsmWayNUM_WAYS
	outTerminal = 1 << 15
)

func (o Outcome) pack() uint16 {
	var out uint16
	for way, w := range map[bpf.LsmWay]struct {
		action event.Action
		hide   bool
	}{
		bpf.LsmWayWAY_READ: {o.Read, o.HideRead}, bpf.LsmWayWAY_WRITE: {o.Write, o.HideWrite},
		bpf.LsmWayWAY_UPDATE: {max(o.Read, o.Write), o.HideWrite},
		bpf.LsmWayWAY_EXEC:   {o.Exec, o.HideExec}, bpf.LsmWayWAY_MAKE: {o.Make, o.HideWrite},
	} {
		out |= uint16(w.action) << (2 * way)
		if w.hide {
			out |= 1 << (outHide + way)
		}
	}
	if o.Terminal {
		out |= outTerminal
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
	// and TCP and UDP; AF_INET stands for their other protocols.
	Families uint64
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
	var cells []uint32
	for i := range r.Planes {
		var err error
		if cells, err = r.lay(s, i, cells); err != nil {
			return nil, err
		}
	}
	// A power of two, so that an index can be cut to size without a question.
	for n := len(cells); n < 4 || n&(n-1) != 0; n++ {
		cells = append(cells, 0)
	}
	s.Cells = uint32(len(cells))
	return cells, nil
}

// lay appends the rows of one plane: for each class of bytes the first cell of the
// row that follows, and the outcome.
func (r *Rules) lay(s *bpf.LsmSession, i int, cells []uint32) ([]uint32, error) {
	p, to := &r.Planes[i], &s.Planes[i]
	const accesses = event.AccessRead | event.AccessWrite | event.AccessExec
	if p.Need == 0 || p.Need&^accesses != 0 {
		return nil, fmt.Errorf("bug: plane %d can refuse %v", i, p.Need)
	}
	t := automaton.Tables{Classes: 1, Next: []uint16{0}, Accept: []uint32{0}}
	var from [4]automaton.State
	if p.Auto != nil {
		t = p.Auto.Tables()
		from = [4]automaton.State{
			bpf.LsmFromFROM_START: p.Auto.Start(), bpf.LsmFromFROM_SELF: p.Auto.Run(p.Auto.Start(), procSelf),
			bpf.LsmFromFROM_TEMP: p.Auto.Run(p.Auto.Start(), r.TempAlias),
		}
	}
	if n := len(cells) + len(t.Next) + len(t.Accept); n > maxCells {
		return nil, fmt.Errorf("the policy's tables take more than %d MiB", maxCells>>18)
	}
	to.Need, to.Classes, s.Class[i] = uint32(p.Need), t.Classes, t.ByteClass
	base := uint32(len(cells))
	row := func(state uint32) uint32 { return base + state*(t.Classes+1) }
	for i, state := range from {
		to.From[i] = row(uint32(state))
	}
	for state, accept := range t.Accept {
		if int(accept) >= len(p.Outcomes) {
			return nil, fmt.Errorf("bug: plane %d has no outcome for accept class %d", i, accept)
		}
		first := state * int(t.Classes)
		for _, next := range t.Next[first : first+int(t.Classes)] {
			cells = append(cells, row(uint32(next)))
		}
		cells = append(cells, uint32(p.Outcomes[accept].pack()))
	}
	return cells, nil
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

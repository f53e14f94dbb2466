package replay

import (
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// MaxFiles is how many objects a Process lists; the rest is counted.
const MaxFiles = 10000

// Process is one task of a session, as far as the records tell.
type Process struct {
	ID     string   `json:"id"`
	PID    int32    `json:"pid"`
	PPID   int32    `json:"ppid,omitempty"`
	Parent *Process `json:"-"`
	// Children stand in the order in which they appear in the record.
	Children []*Process `json:"children,omitempty"`
	// Exe and Argv are the program that ran last, Programs all that were
	// started, refused ones included.
	Exe      string    `json:"exe,omitempty"`
	Argv     []string  `json:"argv,omitempty"`
	Cwd      string    `json:"cwd,omitempty"`
	Programs []Program `json:"programs,omitempty"`
	// First and Last are the times of the first and last record of the task,
	// FirstSeq and LastSeq their places.
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	FirstSeq uint64    `json:"first_seq"`
	LastSeq  uint64    `json:"last_seq"`
	// Exited says that the end is recorded, with its code or signal.
	Exited     bool  `json:"exited"`
	ExitCode   int32 `json:"exit_code"`
	ExitSignal int32 `json:"exit_signal,omitempty"`
	// Requests, Denied and Asked count operations.
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
	Asked    uint64 `json:"asked"`
	// Objects are what it touched, in the order of the first touch; MoreObjects
	// counts touches of others.
	Objects     []*Touch `json:"objects,omitempty"`
	MoreObjects uint64   `json:"more_objects,omitempty"`

	touched map[touchKey]*Touch
}

// Program is one exec of a Process.
type Program struct {
	Time   time.Time `json:"time"`
	Seq    uint64    `json:"seq"`
	Path   string    `json:"path"`
	Argv   []string  `json:"argv,omitempty"`
	Denied bool      `json:"denied,omitempty"`
	// Confirmed says that the kernel reported it too.
	Confirmed bool `json:"confirmed,omitempty"`
}

// Touch is what a Process did with one object.
type Touch struct {
	// Name is the path, or the address and port, by kind.
	Kind event.ObjectKind `json:"kind"`
	Name string           `json:"name"`
	// Allowed and Refused are the accesses that were and were not granted.
	Allowed event.Access `json:"allowed,omitempty"`
	Refused event.Access `json:"refused,omitempty"`
	Count   uint64       `json:"count"`
	Denied  uint64       `json:"denied,omitempty"`
	// Tried are the accesses that were granted and failed all the same, Failed of times.
	Tried  event.Access `json:"tried,omitempty"`
	Failed uint64       `json:"failed,omitempty"`
	// FirstSeq is the first record of it.
	FirstSeq uint64 `json:"first_seq"`
}

type touchKey struct {
	kind event.ObjectKind
	name string
	port uint16
}

// Tree is the processes of a session. Add the records in order.
type Tree struct {
	// Roots are processes without a known parent.
	Roots []*Process
	byID  map[string]*Process
	byPID map[int32]*Process // the latest of each pid
}

// NewTree is empty.
func NewTree() *Tree {
	return &Tree{byID: make(map[string]*Process), byPID: make(map[int32]*Process)}
}

// Process is the process with an id, nil when no record names it.
func (t *Tree) Process(id string) *Process { return t.byID[id] }

// Add takes the next record and returns the process it is about, nil for
// records of the stream itself.
func (t *Tree) Add(e *event.Event) *Process {
	if e.Task.ID == "" {
		return nil
	}
	p := t.byID[e.Task.ID]
	if p == nil {
		p = t.appear(e)
	}
	p.see(e)
	switch e.Op {
	case event.OpFork:
		return p // appear did it
	case event.OpExit:
		p.Exited, p.ExitCode, p.ExitSignal = true, e.ExitCode, e.ExitSignal
		return p
	case event.OpExec:
		p.exec(e)
	}
	if e.Kind == event.KindRequest {
		p.count(e)
	}
	return p
}

// appear makes the process of a task that is seen for the first time.
func (t *Tree) appear(e *event.Event) *Process {
	p := &Process{
		ID: e.Task.ID, PID: e.Task.PID, PPID: e.Task.PPID, First: e.Time, FirstSeq: e.Seq,
		touched: make(map[touchKey]*Touch),
	}
	parent := t.byPID[p.PPID]
	if e.Op == event.OpFork && e.Object.Kind == event.ObjectTask && t.byID[e.Object.Path] != nil {
		parent = t.byID[e.Object.Path] // by identity: pids are used again
	}
	if parent != nil && parent != p {
		p.Parent = parent
		p.Exe, p.Argv, p.Cwd = parent.Exe, parent.Argv, parent.Cwd
		parent.Children = append(parent.Children, p)
	} else {
		t.Roots = append(t.Roots, p)
	}
	t.byID[p.ID] = p
	t.byPID[p.PID] = p
	return p
}

// see takes what every record says about its task.
func (p *Process) see(e *event.Event) {
	p.Last, p.LastSeq = e.Time, e.Seq
	if p.PPID == 0 {
		p.PPID = e.Task.PPID
	}
	if e.Task.Cwd != "" {
		p.Cwd = e.Task.Cwd
	}
	// A refused exec names what did not run.
	if e.Task.Exe != "" && (e.Op != event.OpExec || e.Kind == event.KindFact && e.Action != event.ActionDeny) {
		p.Exe = e.Task.Exe
	}
}

// exec notes a program. The request and the kernel's report of it are one.
func (p *Process) exec(e *event.Event) {
	denied := e.Action == event.ActionDeny
	last := len(p.Programs) - 1
	if e.Kind == event.KindFact && last >= 0 && !p.Programs[last].Confirmed && !p.Programs[last].Denied &&
		p.Programs[last].Path == e.Object.Path {
		p.Programs[last].Confirmed = true
		p.Programs[last].Denied = denied
		if len(e.Task.Argv) > 0 {
			p.Programs[last].Argv, p.Argv = e.Task.Argv, e.Task.Argv
		}
		return
	}
	p.Programs = append(p.Programs, Program{
		Time: e.Time, Seq: e.Seq, Path: e.Object.Path, Argv: e.Task.Argv, Denied: denied,
		Confirmed: e.Kind == event.KindFact,
	})
	if denied || e.Action == event.ActionAsk {
		return
	}
	p.Argv = e.Task.Argv
	if e.Kind == event.KindRequest && e.Object.Path != "" {
		p.Exe = e.Object.Path
	}
}

// count counts an operation and what it touched.
func (p *Process) count(e *event.Event) {
	p.Requests++
	switch e.Action {
	case event.ActionDeny:
		p.Denied++
	case event.ActionAsk:
		p.Asked++
	}
	for _, o := range []*event.Object{&e.Object, &e.Target} {
		name := o.Path
		if o.Addr != "" {
			name = o.Addr
		}
		if name != "" {
			p.touch(e, o, touchKey{o.Kind, name, o.Port})
		}
	}
}

func (p *Process) touch(e *event.Event, o *event.Object, key touchKey) {
	t := p.touched[key]
	if t == nil {
		if len(p.Objects) >= MaxFiles {
			p.MoreObjects++
			return
		}
		t = &Touch{Kind: o.Kind, Name: objectName(o), FirstSeq: e.Seq}
		p.touched[key] = t
		p.Objects = append(p.Objects, t)
	}
	t.Count++
	if e.Action == event.ActionDeny {
		t.Denied++
		t.Refused |= e.Access
		return
	}
	if e.Errno != 0 {
		t.Failed++
		t.Tried |= e.Access
		return
	}
	t.Allowed |= e.Access
}

// Walk calls f for every process, parents first, with its depth; it stops when
// f returns false. It does not recurse: a tree may be as deep as it likes.
func (t *Tree) Walk(f func(p *Process, depth int) bool) {
	type at struct {
		p     *Process
		depth int
	}
	var stack []at
	push := func(list []*Process, depth int) {
		for i := len(list) - 1; i >= 0; i-- {
			stack = append(stack, at{list[i], depth})
		}
	}
	push(t.Roots, 0)
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !f(top.p, top.depth) {
			return
		}
		push(top.p.Children, top.depth+1)
	}
}

package lsm

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/ring"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// Sizes of the rings between the kernel and Run.
const (
	DefaultUrgentBytes = 1 << 20
	DefaultFlowBytes   = 8 << 20
)

// Config says what a session's hooks hold.
type Config struct {
	// Session is stamped on the kernel's records; any number.
	Session uint64
	Rules   Rules
	// Strict refuses what finds no room to be recorded.
	Strict bool
	// Room is what the witness records forks, execs and exits in; with Strict
	// the first two are refused when it has none. The zero value leaves that to
	// chance. The witness must have been attached before.
	Room witness.Room
	// Inner says that the session was begun inside another, whose hooks are in
	// place and judge its tasks, too: see Enclose.
	Inner bool
	// Covered is what those have closed already, see Rules.Covers.
	Covered Surface
	// UrgentBytes and FlowBytes are the sizes of the rings of denials and of what
	// is allowed: powers of two of whole pages; 0 is the default.
	UrgentBytes, FlowBytes int
	// Numbers are those of the rings in the session, of denials and of what is
	// allowed. With them, what was read stays in the rings until it is acked, see
	// package ring; 0 gives it back at once.
	Numbers [2]uint32
}

// Engine holds one session. It must not be closed before the session's last task
// is gone, and its Links must be held open by who ends the tree should this
// process die.
type Engine struct {
	loaded  *ebpf.Collection
	mu      sync.Mutex // guards links
	links   []link.Link
	urgent  *ring.Reader
	flow    *ring.Reader
	losses  counters
	session uint64
	marks   bool // the session's own things are marked
	settle  settling
}

// ErrCrowded says that the kernel has no place left for one more program at a hook:
// it takes 38, one for each session and each session inside one.
var ErrCrowded = errors.New("the kernel has no room for the hooks of one more session (38 at once): end one first")

// New loads and attaches the programs; nobody is held before Adopt.
func New(cfg Config) (_ *Engine, err error) {
	e := &Engine{session: cfg.Session, marks: cfg.Rules.Marks}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("load the LSM programs: %w", err), e.Close())
		}
	}()
	defer leave()
	names := hooks(&cfg)
	if e.loaded, err = load(&cfg, names); err != nil {
		return nil, err
	}
	if err := e.fill(); err != nil {
		return nil, err
	}
	if cfg.Rules.Bulk.Files > 0 {
		// Whether the kernel runs programs is found out by loading one, which threads
		// that act for a task may not.
		if _, err := e.Lose(0); err != nil {
			return nil, err
		}
	}
	if err := e.attach(names); err != nil {
		return nil, err
	}
	return e, e.openRings(cfg.Numbers)
}

// keepsRoom says that forks and execs need room in the witness's ring.
func (c *Config) keepsRoom() bool { return c.Strict && c.Room.Ring != nil }

// fill freezes the table and names the terminals that the session is started on.
func (e *Engine) fill() error {
	if err := e.loaded.Maps[bpf.LsmMapCells].Freeze(); err != nil {
		return fmt.Errorf("freeze the policy's table: %w", err)
	}
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
			continue
		}
		if err := e.loaded.Maps[bpf.LsmMapTerminals].Put(uint32(toKernelDev(st.Rdev)), uint32(1)); err != nil {
			return fmt.Errorf("name the session's terminal: %w", err)
		}
	}
	return nil
}

// patience is for how long a place at a hook is waited for: sessions leave theirs a
// second after they have ended, see package spawn.
const patience = 1500 * time.Millisecond

func place(p *ebpf.Program) (link.Link, error) {
	if p.Type() == ebpf.Tracing {
		return link.AttachTracing(link.TracingOptions{Program: p})
	}
	return link.AttachLSM(link.LSMOptions{Program: p})
}

func (e *Engine) attach(names []string) error {
	for _, name := range names {
		p := e.loaded.Programs[name]
		if p.Type() == ebpf.Syscall { // it is run, at no hook
			continue
		}
		l, err := place(p)
		for until := time.Now().Add(patience); errors.Is(err, unix.E2BIG) && time.Now().Before(until); l, err = place(p) {
			time.Sleep(patience / 50)
		}
		if errors.Is(err, unix.E2BIG) {
			return fmt.Errorf("attach %s: %w", name, ErrCrowded)
		}
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		e.links = append(e.links, l)
	}
	return nil
}

func (e *Engine) openRings(numbers [2]uint32) (err error) {
	if e.urgent, err = openRing(e.loaded.Maps[bpf.LsmMapUrgent], numbers[0]); err != nil {
		return err
	}
	if e.flow, err = openRing(e.loaded.Maps[bpf.LsmMapFlow], numbers[1]); err != nil {
		return err
	}
	e.settle.init()
	e.losses = counters{losses: e.loaded.Maps[bpf.LsmMapLosts], seen: map[Cause]uint64{}}
	return nil
}

// openRing keeps what is read if the ring has a number.
func openRing(m *ebpf.Map, number uint32) (*ring.Reader, error) {
	return ring.Open(ring.Config{FD: m.FD(), Size: int(m.MaxEntries()), Number: number, Keep: number != 0})
}

// Rings are the engine's, of denials and of what is allowed.
func (e *Engine) Rings() []*ring.Reader { return []*ring.Reader{e.urgent, e.flow} }

// Session is what Config said.
func (e *Engine) Session() uint64 { return e.session }

// Links are descriptors that keep the hooks in place as long as anybody holds
// them. They stay the engine's.
func (e *Engine) Links() ([]int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fds := make([]int, 0, len(e.links))
	for _, l := range e.links {
		raw, ok := l.(interface{ FD() int })
		if !ok {
			return nil, errors.New("bug: a link without a descriptor")
		}
		fds = append(fds, raw.FD())
	}
	return fds, nil
}

// Pin keeps the hooks in place while their pins in dir, a directory of a BPF file
// system, are there.
func (e *Engine) Pin(dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, l := range e.links {
		if err := l.Pin(filepath.Join(dir, "hook"+strconv.Itoa(i))); err != nil {
			return fmt.Errorf("pin the hooks: %w", err)
		}
	}
	return nil
}

// Release lets go of the links. The hooks stay in place as long as somebody else
// holds them; if nobody does this takes long, since the kernel waits for each
// until no processor runs its program any more.
func (e *Engine) Release() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, l := range e.links {
		errs = append(errs, l.Close())
	}
	e.links = nil
	return errors.Join(errs...)
}

// Close detaches the hooks. End Run by its context first where the last records
// matter.
func (e *Engine) Close() error {
	errs := []error{e.Release()}
	for _, r := range e.Rings() {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	if e.loaded != nil {
		e.loaded.Close()
	}
	return errors.Join(errs...)
}

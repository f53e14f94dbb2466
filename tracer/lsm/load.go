package lsm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sync/errgroup"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/event"
)

// types are the kernel's types: see kernelTypes.
var types atomic.Pointer[btf.Cache]

// kernelTypes are the kernel's types, which take long to read and megabytes to keep:
// all that a start loads shares them, and forgetTypes ends it.
func kernelTypes() *btf.Cache {
	types.CompareAndSwap(nil, btf.NewCache())
	if c := types.Load(); c != nil {
		return c
	}
	return btf.NewCache()
}

// forgetTypes lets go of them. The tests, which load again and again, keep them.
var forgetTypes = func() { types.Store(nil) }

// load makes the maps and hands the programs of these names to the verifier.
func load(cfg *Config, names []string) (*ebpf.Collection, error) {
	spec, err := bpf.LoadLsm()
	if err != nil {
		return nil, err
	}
	var settings bpf.LsmSession
	cells, err := settle(&settings, cfg)
	if err != nil {
		return nil, err
	}
	if err := fit(spec, cfg, &settings, cells); err != nil {
		return nil, err
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(names, name) })
	var shared map[string]*ebpf.Map
	if cfg.keepsRoom() {
		spec.Maps[bpf.LsmMapFacts].MaxEntries = cfg.Room.Ring.MaxEntries()
		shared = map[string]*ebpf.Map{bpf.LsmMapFacts: cfg.Room.Ring}
	}
	defer forgetTypes()
	return loadTogether(spec, ebpf.CollectionOptions{MapReplacements: shared, Cache: kernelTypes()})
}

// maxVerifiers is how many programs are verified at once at most.
const maxVerifiers = 4

// loadTogether is ebpf.NewCollectionWithOptions on several processors: most of
// the time goes into the verifier, which takes one program at a time from each
// thread.
func loadTogether(spec *ebpf.CollectionSpec, opts ebpf.CollectionOptions) (_ *ebpf.Collection, err error) {
	all := slices.Collect(maps.Values(spec.Programs))
	slices.SortFunc(all, func(a, b *ebpf.ProgramSpec) int {
		return cmp.Or(cmp.Compare(len(b.Instructions), len(a.Instructions)), cmp.Compare(a.Name, b.Name))
	})
	parts := make([]map[string]*ebpf.ProgramSpec, min(runtime.GOMAXPROCS(0), maxVerifiers))
	for i := range parts {
		parts[i] = map[string]*ebpf.ProgramSpec{}
	}
	for i, p := range all {
		parts[i%len(parts)][p.Name] = p
	}
	with := func(programs map[string]*ebpf.ProgramSpec) *ebpf.CollectionSpec {
		part := spec.Copy()
		part.Programs = programs
		return part
	}
	out, err := ebpf.NewCollectionWithOptions(with(nil), opts)
	if err != nil {
		return nil, err
	}
	opts.MapReplacements = out.Maps
	loaded := make([]*ebpf.Collection, len(parts))
	var group errgroup.Group
	for i, part := range parts {
		group.Go(func() (err error) {
			loaded[i], err = ebpf.NewCollectionWithOptions(with(part), opts)
			return err
		})
	}
	err = group.Wait()
	out.Programs = map[string]*ebpf.Program{}
	for _, c := range loaded {
		if c == nil {
			continue
		}
		for name := range c.Programs {
			out.Programs[name] = c.DetachProgram(name)
		}
		c.Close()
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// Loads says whether all programs pass this kernel's verifier; nil says that they
// do. It attaches none.
func Loads() error {
	defer leave()
	cfg := Config{Rules: Rules{
		Planes: []Plane{{Need: event.AccessRead, Outcomes: []Outcome{{Read: event.ActionAllow}}}}, Hides: true, Names: true, Closed: Xattr,
	}}
	loaded, err := load(&cfg, hooks(&cfg))
	if err != nil {
		return err
	}
	loaded.Close()
	return nil
}

// settle fills in what the programs know of the session, and gives its table.
func settle(s *bpf.LsmSession, cfg *Config) ([]uint32, error) {
	cells, err := cfg.Rules.tables(s)
	if err != nil {
		return nil, err
	}
	s.Session, s.Closed, s.Families = cfg.Session, uint32(cfg.Rules.Closed), cfg.Rules.Families
	s.Flags = cfg.Rules.flags() | uint32(bpf.LsmModeRECORD_ALLOWED)
	if cfg.Strict {
		s.Flags |= uint32(bpf.LsmModeSTRICT)
	}
	if cfg.Inner {
		s.Flags |= uint32(bpf.LsmModeINNER)
	}
	if r := &cfg.Room; cfg.keepsRoom() {
		s.Room, s.ForkRoom, s.ExecRoom, s.ExitRoom = r.Bytes, r.Fork, r.Exec, r.Exit
	}
	s.Supervisor = uint32(os.Getpid())
	if s.RenameLock, err = renameLock(); err != nil {
		return nil, err
	}
	return cells, locateRoot(s)
}

// fit gives the maps their sizes and contents.
func fit(spec *ebpf.CollectionSpec, cfg *Config, settings *bpf.LsmSession, cells []uint32) error {
	// The first process was not made under the hooks: its exit has its room from
	// the beginning, see Adopt.
	if err := errors.Join(spec.Variables["settings"].Set(settings), spec.Variables["promised"].Set(uint64(settings.ExitRoom))); err != nil {
		return err
	}
	for name, size := range map[string][2]int{
		"urgent": {cfg.UrgentBytes, DefaultUrgentBytes}, "flow": {cfg.FlowBytes, DefaultFlowBytes},
	} {
		n := size[0]
		if n == 0 {
			n = size[1]
		}
		if n < 0 || n&(n-1) != 0 || n%os.Getpagesize() != 0 {
			return fmt.Errorf("ring of %d bytes: not a power of two of whole pages", n)
		}
		spec.Maps[name].MaxEntries = uint32(n)
	}
	setCells(spec.Maps["cells"], cells)
	spec.Maps[bpf.LsmMapLosses].MaxEntries = max(settings.BulkFiles, 1)
	return nil
}

// setCells makes the table's map, which is frozen once it is filled.
func setCells(m *ebpf.MapSpec, cells []uint32) {
	value := make([]byte, 0, 4*len(cells))
	for _, c := range cells {
		value = binary.NativeEndian.AppendUint32(value, c)
	}
	m.ValueSize, m.Value = uint32(len(value)), nil
	m.Contents = []ebpf.MapKV{{Key: uint32(0), Value: value}}
}

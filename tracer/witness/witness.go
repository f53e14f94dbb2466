// Package witness is what the kernel itself tells of a session: which processes
// it forked, what they really executed, how they ended. It loads the tracepoint
// programs of bpf/witness.bpf.c, which also kill an exec that is not the one
// that was decided on. It needs root.
package witness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/ring"
)

// DefaultRingBytes is the size of the ring between the kernel and Run.
const DefaultRingBytes = 1 << 20

// MaxExpected is how many files one exec may turn out to be.
const MaxExpected = 4

// ErrNamespace says that this process is not in the initial pid namespace, where
// the process ids of the kernel's records would not be those that we know.
var ErrNamespace = errors.New("the witness needs the initial pid namespace")

// Config says what to watch for. The zero value records without verifying.
type Config struct {
	// Session is stamped on the kernel's records; any number.
	Session uint64
	// Verify kills every exec of the session that was not announced by Expect.
	Verify bool
	// RingBytes is the ring's size, a power of two and a multiple of the page
	// size; 0 is DefaultRingBytes.
	RingBytes int
	// Number is the ring's in the session. With it, what was read stays in the ring
	// until it is acked, see package ring; 0 gives it back at once.
	Number uint32
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	if n := c.RingBytes; n < 0 || n&(n-1) != 0 || n%os.Getpagesize() != 0 {
		return fmt.Errorf("witness ring of %d bytes: not a power of two of whole pages", n)
	}
	return nil
}

// Witness watches one session. Its programs run until Close, or until this
// process ends, unless somebody else holds their Links: then nothing watches, so the
// session's tree must not outlive them.
type Witness struct {
	session uint64
	verify  bool
	objects bpf.WitnessObjects
	links   []link.Link
	reader  *ring.Reader
	at      event.Origin // of the record that is being reported
	losses  counters
}

// New loads and attaches the programs; nothing is watched before Adopt.
func New(cfg Config) (*Witness, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := checkNamespace(); err != nil {
		return nil, err
	}
	w := &Witness{session: cfg.Session, verify: cfg.Verify}
	if err := w.load(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("load witness: %w", err), w.Close())
	}
	return w, nil
}

// initPIDNamespace is PROC_PID_INIT_INO of linux/proc_ns.h.
const initPIDNamespace = 0xEFFFFFFC

func checkNamespace() error {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return fmt.Errorf("stat pid namespace: %w", err)
	}
	if st.Ino != initPIDNamespace {
		return ErrNamespace
	}
	return nil
}

func (w *Witness) load(cfg Config) error {
	spec, err := bpf.LoadWitness()
	if err != nil {
		return err
	}
	var specs bpf.WitnessSpecs
	if err := spec.Assign(&specs); err != nil {
		return err
	}
	if cfg.RingBytes > 0 {
		specs.Records.MaxEntries = uint32(cfg.RingBytes)
	} else {
		specs.Records.MaxEntries = DefaultRingBytes
	}
	var verify uint8
	if cfg.Verify {
		verify = 1
	}
	if err := errors.Join(specs.Verify.Set(verify), specs.SessionId.Set(cfg.Session)); err != nil {
		return err
	}
	if err := w.loadObjects(spec); err != nil {
		return err
	}
	if err := w.attach(); err != nil {
		return err
	}
	records := w.objects.Records
	w.reader, err = ring.Open(ring.Config{FD: records.FD(), Size: int(records.MaxEntries()), Number: cfg.Number, Keep: cfg.Number != 0})
	return err
}

// loadObjects makes the maps and loads the programs, the quick way if that
// works; the library's own way is slower, but explains what is wrong.
func (w *Witness) loadObjects(spec *ebpf.CollectionSpec) error {
	programs := spec.Programs
	spec.Programs = nil
	maps, err := ebpf.NewCollection(spec)
	spec.Programs = programs
	if err != nil {
		return err
	}
	defer maps.Close() // those that are assigned are not in it any more
	loaded, err := bpf.LoadTracepoints(spec, maps.Maps)
	if err != nil {
		return spec.LoadAndAssign(&w.objects, nil)
	}
	maps.Programs = loaded
	return maps.Assign(&w.objects)
}

func (w *Witness) attach() error {
	programs := []*ebpf.Program{
		w.objects.WitnessFork, w.objects.WitnessExec, w.objects.WitnessExit,
	}
	for _, p := range programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return fmt.Errorf("attach %s: %w", p, err)
		}
		w.links = append(w.links, l)
	}
	w.losses = counters{losses: w.objects.Losses, programs: programs, seen: map[Cause]uint64{}}
	return nil
}

// ErrThread says that only a whole process can be adopted on this kernel.
var ErrThread = errors.New("only processes can be adopted before Linux 6.9, not single threads")

// Adopt makes a task the session's first one: what it forks from here on is the
// session's, and so on down, whatever they do. id is a process or, since Linux
// 6.9, a single thread of a process that does not belong to the session. The
// task must neither fork, exec nor end before Adopt returns: it is our child
// waiting for us, or it is held at a notification (which works on every kernel).
//
// Where a process execs from a thread that was there before Adopt and is not its
// first, that exec must have been announced by Expect to be seen.
func (w *Witness) Adopt(id int) error {
	pidfd, err := unix.PidfdOpen(id, unix.PIDFD_THREAD)
	if errors.Is(err, unix.EINVAL) { // the flag is Linux 6.9
		pidfd, err = unix.PidfdOpen(id, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			err = ErrThread
		}
	}
	if err != nil {
		return fmt.Errorf("adopt task %d: %w", id, err)
	}
	defer unix.Close(pidfd)
	mark := bpf.WitnessMark{Session: w.session}
	if err := w.objects.Marks.Update(int32(pidfd), mark, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("adopt task %d: %w", id, err)
	}
	return nil
}

// MaxTold is how many bytes (MAX_TOLD in bpf/witness.h) a vector may have, NULs included, to be compared.
const MaxTold = 1024

// Expect announces that the thread tid is about to exec one of the files, and
// must be called before it is let go. It replaces what was announced before. The
// announcement holds for one exec, and ends with the thread.
//
// argv, unless it is nil, is the vector that the program has to be told. told
// reports whether that is held to: it is not where the vector is longer than
// MaxTold, and without Config.Verify. Where too many execs are under way to hold
// one more, the error is ErrCrowded.
func (w *Witness) Expect(tid int, files []Inode, argv []string) (told bool, err error) {
	if len(files) == 0 || len(files) > MaxExpected {
		return false, fmt.Errorf("bug: %d files expected of one exec, 1 to %d can be", len(files), MaxExpected)
	}
	e := bpf.WitnessExpectation{Count: uint32(len(files))}
	for i, f := range files {
		e.Inodes[i] = bpf.WitnessInodeKey{Dev: toKernelDev(f.Dev), Ino: f.Ino}
	}
	if argv != nil && w.verify {
		if told, err = w.tell(tid, argv); err != nil {
			return false, err
		}
	}
	if told {
		e.Told = 1
	}
	if err := w.objects.Expected.Update(uint32(tid), e, ebpf.UpdateAny); err != nil {
		return false, fmt.Errorf("announce exec of thread %d: %w", tid, err)
	}
	return e.Told != 0, nil
}

// ErrCrowded says that more execs are under way than can be compared.
var ErrCrowded = errors.New("too many execs at once whose arguments decide: try again")

// tell states a vector to the kernel's program, if it has room for one so long.
func (w *Witness) tell(tid int, argv []string) (bool, error) {
	const head = 8 // struct telling of bpf/witness.h: the size, then the bytes
	t := make([]byte, head+MaxTold)
	size := 0
	for _, word := range argv {
		if size+len(word)+1 > MaxTold {
			return false, nil
		}
		size += copy(t[head+size:], word) + 1
	}
	binary.NativeEndian.PutUint64(t, uint64(size))
	err := w.objects.Tellings.Update(uint32(tid), t, ebpf.UpdateAny)
	if errors.Is(err, unix.E2BIG) { // the map is full
		w.sweep()
		err = w.objects.Tellings.Update(uint32(tid), t, ebpf.UpdateAny)
	}
	switch {
	case errors.Is(err, unix.E2BIG):
		return false, ErrCrowded
	case err != nil:
		return false, fmt.Errorf("announce arguments of thread %d: %w", tid, err)
	}
	return true, nil
}

// sweep forgets the vectors of threads that are not in an exec any more: theirs
// failed, and their next one is announced anew.
func (w *Witness) sweep() {
	var tid uint32
	var t []byte
	var gone []uint32
	for all := w.objects.Tellings.Iterate(); all.Next(&tid, &t); {
		if !inExec(int(tid)) {
			gone = append(gone, tid)
		}
	}
	for _, tid := range gone {
		_ = w.objects.Tellings.Delete(tid) // or it went by itself
	}
}

// inExec says whether a thread is in execve or execveat, as far as can be seen.
func inExec(tid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH)
	}
	number, _, _ := strings.Cut(string(text), " ")
	return number == strconv.Itoa(unix.SYS_EXECVE) || number == strconv.Itoa(unix.SYS_EXECVEAT) || strings.HasPrefix(number, "running")
}

// Forget withdraws what was announced for a thread, if anything was.
func (w *Witness) Forget(tid int) error {
	for _, m := range []*ebpf.Map{w.objects.Expected, w.objects.Tellings} {
		if err := m.Delete(uint32(tid)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("withdraw exec of thread %d: %w", tid, err)
		}
	}
	return nil
}

// Links are descriptors that keep the programs in place as long as anybody holds
// them. They stay the witness's.
func (w *Witness) Links() ([]int, error) {
	fds := make([]int, 0, len(w.links))
	for _, l := range w.links {
		raw, ok := l.(interface{ FD() int })
		if !ok {
			return nil, errors.New("bug: a link without a descriptor")
		}
		fds = append(fds, raw.FD())
	}
	return fds, nil
}

// Close lets go of the programs, which are detached unless somebody else holds their
// links, and ends Run; end Run by its context first where the last records matter.
func (w *Witness) Close() error {
	var errs []error
	for _, l := range w.links {
		errs = append(errs, l.Close())
	}
	w.links = nil
	if w.reader != nil {
		errs = append(errs, w.reader.Close())
	}
	errs = append(errs, w.objects.Close())
	return errors.Join(errs...)
}

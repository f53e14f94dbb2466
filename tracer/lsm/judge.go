package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/ring"
)

// Judge runs the hooks' own code on paths that it is given, in program types that
// load also where LSM programs do not. It is for tests and measurements; it needs
// root.
type Judge struct{ objects bpf.JudgeObjects }

// NewJudge loads the rules.
func NewJudge(rules *Rules) (*Judge, error) { return loadJudge(rules, nil) }

func loadJudge(rules *Rules, opts *ebpf.CollectionOptions) (*Judge, error) {
	spec, err := bpf.LoadJudge()
	if err != nil {
		return nil, err
	}
	var s bpf.LsmSession
	cells, err := rules.tables(&s)
	if err != nil {
		return nil, err
	}
	s.Flags = rules.flags() | uint32(bpf.LsmModeRECORD_ALLOWED)
	s.Supervisor = uint32(os.Getpid())
	s.RenameLock, _ = renameLock() // what changes meanwhile is not the judge's concern
	if err := locateRoot(&s); err != nil {
		return nil, err
	}
	if err := spec.Variables["settings"].Set(&s); err != nil {
		return nil, err
	}
	setCells(spec.Maps["cells"], cells)
	spec.Maps[bpf.JudgeMapLosses].MaxEntries = max(s.BulkFiles, 1)
	spec.Maps["flow"].MaxEntries = DefaultFlowBytes
	j := &Judge{}
	if err := spec.LoadAndAssign(&j.objects, opts); err != nil {
		return nil, fmt.Errorf("load the judge: %w", err)
	}
	return j, errors.Join(j.objects.Cells.Freeze())
}

// Question is what the hooks would be asked about a path.
type Question struct {
	Path string
	// Need is AccessRead, AccessWrite or AccessExec.
	Need event.Access
	// Made says that the call makes the file, Own that the session made the
	// directory that it is in, Mine that it made the file.
	Made, Own, Mine bool
	// Times is how often to ask, 0 is once; Record writes a record each time.
	Times  int
	Record bool
}

// Answer is what they would say.
type Answer struct {
	Errno int32 // 0 if it is allowed
	Why   Why
	// Took is how long all times took together.
	Took time.Duration
	// Expendable says that the loss of the file would not count, see Bulk.
	Expendable bool
}

// Ask asks; the question's path is at most 4,095 bytes long.
func (j *Judge) Ask(q Question) (Answer, error) {
	a := bpf.JudgeQuestion{Times: uint32(max(q.Times, 1)), Need: uint32(q.Need), Len: uint32(len(q.Path))}
	if q.Made {
		a.Made = 1
	}
	if q.Own {
		a.Own = 1
	}
	if q.Mine {
		a.Mine = 1
	}
	if q.Record {
		a.Record = 1
	}
	if copy(a.Path[:], q.Path) != len(q.Path) {
		return Answer{}, fmt.Errorf("judge a path of %d bytes: too long", len(q.Path))
	}
	code, err := j.objects.Judge.Run(&ebpf.RunOptions{Context: &a, ContextOut: &a})
	if err != nil {
		return Answer{}, fmt.Errorf("run the judge: %w", err)
	}
	if code != 0 {
		return Answer{}, fmt.Errorf("the judge returned %d", int32(code))
	}
	return Answer{Errno: a.Error, Why: Why(a.Why), Took: time.Duration(a.Ns), Expendable: a.Expendable != 0}, nil
}

// Lose is Engine.Lose.
func (j *Judge) Lose(files int) (over bool, err error) { return lose(j.objects.ReeveLose, files) }

// Records hands on what Ask recorded, as Engine.Run does, until ctx is done. It is
// called once.
func (j *Judge) Records(ctx context.Context, to Sink) error {
	r, err := openRing(j.objects.Flow, 0)
	if err != nil {
		return fmt.Errorf("open the judge's ring: %w", err)
	}
	return j.records(ctx, r, to)
}

// RecordsKept is Records, and keeps what was read in the ring, which gets a number in
// set, until it is acked there.
func (j *Judge) RecordsKept(ctx context.Context, set *ring.Set, number uint32, to Sink) error {
	r, err := openRing(j.objects.Flow, number)
	if err != nil {
		return fmt.Errorf("open the judge's ring: %w", err)
	}
	set.Add(r)
	defer set.Remove(r)
	return j.records(ctx, r, to)
}

// Held is the ring for whoever saves it.
func (j *Judge) Held(number uint32) ring.Held {
	return ring.Held{Number: number, FD: j.objects.Flow.FD(), Size: int(j.objects.Flow.MaxEntries())}
}

func (j *Judge) records(ctx context.Context, r *ring.Reader, to Sink) error {
	losses := counters{losses: j.objects.Losts, seen: map[Cause]uint64{}}
	err := read(ctx, r, to, func() error { return losses.since(to.Lost) }, nil)
	return errors.Join(err, r.Close())
}

// Hold judges and records an open for reading of a file that this process has open,
// from the object that the kernel has to the record, so many times, as the hooks do;
// it returns how long they took together, and the errno of a refusal.
func (j *Judge) Hold(fd int, times int) (took time.Duration, refused int32, err error) {
	o := &j.objects
	for v, n := range map[*ebpf.Variable]any{
		o.HeldFd: uint32(fd), o.HeldTimes: uint32(times), o.HeldNs: uint64(0), o.HeldError: uint32(0),
	} {
		if err := v.Set(n); err != nil {
			return 0, 0, fmt.Errorf("ask the judge about a file: %w", err)
		}
	}
	if _, err := iterate(o.Opens); err != nil {
		return 0, 0, fmt.Errorf("ask the judge about a file: %w", err)
	}
	var ns uint64
	var code uint32
	if err := errors.Join(o.HeldNs.Get(&ns), o.HeldError.Get(&code)); err != nil {
		return 0, 0, err
	}
	if ns == 0 {
		return 0, 0, fmt.Errorf("ask the judge about a file: it did not see descriptor %d of this process", fd)
	}
	return time.Duration(ns), int32(code), nil
}

// Strange is how long so many looks took at whether this process belongs to a
// session, which it does not: what every hook begins with.
func (j *Judge) Strange(times int) (time.Duration, error) {
	o := &j.objects
	if err := o.StrangeTimes.Set(uint32(times)); err != nil {
		return 0, fmt.Errorf("ask the judge about a stranger: %w", err)
	}
	if _, err := o.Strange.Run(&ebpf.RunOptions{}); err != nil {
		return 0, fmt.Errorf("ask the judge about a stranger: %w", err)
	}
	var ns uint64
	var own uint32
	if err := errors.Join(o.StrangeNs.Get(&ns), o.StrangeOwn.Get(&own)); err != nil {
		return 0, err
	}
	if own != 0 {
		return 0, errors.New("ask the judge about a stranger: bug: it takes this process for one of a session")
	}
	return time.Duration(ns), nil
}

// iterate runs an iterator and returns what it wrote.
func iterate(p *ebpf.Program) ([]byte, error) {
	it, err := link.AttachIter(link.IterOptions{Program: p})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	r, err := it.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// Drain takes what is recorded and not read yet, and says how many records that
// were. It is for who calls no Records.
func (j *Judge) Drain() (n int, err error) {
	r, err := openRing(j.objects.Flow, 0)
	if err != nil {
		return 0, fmt.Errorf("open the judge's ring: %w", err)
	}
	for long := time.Unix(0, 1); err == nil; n++ { // ago: nothing is waited for
		_, _, err = r.Read(long)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n - 1, errors.Join(err, r.Close())
}

// Found is an open file of a task and its path.
type Found struct {
	TGID, FD uint32
	// Place says that Path begins at this process's root directory.
	Place bool
	Path  string
	Took  time.Duration
}

const endRoot = 1 // END_ROOT in bpf/lsm_path.h

// Files finds the paths of all open files of the machine, as the hooks do.
func (j *Judge) Files() ([]Found, error) {
	raw, err := iterate(j.objects.Files)
	if err != nil {
		return nil, err
	}
	var out []Found
	for b := bytes.NewReader(raw); b.Len() > 0; {
		var f struct {
			NS                 uint64
			TGID, FD, End, Len uint32
		}
		if err := binary.Read(b, binary.NativeEndian, &f); err != nil {
			return nil, err
		}
		path := make([]byte, f.Len)
		if _, err := io.ReadFull(b, path); err != nil {
			return nil, err
		}
		out = append(out, Found{TGID: f.TGID, FD: f.FD, Place: f.End == endRoot, Path: string(path), Took: time.Duration(f.NS)})
	}
	return out, nil
}

// Close unloads the judge.
func (j *Judge) Close() error { return j.objects.Close() }

package tracer

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/ring"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// Recovery makes events of what the rings of a session held whose reeve was killed.
// They are those that a live session makes, as far as the tasks are known, and have
// the Detail Recovered. What a session inside refused by its own policy names no
// rule, and what its tasks did is told to the session itself.
type Recovery struct {
	// Dir is the session's directory.
	Dir string
	// Last is the sequence number of the last record that is kept of the session.
	Last uint64
	// Nested says that among the records that are kept one tells of a session inside.
	// Of forks, programs and exits it is not known then which are kept: all that the
	// rings held are recorded.
	Nested bool
	// Engine is the session's. Rules names the rules of what hooks judged; nil names
	// none.
	Engine string
	Rules  gate.Decider
}

// Recovered is the Detail of records that were recovered.
const Recovered = `{"recovered":true}`

// HasLeftovers says whether init saved anything in a session's directory.
func HasLeftovers(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ring.LeftoversName))
	return !errors.Is(err, fs.ErrNotExist)
}

// ForgetLeftovers removes what init saved, when all of it is on the bus; and whatever
// else is there in its place, or it would be recovered again and again.
func ForgetLeftovers(dir string) error { return os.RemoveAll(filepath.Join(dir, ring.LeftoversName)) }

// Journal is the journal of a session's publisher, in the session's directory.
func Journal(dir string) *ring.Journal {
	return ring.NewJournal(filepath.Join(dir, ring.JournalName))
}

// Marks are what the journal in a session's directory says of the records up to
// the sequence number last: what a publisher that goes on there begins with.
func Marks(dir string, last uint64) ([]event.Origin, error) {
	return ring.ReadMarks(filepath.Join(dir, ring.JournalName), last)
}

// Run records what is not kept yet. known are records of the session that tell of
// its tasks (forks and programs), in order. What cannot be read is recorded as lost;
// the error is known's, or that of a file that cannot be opened.
func (c Recovery) Run(known iter.Seq2[event.Event, error], to gate.Recorder) error {
	left, err := ring.Load(filepath.Join(c.Dir, ring.LeftoversName))
	if err != nil {
		return err
	}
	marks, err := ring.ReadMarks(filepath.Join(c.Dir, ring.JournalName), c.Last)
	if err != nil {
		return err
	}
	r := c.recoverer(left, marks, stamp{to})
	for e, err := range known {
		if err != nil {
			return err
		}
		r.watch.remember(&e)
	}
	for s := range inTime(left.Samples) {
		r.sample(s)
	}
	for _, number := range left.Full {
		r.lost("the kernel's ring of "+ringName(number)+" was full when reeve was killed: what found no room is not known", event.Origin{})
	}
	if left.Torn != nil {
		r.lost("what was saved of the kernel's rings is not whole: "+left.Torn.Error(), event.Origin{})
	}
	return nil
}

// stamp says of records that they were recovered.
type stamp struct{ gate.Recorder }

// Record is that of gate.Recorder.
func (s stamp) Record(e event.Event) {
	e.Detail = Recovered
	s.Recorder.Record(e)
}

// inTime gives each ring's samples in their order, and those of different rings as
// far as can be as they happened: a task is known by what is told of it before.
func inTime(all []ring.Sample) iter.Seq[ring.Sample] {
	var rings [][]ring.Sample
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(s ring.Sample) bool { return s.At.Ring != all[0].At.Ring })
		if n < 0 {
			n = len(all)
		}
		rings, all = append(rings, all[:n]), all[n:]
	}
	return func(yield func(ring.Sample) bool) {
		for len(rings) > 0 {
			next := 0
			for i := range rings {
				if lsm.SampleTime(rings[i][0]) < lsm.SampleTime(rings[next][0]) {
					next = i
				}
			}
			s := rings[next][0]
			if rings[next] = rings[next][1:]; len(rings[next]) == 0 {
				rings = slices.Delete(rings, next, next+1)
			}
			if !yield(s) {
				return
			}
		}
	}
}

// recoverer is a Recovery under way. Of the hooks it is the sink.
type recoverer struct {
	Recovery
	marks ring.Marks
	to    gate.Recorder
	watch *watcher
	hooks *hooks // of the ring that is read
	own   hooks
	inner hooks // those of sessions inside
}

func (c Recovery) recoverer(left *ring.Leftovers, marks ring.Marks, to gate.Recorder) *recoverer {
	at := clock{left.Wall, left.Boot}
	r := &recoverer{Recovery: c, marks: marks, to: to}
	r.watch = &watcher{engine: c.Engine, clock: at, judged: map[int][]gate.Program{}, joined: map[int32]int{}, tasks: map[int32]known{}}
	r.own = hooks{decider: c.Rules, recorder: to, watch: r.watch, clock: at}
	r.inner = hooks{recorder: to, watch: r.watch, clock: at}
	return r
}

func (r *recoverer) sample(s ring.Sample) {
	switch {
	case s.At.Ring == ringFacts:
		if !r.Nested && r.marks.Have(s.At) {
			return
		}
		e, _ := r.watch.fact(witness.Read(s))
		e.Origin = s.At
		r.to.Record(e)
	case s.At.Ring > ringsInner:
		r.hooks = &r.inner
		lsm.Hand(s, r)
	default:
		r.hooks = &r.own
		lsm.Hand(s, r)
	}
}

// Access is that of lsm.Sink.
func (r *recoverer) Access(a lsm.Access) {
	if at := a.Origin; at.Ring > ringsInner {
		if r.marks.HaveRing(at) {
			return
		}
	} else if at.Inner = a.Inner; r.marks.Have(at) {
		return
	}
	r.hooks.Access(a)
}

// Lost is that of lsm.Sink.
func (r *recoverer) Lost(l lsm.Lost) {
	if !r.marks.HaveRing(l.Origin) {
		r.lost("lsm: "+string(l.Cause), l.Origin)
	}
}

func (r *recoverer) lost(reason string, at event.Origin) {
	r.to.Record(event.Event{
		Time: time.Now().UTC(), BootNS: proc.BootNS(), Engine: r.Engine, Kind: event.KindLost, Op: event.OpLoss,
		By: "recovery", Count: 1, Reason: reason, Origin: at,
	})
}

// remember learns from a record of the session what it tells of its tasks.
func (w *watcher) remember(e *event.Event) {
	if e.Kind != event.KindFact || e.Op == event.OpExit {
		return
	}
	k := known{id: e.Task.ID, exe: e.Task.Exe, ppid: e.Task.PPID}
	w.learn(e.Task.PID, k)
}

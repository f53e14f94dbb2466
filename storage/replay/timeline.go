package replay

import (
	"iter"
	"net"
	"strconv"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Step is one record in its place in time.
type Step struct {
	Event event.Event
	// At is the time since the session's first record, Wait since the step
	// before. They go by the boot clock, which no clock change disturbs, and are
	// never negative.
	At, Wait time.Duration
	// Process is the task as it was known up to this record, nil for records of
	// the stream itself.
	Process *Process
}

// Timeline gives the records of one session as steps and builds tree by the
// way. The sequence ends at the first error, which is yielded.
func Timeline(events iter.Seq2[event.Event, error], tree *Tree) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		var clock clock
		for e, err := range events {
			if err != nil {
				yield(Step{}, err)
				return
			}
			at, wait := clock.step(&e)
			if !yield(Step{Event: e, At: at, Wait: wait, Process: tree.Add(&e)}, nil) {
				return
			}
		}
	}
}

// clock turns the times of records into distances.
type clock struct {
	begun bool
	boot  uint64
	wall  time.Time
	at    time.Duration
}

func (c *clock) step(e *event.Event) (at, wait time.Duration) {
	switch {
	case !c.begun:
		c.begun = true
	case c.boot != 0 && e.BootNS != 0:
		if e.BootNS > c.boot {
			wait = time.Duration(min(e.BootNS-c.boot, 1<<62))
		}
	case !c.wall.IsZero() && !e.Time.IsZero():
		wait = max(e.Time.Sub(c.wall), 0)
	}
	// Records of several threads may be out of order by a little: time stands
	// still then, and does not run twice.
	c.boot = max(c.boot, e.BootNS)
	if e.Time.After(c.wall) {
		c.wall = e.Time
	}
	c.at += wait
	return c.at, wait
}

// objectName names an object in one text.
func objectName(o *event.Object) string {
	if o.Addr != "" {
		return net.JoinHostPort(o.Addr, strconv.Itoa(int(o.Port)))
	}
	return o.Path
}

package witness

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/reeve-audit/reeve/bpf"
)

// Cause says why something was lost; it is the reason of a loss in the stream.
type Cause string

// The causes.
const (
	CauseRingFork Cause = "witness ring full: fork"
	CauseRingExec Cause = "witness ring full: exec"
	CauseRingExit Cause = "witness ring full: exit"
	// CauseScope is a child that escaped the session's mark; its parent was
	// killed. The session must be ended: see Fork.Unmarked.
	CauseScope Cause = "child not marked"
	// CauseKill is a task that had to be killed but could not be sent the
	// signal. The session must be ended.
	CauseKill     Cause = "kill refused"
	CauseFilename Cause = "file name of exec unreadable"
	CauseArgv     Cause = "arguments of exec unreadable"
	CauseScratch  Cause = "bug: no scratch buffer"
	// CauseSkipped is a program that the kernel did not run because it was
	// running already on that processor.
	CauseSkipped Cause = "witness program skipped"
	// CauseMalformed is a record that could not be decoded.
	CauseMalformed Cause = "witness record malformed"
)

// Fatal says that a loss of this cause may have let a task out of the session or
// run on: the tree must be ended.
func (c Cause) Fatal() bool { return c == CauseScope || c == CauseKill || c == CauseSkipped }

var causes = [bpf.WitnessLossNUM_LOSSES]Cause{
	bpf.WitnessLossLOSS_RING_FORK: CauseRingFork,
	bpf.WitnessLossLOSS_RING_EXEC: CauseRingExec,
	bpf.WitnessLossLOSS_RING_EXIT: CauseRingExit,
	bpf.WitnessLossLOSS_SCOPE:     CauseScope,
	bpf.WitnessLossLOSS_KILL:      CauseKill,
	bpf.WitnessLossLOSS_FILENAME:  CauseFilename,
	bpf.WitnessLossLOSS_ARGV:      CauseArgv,
	bpf.WitnessLossLOSS_SCRATCH:   CauseScratch,
}

// counters turns the kernel's running totals into losses since the last look.
type counters struct {
	losses   *ebpf.Map
	programs []*ebpf.Program
	seen     map[Cause]uint64
}

// since calls report for every cause that has grown.
func (c *counters) since(report func(Record)) error {
	for i, cause := range causes {
		var perCPU []uint64
		if err := c.losses.Lookup(uint32(i), &perCPU); err != nil {
			return fmt.Errorf("read witness losses: %w", err)
		}
		var total uint64
		for _, n := range perCPU {
			total += n
		}
		c.note(cause, total, report)
	}
	var skipped uint64
	for _, p := range c.programs {
		st, err := p.Stats()
		if err != nil {
			return fmt.Errorf("read statistics of witness programs: %w", err)
		}
		skipped += st.RecursionMisses
	}
	c.note(CauseSkipped, skipped, report)
	return nil
}

func (c *counters) note(cause Cause, total uint64, report func(Record)) {
	if grown := total - c.seen[cause]; grown > 0 {
		c.seen[cause] = total
		report(Lost{Cause: cause, Count: grown})
	}
}

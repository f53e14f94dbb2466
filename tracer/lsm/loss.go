package lsm

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/reeve-audit/reeve/bpf"
)

// Cause says why something was lost; it is the reason of a loss in the stream.
type Cause string

// The causes.
const (
	// CauseUrgent is a denial that was not recorded, CauseFlow an allowed
	// operation.
	CauseUrgent Cause = "ring of denials full"
	CauseFlow   Cause = "ring of allowed operations full"
	// CauseScope is a child that could not be marked, so was not made.
	CauseScope Cause = "child not marked, so not made"
	// CauseSlot and CauseNames are operations that were refused since they could
	// not be judged.
	CauseSlot  Cause = "no buffer to judge in, so refused"
	CauseNames Cause = "names changed at every try, so refused"
	// CauseFork and CauseExec are a child and a program that were refused since the
	// witness could not have recorded them.
	CauseFork Cause = "no room to record a child, so not made"
	CauseExec Cause = "no room to record a program, so not run"
	// CauseMalformed is a record that could not be decoded.
	CauseMalformed Cause = "record of a hook malformed"
)

var causes = [bpf.LsmLostNUM_LOST]Cause{
	bpf.LsmLostLOST_URGENT: CauseUrgent,
	bpf.LsmLostLOST_FLOW:   CauseFlow,
	bpf.LsmLostLOST_SCOPE:  CauseScope,
	bpf.LsmLostLOST_SLOT:   CauseSlot,
	bpf.LsmLostLOST_NAMES:  CauseNames,
	bpf.LsmLostLOST_FORK:   CauseFork,
	bpf.LsmLostLOST_EXEC:   CauseExec,
}

// counters turns the kernel's running totals into losses since the last look.
type counters struct {
	losses *ebpf.Map
	seen   map[Cause]uint64
}

// since calls report for every cause that has grown.
func (c *counters) since(report func(Lost)) error {
	for i, cause := range causes {
		var perCPU []uint64
		if err := c.losses.Lookup(uint32(i), &perCPU); err != nil {
			return fmt.Errorf("read the hooks' losses: %w", err)
		}
		var total uint64
		for _, n := range perCPU {
			total += n
		}
		if grown := total - c.seen[cause]; grown > 0 {
			c.seen[cause] = total
			report(Lost{Cause: cause, Count: grown})
		}
	}
	return nil
}

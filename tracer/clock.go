package tracer

import (
	"time"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// clock tells the time of day of what happened at a time since boot: by a moment at
// which both are known, and that moment is now for the zero value.
type clock struct {
	at   time.Time
	boot uint64
}

// past says that what is told happened in a session that is over.
func (c clock) past() bool { return !c.at.IsZero() }

func (c clock) wall(boot uint64) time.Time {
	if c.past() {
		return c.at.Add(-time.Duration(c.boot - boot)).UTC()
	}
	return time.Now().Add(-time.Duration(proc.BootNS() - boot)).UTC()
}

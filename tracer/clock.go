package tracer

import (
	"sync"
	"time"

	"github.com/reeve-audit/reeve/tracer/proc"
)

// clock tells the time of day at times since boot in a session that is over, by a
// moment of which both are known. The zero value is that of a session that is not.
type clock struct {
	at   time.Time
	boot uint64
}

// past says that what is told happened in a session that is over.
func (c clock) past() bool { return !c.at.IsZero() }

func (c clock) wall(boot uint64) time.Time {
	return c.at.Add(-time.Duration(c.boot - boot)).UTC()
}

// wallAge is how long, in nanoseconds, the distance of the clocks counts.
const wallAge = 10e6

// wall tells the time of day at times since boot. It looks at the clocks now and
// then: to ask both for each record would be a tenth of what a record costs.
type wall struct {
	mu    sync.Mutex // guards what follows
	at    uint64     // when it looked, since boot
	ahead int64      // of the time since boot
}

// time is the time of day at a time since boot.
func (w *wall) time(boot uint64) time.Time {
	w.mu.Lock()
	if boot > w.at+wallAge {
		w.at = proc.BootNS()
		w.ahead = time.Now().UnixNano() - int64(w.at)
	}
	ns := int64(boot) + w.ahead
	w.mu.Unlock()
	return time.Unix(0, ns).UTC()
}

package tracer

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/reeve-audit/reeve/tracer/lsm"
	"github.com/reeve-audit/reeve/tracer/ring"
	"github.com/reeve-audit/reeve/tracer/spawn"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// Launcher is a session that has not started: its init waits for orders.
type Launcher struct {
	process *spawn.Process
	// witness gives the loaded witness once; nil when there is to be none.
	witness func() (*witness.Witness, error)
	hooks   *lsm.Engine // nil for the engine unotify
	session atomic.Pointer[Session]
	kept    *ring.Set // nil if nothing is kept
}

// Prepare starts the session's init and, as root, loads the witness. It is
// called first, as both take milliseconds in which the policy can be compiled.
//
// With keep a record of the kernel's stays in its ring until the session's recorder
// says by Acked that it is safe; if this process dies before, init saves it in the
// session's directory, see Config.Keep and Recovery.
func Prepare(keep bool) (*Launcher, error) {
	p, err := spawn.Start()
	if err != nil {
		return nil, err
	}
	l := &Launcher{process: p}
	if keep {
		l.kept = &ring.Set{}
	}
	if os.Geteuid() == 0 {
		number := l.number(ringFacts)
		l.witness = sync.OnceValues(func() (*witness.Witness, error) {
			return witness.New(witness.Config{Session: uint64(os.Getpid()), Verify: true, Number: number})
		})
		go func() { _, _ = l.witness() }() // Start takes what it gives
		go lsm.Prefetch()
	}
	return l, nil
}

// Hooks are those that LoadHooks loaded, nil if it did not.
func (l *Launcher) Hooks() *lsm.Engine { return l.hooks }

// End kills the whole tree.
func (l *Launcher) End() error { return l.process.End() }

// Abandon ends a session that was not started.
func (l *Launcher) Abandon() error {
	err := l.process.Close()
	if l.hooks != nil {
		err = errors.Join(err, l.hooks.Close())
	}
	if l.witness != nil {
		if w, loadErr := l.witness(); loadErr == nil {
			err = errors.Join(err, w.Close())
		}
	}
	return err
}

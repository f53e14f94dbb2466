package proc

import (
	"errors"

	"github.com/reeve-audit/reeve/tracer/event"
)

// ErrForeignRoot says that the thread's root directory or mounts are not ours.
var ErrForeignRoot = errors.New("the task has another root directory or mount namespace")

// ForeignRoot is ErrForeignRoot of one look-up.
type ForeignRoot struct {
	view  View
	dirfd int32
	// path is what was to be looked up, last the entry of it that was meant, if it
	// was one; raw is the path as the task passed it.
	path, last, raw string
}

// Error says what is in the way.
func (e *ForeignRoot) Error() string { return ErrForeignRoot.Error() }

// Unwrap is ErrForeignRoot.
func (e *ForeignRoot) Unwrap() error { return ErrForeignRoot }

// Way is the path as the task passed it; we have no name for it.
func (e *ForeignRoot) Way() (raw, path string) { return e.raw, "" }

// Object is what the path leads to in the task's root and mounts, as far as the
// calling thread can find out: it is for the record, and nothing is done with it. Raw
// is not set. It may wait for a file system.
func (e *ForeignRoot) Object() event.Object {
	v := e.view
	v.Foreign, v.MayBlock = true, true
	p, err := v.Resolve(e.dirfd, e.path, 0, 0)
	if err != nil {
		return event.Object{Kind: event.ObjectMissing}
	}
	defer p.Close()
	if e.last == "" {
		return named(p.Object(""))
	}
	n := Name{Parent: p, Last: e.last}
	return named(n.Object(""))
}

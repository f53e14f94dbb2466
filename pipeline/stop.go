package pipeline

import (
	"context"
	"errors"
)

// cutShort is the error of work that ctx has ended: it reads as why the work was
// not done by then, if there is a reason.
func cutShort(ctx context.Context, why error) error {
	ended := ctx.Err()
	if why == nil || ended == nil {
		return errors.Join(why, ended)
	}
	return &unfinished{why, ended}
}

type unfinished struct{ why, ended error }

func (u *unfinished) Error() string   { return u.why.Error() }
func (u *unfinished) Unwrap() []error { return []error{u.why, u.ended} }

// stopper asks a Run, gently, to finish what there is and return.
type stopper chan struct{}

func newStopper() stopper { return make(stopper, 1) }

// stop asks once; it never blocks.
func (s stopper) stop() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// watch gives a context that ends when stop is called or ctx ends. release ends
// it in any case, and returns when nothing watches any more.
func (s stopper) watch(ctx context.Context) (waiting context.Context, release func()) {
	waiting, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-s:
			cancel()
		case <-waiting.Done():
		}
	}()
	return waiting, func() { cancel(); <-watched }
}

package pipeline

import "context"

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

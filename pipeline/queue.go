package pipeline

import "github.com/reeve-audit/reeve/tracer/event"

// keepChunks is how many emptied chunks are kept for reuse, some 0.3 MB each.
const keepChunks = 8

// queue holds records in order, in chunks of one message each, so that a burst
// neither copies what is queued nor leaves a huge buffer behind.
type queue struct {
	chunks [][]event.Event // none is empty; all but the last are full
	free   [][]event.Event
	n      int
}

// push appends a copy of e and returns its place, valid until the next call.
func (q *queue) push(e *event.Event) *event.Event {
	last := len(q.chunks) - 1
	if last < 0 || len(q.chunks[last]) == MaxBatch {
		q.chunks = append(q.chunks, q.chunk())
		last++
	}
	q.chunks[last] = append(q.chunks[last], *e)
	q.n++
	return &q.chunks[last][len(q.chunks[last])-1]
}

func (q *queue) chunk() []event.Event {
	if n := len(q.free); n > 0 {
		c := q.free[n-1]
		q.free = q.free[:n-1]
		return c
	}
	return make([]event.Event, 0, MaxBatch)
}

// take removes the oldest chunk.
func (q *queue) take() []event.Event {
	c := q.chunks[0]
	q.chunks[0] = nil
	q.chunks = q.chunks[1:]
	if len(q.chunks) == 0 {
		q.chunks = nil
	}
	q.n -= len(c)
	return c
}

// recycle gives an emptied chunk back.
func (q *queue) recycle(c []event.Event) {
	if len(q.free) < keepChunks && cap(c) == MaxBatch {
		q.free = append(q.free, c[:0])
	}
}

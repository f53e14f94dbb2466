package ring

import (
	"sync"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Set is the rings of a session by number. The zero value is empty; its methods
// may be called from any goroutine.
type Set struct {
	mu    sync.Mutex // guards rings
	rings map[uint32]*Reader
}

// Add takes a ring in, which has a number of its own.
func (s *Set) Add(r *Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rings == nil {
		s.rings = map[uint32]*Reader{}
	}
	s.rings[r.Number()] = r
}

// Remove forgets a ring.
func (s *Set) Remove(r *Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rings[r.Number()] == r {
		delete(s.rings, r.Number())
	}
}

// Ack says that pieces of rings are safe. Those of rings that are gone are
// nobody's concern.
func (s *Set) Ack(pieces []event.Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pieces {
		if r := s.rings[p.Ring]; r != nil {
			r.Ack(p)
		}
	}
}

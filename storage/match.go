package storage

import (
	"slices"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Matcher is a compiled Query, for records that no store has filtered. Limit is
// not its business.
type Matcher struct {
	q    Query
	glob *Glob
}

// NewMatcher compiles q.
func NewMatcher(q Query) (*Matcher, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	glob, err := NewGlob(q.Path)
	if err != nil {
		return nil, err
	}
	return &Matcher{q, glob}, nil
}

// Match reports whether q asks for e.
func (m *Matcher) Match(e *event.Event) bool {
	q := &m.q
	timed := !e.Time.IsZero()
	return (q.Session == "" || e.Session == q.Session) && e.Seq > q.AfterSeq &&
		(len(q.Ops) == 0 || slices.Contains(q.Ops, e.Op)) &&
		(len(q.Actions) == 0 || slices.Contains(q.Actions, e.Action)) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) &&
		(q.Since.IsZero() || timed && !e.Time.Before(q.Since)) &&
		(q.Until.IsZero() || timed && e.Time.Before(q.Until)) &&
		m.glob.MatchEvent(e)
}

// Add counts a record into the summary. The records of a session may come in any
// order.
func (s *Session) Add(e *event.Event) {
	s.ID = e.Session
	if !e.Time.IsZero() {
		if s.Start.IsZero() || e.Time.Before(s.Start) {
			s.Start = e.Time
		}
		if e.Time.After(s.End) {
			s.End = e.Time
		}
	}
	s.Events++
	s.LastSeq = max(s.LastSeq, e.Seq)
	if e.Seq == 1 {
		s.Engine, s.Detail = e.Engine, e.Detail
	}
	switch e.Kind {
	case event.KindRequest:
		s.Requests++
		switch e.Action {
		case event.ActionDeny:
			s.Denied++
		case event.ActionAsk:
			s.Asked++
		}
	case event.KindLost:
		s.Lost += e.Count
	case event.KindSession:
		s.Ended = s.Ended || e.Op == event.OpEnd
	}
}

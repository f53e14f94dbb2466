// Package storage is what a store of audit records is: the small interfaces that
// every store satisfies and the questions they answer. Package storagetest holds
// them to it.
package storage

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// ErrNoSession is returned, wrapped, for a session that the store does not hold.
var ErrNoSession = errors.New("no such session")

// ErrUnusable is returned, wrapped, by a store that no trying again makes work:
// its file is not a database, is of a newer version, or cannot be made.
var ErrUnusable = errors.New("the store cannot be used")

// Writer takes deliveries. Append keeps each record of d once, by session and
// seq, whatever deliveries it comes in and however often; the first content of
// a place stays. When Append returns nil, all of d is kept. It may be called by
// several processes at once.
type Writer interface {
	Append(ctx context.Context, d event.Delivery) error
}

// Reader answers questions. Its methods may be called from any goroutine.
type Reader interface {
	// Sessions are summaries, the latest session last. limit keeps the latest;
	// 0 is no limit.
	Sessions(ctx context.Context, limit int) ([]Session, error)
	// Session is the summary of one session, or ErrNoSession. An id may be cut
	// short as long as it is unambiguous; "last" is the latest session.
	Session(ctx context.Context, id string) (Session, error)
	// Events are the records that q asks for, by session and seq. The sequence
	// ends at the first error. Breaking off early is fine.
	Events(ctx context.Context, q Query) iter.Seq2[event.Event, error]
}

// Store is a Writer and Reader that can forget and be closed.
type Store interface {
	Writer
	Reader
	// Remove removes a session and all its records. One that is not there is no
	// error.
	Remove(ctx context.Context, session string) error
	Close() error
}

// Session sums up one session.
type Session struct {
	ID string
	// Start and End are the times of the first and last record that is kept.
	Start, End time.Time
	// Events counts records, LastSeq is the largest sequence number: they
	// differ when records are missing.
	Events, LastSeq uint64
	// Requests, Denied and Asked count operations, Lost the records that "lost"
	// records state.
	Requests, Denied, Asked, Lost uint64
	// Ended says that the session's own last record is there.
	Ended bool
	// Engine, and Detail (the manifest) are those of the first record.
	Engine, Detail string
}

// Query selects records. The zero value asks for all; the conditions hold
// together.
type Query struct {
	// Session is a full id; empty asks for all sessions.
	Session string
	// AfterSeq asks for larger sequence numbers; it needs Session.
	AfterSeq uint64
	// Ops, Actions and Kinds ask for one of them each; empty is any.
	Ops     []event.Op
	Actions []event.Action
	Kinds   []event.Kind
	// Path asks for records whose object or target has a path that matches the
	// glob, see Glob.
	Path string
	// Since and Until bound the time: Since ≤ time < Until. Zero is no bound.
	Since, Until time.Time
	// Limit is the largest number of records; 0 is no limit.
	Limit int
}

// Validate finds contradictions.
func (q *Query) Validate() error {
	if q.AfterSeq > 0 && q.Session == "" {
		return errors.New("query: after-seq needs a session")
	}
	if q.Limit < 0 {
		return errors.New("query: limit is negative")
	}
	_, err := NewGlob(q.Path)
	return err
}

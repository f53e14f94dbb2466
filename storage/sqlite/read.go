package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// The first record of a session is a block of its own.
const selectSessions = `SELECT s.id, s.start_ns, s.end_ns, s.events, s.last_seq, s.requests, s.denied,
	s.asked, s.lost, s.ended, coalesce(e.engine, ''), coalesce(e.detail, ''), b.data
	FROM sessions s LEFT JOIN events e ON e.sid = s.sid AND e.seq = 1
	LEFT JOIN blocks b ON b.sid = s.sid AND b.last = 1 `

// Sessions are the summaries; see storage.Reader.
func (s *Store) Sessions(ctx context.Context, limit int) ([]storage.Session, error) {
	if limit <= 0 {
		limit = -1
	}
	out, err := s.sessions(ctx, selectSessions+`ORDER BY s.id DESC LIMIT ?`, limit)
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out, err
}

// Session is one summary; see storage.Reader.
func (s *Store) Session(ctx context.Context, id string) (storage.Session, error) {
	if id == "last" {
		out, err := s.Sessions(ctx, 1)
		if err == nil && len(out) == 0 {
			err = fmt.Errorf("%w: the store is empty", storage.ErrNoSession)
		}
		return first(out), err
	}
	// By bytes, not LIKE: an id may hold any character that a person types.
	out, err := s.sessions(ctx, selectSessions+`WHERE substr(s.id, 1, length(?1)) = ?1 ORDER BY s.id LIMIT 2`, id)
	switch {
	case err != nil:
		return storage.Session{}, err
	case len(out) == 0 || id == "":
		return storage.Session{}, fmt.Errorf("%w: %q", storage.ErrNoSession, id)
	case len(out) > 1 && out[0].ID != id:
		return storage.Session{}, fmt.Errorf("%w: %q is the beginning of several, such as %s and %s",
			storage.ErrNoSession, id, out[0].ID, out[1].ID)
	}
	return out[0], nil
}

func first(out []storage.Session) storage.Session {
	if len(out) == 0 {
		return storage.Session{}
	}
	return out[0]
}

func (s *Store) sessions(ctx context.Context, query string, args ...any) (_ []storage.Session, err error) {
	db, ok, err := s.reader(ctx)
	if err != nil || !ok {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []storage.Session
	for rows.Next() {
		var v storage.Session
		var start, end int64
		var data []byte
		err := rows.Scan(&v.ID, &start, &end, &v.Events, &v.LastSeq, &v.Requests, &v.Denied,
			&v.Asked, &v.Lost, &v.Ended, &v.Engine, &v.Detail, &data)
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		// One that was altered says nothing here; verification names it.
		var b event.Batch
		if decode(v.ID, data, &b) == nil {
			v.Engine, v.Detail = b.Events[0].Engine, b.Events[0].Detail
		}
		if end != 0 {
			v.Start, v.End = time.Unix(0, start).UTC(), time.Unix(0, end).UTC()
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// Events are the records that q asks for; see storage.Reader.
func (s *Store) Events(ctx context.Context, q storage.Query) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if err := s.events(ctx, &q, yield); err != nil {
			yield(event.Event{}, fmt.Errorf("read events: %w", err))
		}
	}
}

// events yields; a nil error also means that yield wants no more.
func (s *Store) events(ctx context.Context, q *storage.Query, yield func(event.Event, error) bool) error {
	if err := q.Validate(); err != nil {
		return err
	}
	db, ok, err := s.reader(ctx)
	if err != nil || !ok {
		return err
	}
	ids, err := s.sessionIDs(ctx, db, q)
	if err != nil {
		return err
	}
	left := q.Limit
	if left == 0 {
		left = 1<<63 - 1
	}
	for _, id := range ids {
		some := false
		blocks, err := newBlockReader(ctx, db, id, q)
		if err != nil {
			return err
		}
		rows, err := newRowReader(ctx, db, id, q)
		if err != nil {
			return err
		}
		for e, err := range merge(blocks.records, rows.records) {
			if err != nil {
				return fmt.Errorf("session %s: %w", id.id, err)
			}
			if !yield(e, nil) {
				return nil
			}
			if left--; left == 0 {
				return nil
			}
			some = true
		}
		// Of those that are asked for all together one may go before its turn.
		if some || q.Session != "" {
			if err := stillThere(ctx, db, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// stillThere says whether a session was removed while it was read, page by page: what
// was read of it must not pass for all.
func stillThere(ctx context.Context, db *sql.DB, id sessionID) error {
	var sid int64
	err := db.QueryRowContext(ctx, `SELECT sid FROM sessions WHERE id = ?`, id.id).Scan(&sid)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("session %s was removed while it was read: %w", id.id, storage.ErrNoSession)
	}
	return err
}

// merge gives the records of two sequences, each by seq, as one. Most often the
// second is empty.
func merge(a, b iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		other, otherErr, more := next()
		for e, err := range a {
			for err == nil && more && (otherErr != nil || other.Seq < e.Seq) {
				if !yield(other, otherErr) || otherErr != nil {
					return
				}
				other, otherErr, more = next()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		for ; more; other, otherErr, more = next() {
			if !yield(other, otherErr) {
				return
			}
		}
	}
}

type sessionID struct {
	sid int64
	id  string
}

func (s *Store) sessionIDs(ctx context.Context, db *sql.DB, q *storage.Query) (_ []sessionID, err error) {
	where, args := []string{"true"}, []any{}
	add := func(cond string, arg any) { where, args = append(where, cond), append(args, arg) }
	if q.Session != "" {
		add("id = ?", q.Session)
	}
	if !q.Since.IsZero() {
		add("end_ns >= ?", q.Since.UnixNano())
	}
	if !q.Until.IsZero() {
		add("start_ns < ?", q.Until.UnixNano())
	}
	rows, err := db.QueryContext(ctx, `SELECT sid, id FROM sessions WHERE `+
		strings.Join(where, " AND ")+` ORDER BY id`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var ids []sessionID
	for rows.Next() {
		var v sessionID
		if err := rows.Scan(&v.sid, &v.id); err != nil {
			return nil, err
		}
		ids = append(ids, v)
	}
	return ids, rows.Err()
}

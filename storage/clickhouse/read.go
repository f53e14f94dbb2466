package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// pageRows is how many records one query returns: a reader may be slow, and a
// query that waits for it holds memory on the server.
const pageRows = 20000

// Sessions are the summaries; see storage.Reader.
func (s *Store) Sessions(ctx context.Context, limit int) ([]storage.Session, error) {
	return s.sessions(ctx, "true", limit)
}

// Session is one summary; see storage.Reader.
func (s *Store) Session(ctx context.Context, id string) (storage.Session, error) {
	if id == "last" {
		out, err := s.sessions(ctx, "true", 1)
		if err == nil && len(out) == 0 {
			err = fmt.Errorf("%w: the store is empty", storage.ErrNoSession)
		}
		if err != nil {
			return storage.Session{}, err
		}
		return out[0], nil
	}
	exact, err := s.sessions(ctx, "session = "+literal(id), 1)
	if err == nil && len(exact) == 0 && id != "" {
		exact, err = s.sessions(ctx, "startsWith(session, "+literal(id)+")", 2)
	}
	switch {
	case err != nil:
		return storage.Session{}, err
	case len(exact) == 0:
		return storage.Session{}, fmt.Errorf("%w: %q", storage.ErrNoSession, id)
	case len(exact) > 1:
		return storage.Session{}, fmt.Errorf("%w: %q is the beginning of several, such as %s and %s",
			storage.ErrNoSession, id, exact[0].ID, exact[1].ID)
	}
	return exact[0], nil
}

// sessions sums up the latest sessions for which a condition on the key holds.
func (s *Store) sessions(ctx context.Context, where string, limit int) (_ []storage.Session, err error) {
	conn, err := s.connect()
	if err != nil {
		return nil, err
	}
	ids := "SELECT DISTINCT session FROM " + s.database + ".events WHERE " + where + " ORDER BY session DESC"
	if limit > 0 {
		ids += fmt.Sprintf(" LIMIT %d", limit)
	}
	rows, err := conn.Query(ctx, `SELECT session, minIf(time, time != 0), maxIf(time, time != 0), count(), max(seq),
		countIf(kind = 'request'), countIf(kind = 'request' AND action = 'deny'),
		countIf(kind = 'request' AND action = 'ask'), sumIf(count, kind = 'lost'),
		countIf(kind = 'session' AND op = 'end') > 0, anyIf(engine, seq = 1), anyIf(detail, seq = 1)
		FROM `+s.database+`.events FINAL WHERE session IN (`+ids+`)
		GROUP BY session ORDER BY session`)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fail("list sessions", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []storage.Session
	for rows.Next() {
		var v storage.Session
		var ended uint8
		if err := rows.Scan(&v.ID, &v.Start, &v.End, &v.Events, &v.LastSeq, &v.Requests, &v.Denied,
			&v.Asked, &v.Lost, &ended, &v.Engine, &v.Detail); err != nil {
			return nil, s.fail("list sessions", err)
		}
		v.Start, v.End, v.Ended = stated(v.Start), stated(v.End), ended != 0
		out = append(out, v)
	}
	return out, rows.Err()
}

func stated(t time.Time) time.Time {
	if t.Equal(epoch) {
		return time.Time{}
	}
	return t.UTC()
}

// Events are the records that q asks for; see storage.Reader.
func (s *Store) Events(ctx context.Context, q storage.Query) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if err := s.events(ctx, &q, yield); err != nil {
			yield(event.Event{}, s.fail("read events", err))
		}
	}
}

// events yields; a nil error also means that yield wants no more.
func (s *Store) events(ctx context.Context, q *storage.Query, yield func(event.Event, error) bool) error {
	if err := q.Validate(); err != nil {
		return err
	}
	glob, err := storage.NewGlob(q.Path)
	if err != nil {
		return err
	}
	conn, err := s.connect()
	if err != nil {
		return err
	}
	where := conditions(q, glob)
	from := ""
	if q.Session != "" {
		from = fmt.Sprintf("session = %s AND seq > %d", literal(q.Session), q.AfterSeq)
	}
	left := q.Limit
	for {
		page, err := s.page(ctx, conn, slices.Concat([]string{or(from, "true")}, where))
		if err != nil && !missing(err) {
			return err
		}
		for i := range page {
			if !glob.MatchEvent(&page[i]) {
				continue
			}
			if !yield(page[i], nil) {
				return nil
			}
			if left--; left == 0 {
				return nil
			}
		}
		if len(page) < pageRows {
			return nil
		}
		last := &page[len(page)-1]
		from = fmt.Sprintf("session = %s AND seq > %d", literal(last.Session), last.Seq)
		if q.Session == "" {
			from = fmt.Sprintf("(session > %s OR %s)", literal(last.Session), from)
		}
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// page reads the next records. Who only reads does not migrate the database, and
// may not be allowed to.
func (s *Store) page(ctx context.Context, conn driver.Conn, where []string) ([]event.Event, error) {
	page, err := s.pageOf(ctx, conn, columnNames, where)
	if lacksColumns(err) {
		return s.pageOf(ctx, conn, firstNames, where)
	}
	return page, err
}

func (s *Store) pageOf(ctx context.Context, conn driver.Conn, names string, where []string) (_ []event.Event, err error) {
	rows, err := conn.Query(ctx, fmt.Sprintf(`SELECT %s FROM %s.events WHERE %s
		ORDER BY session, seq LIMIT 1 BY session, seq LIMIT %d`,
		names, s.database, strings.Join(where, " AND "), pageRows))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var page []event.Event
	v, dest := newScanned()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		e, err := v.event()
		if err != nil {
			return nil, err
		}
		page = append(page, e)
	}
	return page, rows.Err()
}

func conditions(q *storage.Query, glob *storage.Glob) []string {
	var out []string
	out = words(out, "op", q.Ops)
	out = words(out, "action", q.Actions)
	out = words(out, "kind", q.Kinds)
	if !q.Since.IsZero() {
		out = append(out, fmt.Sprintf("time >= fromUnixTimestamp64Nano(%d, 'UTC')", q.Since.UnixNano()))
		out = append(out, "time != fromUnixTimestamp64Nano(0, 'UTC')")
	}
	if !q.Until.IsZero() {
		out = append(out, fmt.Sprintf("time < fromUnixTimestamp64Nano(%d, 'UTC')", q.Until.UnixNano()))
		out = append(out, "time != fromUnixTimestamp64Nano(0, 'UTC')")
	}
	if p := glob.Prefix(); p != "" && p != "/" {
		out = append(out, fmt.Sprintf("(startsWith(object_path, %s) OR startsWith(target_path, %s))", literal(p), literal(p)))
	}
	return out
}

func words[T interface{ MarshalText() ([]byte, error) }](out []string, column string, list []T) []string {
	if len(list) == 0 {
		return out
	}
	var in []string
	for _, v := range list {
		b, _ := v.MarshalText() // words of ours: never an error
		in = append(in, literal(string(b)))
	}
	return append(out, column+" IN ("+strings.Join(in, ", ")+")")
}

// Remove removes a session; see storage.Store.
func (s *Store) Remove(ctx context.Context, session string) error {
	conn, err := s.connect()
	if err != nil {
		return err
	}
	err = conn.Exec(ctx, "ALTER TABLE "+s.database+".events DELETE WHERE session = "+literal(session)+
		" SETTINGS mutations_sync = 2")
	if err != nil && !missing(err) {
		return s.fail("remove session "+session, err)
	}
	return nil
}

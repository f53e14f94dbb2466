package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"modernc.org/sqlite"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// pruneEvery is after how many rows the bounds are looked at while writing.
const pruneEvery = 1 << 18

// Append keeps a delivery in one transaction; see storage.Writer.
func (s *Store) Append(ctx context.Context, d event.Delivery) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.writer(ctx); err != nil {
		return err
	}
	sids := make(map[string]int64)
	err := transact(ctx, s.conn, func() error {
		for i := range d.Batches {
			if err := s.appendBatch(ctx, &d.Batches[i], sids); err != nil {
				return fmt.Errorf("append %s: %w", d.Batches[i].ID(), err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", s.path, err)
	}
	for id, sid := range sids {
		s.sids[id] = sid
	}
	for i := range d.Batches {
		s.rows += len(d.Batches[i].Events)
	}
	if s.rows >= pruneEvery {
		s.rows = 0
		return s.prune(ctx)
	}
	return nil
}

// writer opens the connection that this Store writes by. Call with wmu.
func (s *Store) writer(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	db, err := s.open(ctx, true)
	if err != nil {
		return s.lasting(ctx, err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("store %s: %w", s.path, err)
	}
	// The driver's own statement: what database/sql does for each of the 60
	// values of a row costs more than SQLite.
	err = conn.Raw(func(dc any) error {
		p, ok := dc.(driver.ConnPrepareContext)
		if !ok {
			return errors.New("bug: the driver cannot prepare")
		}
		// To make and remove the log's files costs more than what a short session
		// writes; they stay, empty.
		if f, ok := dc.(sqlite.FileControl); ok {
			if _, err := f.FileControlPersistWAL("main", 1); err != nil {
				return err
			}
		}
		s.insert, err = p.PrepareContext(ctx, insertEvent)
		return err
	})
	if err != nil {
		return errors.Join(s.lasting(ctx, fmt.Errorf("store %s: %w", s.path, err)), conn.Close())
	}
	s.conn = conn
	s.args = make([]driver.NamedValue, 1+len(eventColumns))
	return nil
}

// lasting marks an error by which the file cannot be opened, unless it may pass.
func (s *Store) lasting(ctx context.Context, err error) error {
	if ctx.Err() != nil || isBusy(err) {
		return err
	}
	return fmt.Errorf("%w: %w", storage.ErrUnusable, err)
}

// appendBatch inserts the records of b that are not there yet.
func (s *Store) appendBatch(ctx context.Context, b *event.Batch, sids map[string]int64) error {
	sid, err := s.sid(ctx, b, sids)
	if err != nil {
		return err
	}
	have, err := s.have(ctx, sid, b)
	if err != nil || len(have) == len(b.Events) {
		return err
	}
	var sum tally
	err = s.conn.Raw(func(any) error {
		stmt, ok := s.insert.(driver.StmtExecContext)
		if !ok {
			return errors.New("bug: the driver's statement takes no context")
		}
		r := row{args: s.args}
		for i := range b.Events {
			e := &b.Events[i]
			if have[e.Seq] {
				continue
			}
			r.bind(sid, e)
			if _, err := stmt.ExecContext(ctx, r.args); err != nil {
				return fmt.Errorf("seq %d: %w", e.Seq, err)
			}
			sum.add(e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return sum.update(ctx, s.conn, sid)
}

// sid is the number of b's session, made if need be.
func (s *Store) sid(ctx context.Context, b *event.Batch, sids map[string]int64) (int64, error) {
	if sid, ok := sids[b.Session]; ok {
		return sid, nil
	}
	var sid int64
	err := s.conn.QueryRowContext(ctx, `SELECT sid FROM sessions WHERE id = ?`, b.Session).Scan(&sid)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.conn.QueryRowContext(ctx, `INSERT INTO sessions
			(id, start_ns, end_ns, events, last_seq, requests, denied, asked, lost, ended)
			VALUES (?, 9223372036854775807, 0, 0, 0, 0, 0, 0, 0, 0) RETURNING sid`, b.Session).Scan(&sid)
	}
	if err == nil {
		sids[b.Session] = sid
	}
	return sid, err
}

// have is the set of b's records that are stored already.
func (s *Store) have(ctx context.Context, sid int64, b *event.Batch) (map[uint64]bool, error) {
	rows, err := s.conn.QueryContext(ctx,
		`SELECT seq FROM events WHERE sid = ? AND seq BETWEEN ? AND ?`, sid, int64(b.First), int64(b.Last))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	var have map[uint64]bool
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		if have == nil {
			have = make(map[uint64]bool)
		}
		have[uint64(seq)] = true
	}
	return have, rows.Err()
}

// tally is what inserted records add to the summary of their session.
type tally struct {
	start, end                              int64
	events, requests, denied, asked, ending int64
	lost, lastSeq                           int64
}

func (t *tally) add(e *event.Event) {
	if !e.Time.IsZero() {
		ns := e.Time.UnixNano()
		if t.start == 0 || ns < t.start {
			t.start = ns
		}
		t.end = max(t.end, ns)
	}
	t.events++
	t.lastSeq = max(t.lastSeq, int64(e.Seq))
	switch e.Kind {
	case event.KindRequest:
		t.requests++
		switch e.Action {
		case event.ActionDeny:
			t.denied++
		case event.ActionAsk:
			t.asked++
		}
	case event.KindLost:
		t.lost += int64(min(e.Count, uint64(1<<61-t.lost)))
	case event.KindSession:
		if e.Op == event.OpEnd {
			t.ending = 1
		}
	}
}

func (t *tally) update(ctx context.Context, conn *sql.Conn, sid int64) error {
	if t.start == 0 {
		t.start = 1<<63 - 1
	}
	_, err := conn.ExecContext(ctx, `UPDATE sessions SET
		start_ns = min(start_ns, ?), end_ns = max(end_ns, ?), events = events + ?,
		last_seq = max(last_seq, ?), requests = requests + ?, denied = denied + ?,
		asked = asked + ?, lost = min(min(lost, 2305843009213693952) + ?, 2305843009213693952), ended = max(ended, ?) WHERE sid = ?`,
		t.start, t.end, t.events, t.lastSeq, t.requests, t.denied, t.asked, t.lost, t.ending, sid)
	return err
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// pruneEvery is after how many records the bounds are looked at while writing.
const pruneEvery = 1 << 18

// Append keeps a delivery in one transaction; see storage.Writer.
func (s *Store) Append(ctx context.Context, d event.Delivery) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.writer(ctx); err != nil {
		return err
	}
	sessions := make(map[string]*growing)
	err := transact(ctx, s.conn, func() error {
		for i := range d.Batches {
			if err := s.appendBatch(ctx, &d.Batches[i], sessions); err != nil {
				return fmt.Errorf("append %s: %w", d.Batches[i].ID(), err)
			}
		}
		for id, g := range sessions {
			if err := errors.Join(s.flush(ctx, g), g.sum.update(ctx, s.updateSession, g.sid)); err != nil {
				return fmt.Errorf("append to session %s: %w", id, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", s.path, err)
	}
	for id, g := range sessions {
		s.sids[id] = g.sid
		s.records = g.open.records[:0]
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
	// To make and remove the log's files costs more than what a short session
	// writes; they stay, empty.
	err = conn.Raw(func(dc any) error {
		if f, ok := dc.(sqlite.FileControl); ok {
			_, err := f.FileControlPersistWAL("main", 1)
			return err
		}
		return nil
	})
	if err == nil {
		err = s.statements.prepare(ctx, conn)
	}
	if err != nil {
		return errors.Join(s.lasting(ctx, fmt.Errorf("store %s: %w", s.path, err)), conn.Close())
	}
	s.conn = conn
	return nil
}

// statements are what each Append asks and does.
type statements struct{ session, newSession, updateSession, insertBlock *sql.Stmt }

func (p *statements) prepare(ctx context.Context, conn *sql.Conn) error {
	for _, v := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&p.newSession, `INSERT INTO sessions (id, start_ns, end_ns, events, last_seq, requests, denied, asked, lost, ended)
			VALUES (?, 9223372036854775807, 0, 0, 0, 0, 0, 0, 0, 0) RETURNING sid`},
		{&p.session, `SELECT sid, last_seq FROM sessions WHERE id = ?`},
		{&p.updateSession, `UPDATE sessions SET
			start_ns = min(start_ns, ?), end_ns = max(end_ns, ?), events = events + ?,
			last_seq = max(last_seq, ?), requests = requests + ?, denied = denied + ?,
			asked = asked + ?, lost = min(min(lost, 2305843009213693952) + ?, 2305843009213693952), ended = max(ended, ?) WHERE sid = ?`},
		{&p.insertBlock, `INSERT INTO blocks (sid, first, last, start_ns, end_ns, kinds, ops, actions, data)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
	} {
		var err error
		if *v.to, err = conn.PrepareContext(ctx, v.text); err != nil {
			return err
		}
	}
	return nil
}

func (p *statements) close() error {
	return errors.Join(p.session.Close(), p.newSession.Close(), p.updateSession.Close(), p.insertBlock.Close())
}

// lasting marks an error by which the file cannot be opened, unless it may pass.
func (s *Store) lasting(ctx context.Context, err error) error {
	if ctx.Err() != nil || isBusy(err) {
		return err
	}
	return fmt.Errorf("%w: %w", storage.ErrUnusable, err)
}

// growing is a session in the course of one transaction.
type growing struct {
	id      string
	sid     int64
	lastSeq uint64 // of all that is stored, or in open
	open    block  // without records, there is none
	sum     tally
}

// appendBatch keeps the records of b that are not there yet.
func (s *Store) appendBatch(ctx context.Context, b *event.Batch, sessions map[string]*growing) error {
	if len(b.Events) == 0 {
		return nil
	}
	g, err := s.growing(ctx, b.Session, sessions)
	if err != nil {
		return err
	}
	if b.First > g.lastSeq {
		return s.extend(ctx, g, b)
	}
	if err := s.flush(ctx, g); err != nil {
		return err
	}
	have, err := s.have(ctx, g.sid, b)
	if err != nil {
		return err
	}
	for i := 0; i < len(b.Events); {
		j := i
		for j < len(b.Events) && have[b.Events[j].Seq] == have[b.Events[i].Seq] {
			j++
		}
		if !have[b.Events[i].Seq] {
			part := b.Part(i, j)
			if err := s.extend(ctx, g, &part); err != nil {
				return err
			}
		}
		i = j
	}
	return nil
}

// extend keeps the records of b, of which none is there. The first record of a
// session, which says what it is, is a block of its own: to list sessions takes no
// more. What is not in the form in which it is kept, or too large, goes by record.
func (s *Store) extend(ctx context.Context, g *growing, b *event.Batch) error {
	if len(b.Events) > 1 && (b.First == 1 || !b.Sealed(blockBytes)) {
		for i := range b.Events {
			one := b.Part(i, i+1)
			if err := s.extend(ctx, g, &one); err != nil {
				return err
			}
		}
		return nil
	}
	if g.open.len() == 0 && b.First == g.lastSeq+1 {
		if err := s.reopen(ctx, g); err != nil {
			return err
		}
	}
	if g.open.len() > 0 && !g.open.takes(b) {
		if err := s.flush(ctx, g); err != nil {
			return err
		}
	}
	if err := g.open.add(b); err != nil {
		return err
	}
	for i := range b.Events {
		g.sum.add(&b.Events[i])
	}
	g.lastSeq = max(g.lastSeq, b.Last)
	return nil
}

// growing is the session of an id, made if need be.
func (s *Store) growing(ctx context.Context, id string, sessions map[string]*growing) (*growing, error) {
	if g, ok := sessions[id]; ok {
		return g, nil
	}
	g := &growing{id: id, open: block{records: s.records}}
	s.records = nil
	err := s.session.QueryRowContext(ctx, id).Scan(&g.sid, &g.lastSeq)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.newSession.QueryRowContext(ctx, id).Scan(&g.sid)
	}
	if err != nil {
		return nil, err
	}
	sessions[id] = g
	return g, nil
}

// have is the set of b's records that are stored already.
func (s *Store) have(ctx context.Context, sid int64, b *event.Batch) (map[uint64]bool, error) {
	have := make(map[uint64]bool)
	err := s.ranges(ctx, have, b, `SELECT first, last FROM blocks WHERE sid = ? AND last >= ? ORDER BY last`, sid, b.First)
	if err == nil {
		err = s.ranges(ctx, have, b, `SELECT seq, seq FROM events WHERE sid = ? AND seq >= ? ORDER BY seq`, sid, b.First)
	}
	return have, err
}

// ranges adds to have what the ranges that a query tells, in order, have of b.
func (s *Store) ranges(ctx context.Context, have map[uint64]bool, b *event.Batch, query string, args ...any) (err error) {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var first, last uint64
		if err := rows.Scan(&first, &last); err != nil {
			return err
		}
		if first > b.Last {
			break
		}
		for seq := max(first, b.First); seq <= min(last, b.Last); seq++ {
			have[seq] = true
		}
	}
	return rows.Err()
}

// reopen takes up the session's last block again, if it is a small one.
func (s *Store) reopen(ctx context.Context, g *growing) error {
	var k block
	var data []byte
	err := s.conn.QueryRowContext(ctx, `SELECT rowid, first, last, start_ns, end_ns, kinds, ops, actions, data FROM blocks
		WHERE sid = ? AND last = ? AND last > 1 AND last - first < ? AND length(data) < ?`,
		g.sid, g.lastSeq, fewRecords, fewBytes).
		Scan(&k.rowid, &k.first, &k.last, &k.start, &k.end, &k.kinds, &k.ops, &k.actions, &data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var b event.Batch
	if err := k.unpack(g.id, data, &b); err != nil {
		return nil //nolint:nilerr // it was altered, and stays as it is: evidence
	}
	k.records, err = b.AppendRecords(nil)
	g.open = k
	return err
}

// flush writes the open block.
func (s *Store) flush(ctx context.Context, g *growing) error {
	k := &g.open
	if k.len() == 0 {
		return nil
	}
	if k.rowid != 0 {
		if _, err := s.conn.ExecContext(ctx, `DELETE FROM blocks WHERE rowid = ?`, k.rowid); err != nil {
			return err
		}
	}
	s.raw, s.packed = k.pack(g.id, s.raw, s.packed)
	_, err := s.insertBlock.ExecContext(ctx, g.sid, k.first, k.last, k.start, k.end, k.kinds, k.ops, k.actions, s.packed)
	g.open = block{records: k.records[:0]}
	return err
}

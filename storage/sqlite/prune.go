package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// removeRows and removeBlocks are how much one transaction removes, so that writers
// of other processes get in between; quiet is how long a session without an end
// must have been silent to count as over.
const (
	removeRows   = 5000
	removeBlocks = 100
	quiet        = time.Hour
)

// Remove removes a session; see storage.Store.
func (s *Store) Remove(ctx context.Context, session string) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	_, ok, err := s.reader(ctx)
	if err != nil || !ok {
		return err
	}
	if err := s.writer(ctx); err != nil {
		return err
	}
	var sid int64
	err = s.conn.QueryRowContext(ctx, `SELECT sid FROM sessions WHERE id = ?`, session).Scan(&sid)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = s.remove(ctx, sid)
	}
	if err != nil {
		return fmt.Errorf("remove session %s: %w", session, err)
	}
	delete(s.sids, session)
	return nil
}

// What remove removes at a time, the last of it first.
const (
	deleteBlocks = `DELETE FROM blocks WHERE sid = ?1 AND last >= coalesce((SELECT last
		FROM blocks WHERE sid = ?1 ORDER BY last DESC LIMIT 1 OFFSET ?2 - 1), 0)`
	deleteRows = `DELETE FROM events WHERE sid = ?1 AND seq >= coalesce((SELECT seq
		FROM events WHERE sid = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2 - 1), 0)`
)

// remove removes the records, the last ones first, and then the summary: what
// an interruption leaves is a session that verification calls cut off.
func (s *Store) remove(ctx context.Context, sid int64) error {
	for more := true; more; {
		err := transact(ctx, s.conn, func() (err error) {
			if more, err = s.removeSome(ctx, deleteBlocks, sid, removeBlocks); err != nil || more {
				return err
			}
			if more, err = s.removeSome(ctx, deleteRows, sid, removeRows); err != nil || more {
				return err
			}
			_, err = s.conn.ExecContext(ctx, `DELETE FROM sessions WHERE sid = ?`, sid)
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := s.conn.ExecContext(ctx, `PRAGMA incremental_vacuum`)
	return err
}

// removeSome removes up to most rows by a query; more says that there may be more.
func (s *Store) removeSome(ctx context.Context, query string, sid, most int64) (more bool, err error) {
	res, err := s.conn.ExecContext(ctx, query, sid, most)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == most, err
}

// prune removes sessions until the bounds hold. Call with wmu.
func (s *Store) prune(ctx context.Context) error {
	for {
		over, oldest, err := s.over(ctx)
		if err != nil || !over {
			return err
		}
		id, err := s.oldest(ctx, oldest)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // all that is left is in use
		}
		if err == nil {
			err = s.remove(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("keep the store's bounds: %w", err)
		}
	}
}

// over reports whether a bound is exceeded, and before which time a session
// must have ended to be removed for it.
func (s *Store) over(ctx context.Context) (bool, int64, error) {
	now := s.cfg.Now()
	if s.cfg.MaxBytes > 0 && s.mayExceed(s.cfg.MaxBytes) {
		var pages, free, size int64
		err := s.conn.QueryRowContext(ctx, `SELECT p.page_count, f.freelist_count, z.page_size
			FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size z`).Scan(&pages, &free, &size)
		if err != nil {
			return false, 0, fmt.Errorf("measure the store: %w", err)
		}
		if (pages-free)*size > s.cfg.MaxBytes {
			return true, now.UnixNano(), nil
		}
	}
	if s.cfg.MaxAge > 0 {
		limit := now.Add(-s.cfg.MaxAge).UnixNano()
		_, err := s.oldest(ctx, limit)
		if errors.Is(err, sql.ErrNoRows) {
			return false, 0, nil
		}
		return err == nil, limit, err
	}
	return false, 0, nil
}

// mayExceed says whether the content can be larger than a bound: it is no larger
// than the files. Only then it is worth measuring.
func (s *Store) mayExceed(most int64) bool {
	var sum int64
	for _, name := range []string{s.path, s.path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			sum += info.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return sum > most
}

// oldest is the oldest session that is over, ended before limit and was not
// written by this Store.
func (s *Store) oldest(ctx context.Context, limit int64) (sid int64, err error) {
	rows, err := s.conn.QueryContext(ctx, `SELECT sid FROM sessions
		WHERE end_ns < ?1 AND (ended = 1 OR end_ns < ?2) ORDER BY id`,
		limit, s.cfg.Now().Add(-quiet).UnixNano())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	mine := make(map[int64]bool, len(s.sids))
	for _, v := range s.sids {
		mine[v] = true
	}
	for rows.Next() {
		if err := rows.Scan(&sid); err != nil || !mine[sid] {
			return sid, err
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	return 0, sql.ErrNoRows
}

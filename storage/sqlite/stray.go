package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// strays steps through an index from one session to the next, however many records
// each has.
const strays = `WITH RECURSIVE
	b(sid) AS (SELECT min(sid) FROM blocks UNION ALL SELECT (SELECT min(sid) FROM blocks WHERE sid > b.sid) FROM b WHERE b.sid IS NOT NULL),
	e(sid) AS (SELECT min(sid) FROM events UNION ALL SELECT (SELECT min(sid) FROM events WHERE sid > e.sid) FROM e WHERE e.sid IS NOT NULL)
	SELECT sid FROM (SELECT sid FROM b UNION SELECT sid FROM e)
	WHERE sid IS NOT NULL AND sid NOT IN (SELECT sid FROM sessions) ORDER BY sid`

// Strays are the numbers of sessions of which the store holds records and no summary.
// It writes the summary with the first record and removes it with the last, so there
// are none but where somebody else wrote to the file.
func (s *Store) Strays(ctx context.Context) (sids []int64, err error) {
	db, ok, err := s.reader(ctx)
	if err != nil || !ok {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, strays)
	if err != nil {
		return nil, fmt.Errorf("look for records without a session: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var sid int64
		if err := rows.Scan(&sid); err != nil {
			return nil, fmt.Errorf("look for records without a session: %w", err)
		}
		sids = append(sids, sid)
	}
	return sids, rows.Err()
}

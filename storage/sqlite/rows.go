package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// pageRows is how many rows one read transaction covers: an open one keeps the
// write-ahead log from being reused.
const pageRows = 2000

// rowReader reads what versions 1 and 2 of the file hold of one session.
type rowReader struct {
	ctx   context.Context
	db    *sql.DB
	id    sessionID
	after uint64
	glob  *storage.Glob
	where string
	args  []any
}

func newRowReader(ctx context.Context, db *sql.DB, id sessionID, q *storage.Query) (*rowReader, error) {
	glob, err := storage.NewGlob(q.Path)
	if err != nil {
		return nil, err
	}
	r := &rowReader{ctx: ctx, db: db, id: id, after: q.AfterSeq, glob: glob}
	r.where, r.args = conditions(q, glob)
	return r, nil
}

// records are those that are asked for, by seq; they end at the first error.
func (r *rowReader) records(yield func(event.Event, error) bool) {
	for full := true; full; {
		var page []event.Event
		var err error
		page, full, err = r.page()
		for i := range page {
			r.after = page[i].Seq
			if r.glob.MatchEvent(&page[i]) && !yield(page[i], nil) {
				return
			}
		}
		if err != nil {
			yield(event.Event{}, err)
			return
		}
	}
}

// page reads up to pageRows records; full says there may be more. Records before
// an error are returned with it.
func (r *rowReader) page() (_ []event.Event, full bool, err error) {
	rows, err := r.db.QueryContext(r.ctx, fmt.Sprintf(`SELECT %s FROM events WHERE sid = ? AND seq > ?%s
		ORDER BY seq LIMIT %d`, selectColumns, r.where, pageRows), append([]any{r.id.sid, int64(r.after)}, r.args...)...)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var page []event.Event
	f := newFields()
	for rows.Next() {
		e, err := f.scan(rows, r.id.id)
		if err != nil {
			return page, false, err
		}
		page = append(page, e)
	}
	return page, len(page) == pageRows, rows.Err()
}

func conditions(q *storage.Query, glob *storage.Glob) (string, []any) {
	var b strings.Builder
	var args []any
	add := func(cond string, v ...any) {
		b.WriteString(" AND " + cond)
		args = append(args, v...)
	}
	numbers(add, "op", q.Ops)
	numbers(add, "action", q.Actions)
	numbers(add, "kind", q.Kinds)
	if !q.Since.IsZero() {
		add("time_unix_ns >= ?", q.Since.UnixNano())
	}
	if !q.Until.IsZero() {
		add("time_unix_ns < ?", q.Until.UnixNano())
	}
	if p := glob.Prefix(); p != "" && p != "/" {
		// By bytes: a path need not be text.
		add("(substr(CAST(object_path AS BLOB), 1, ?) = ? OR substr(CAST(target_path AS BLOB), 1, ?) = ?)",
			len(p), []byte(p), len(p), []byte(p))
	}
	return b.String(), args
}

// numbers asks for one of list; none in it is any. NULL stands for 0.
func numbers[T ~uint8](add func(string, ...any), column string, list []T) {
	if len(list) == 0 {
		return
	}
	var args []any
	for _, v := range list {
		args = append(args, int64(v))
	}
	add("coalesce("+column+", 0) IN (?"+strings.Repeat(", ?", len(list)-1)+")", args...)
}

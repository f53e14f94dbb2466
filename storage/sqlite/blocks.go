package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// pageBlocks is how many blocks one read transaction covers, some 100 KB each: an
// open one keeps the write-ahead log from being reused.
const pageBlocks = 16

// blockReader reads the blocks of one session.
type blockReader struct {
	ctx    context.Context
	db     *sql.DB
	id     sessionID
	after  uint64
	match  *storage.Matcher
	filter filter
	query  string
	args   []any
	// Of the block that is read, kept for their capacity.
	batch event.Batch
	raw   []byte
}

// packed is a block as it is stored.
type packed struct {
	extent
	data []byte
}

func newBlockReader(ctx context.Context, db *sql.DB, id sessionID, q *storage.Query) (*blockReader, error) {
	match, err := storage.NewMatcher(*q)
	if err != nil {
		return nil, err
	}
	r := &blockReader{ctx: ctx, db: db, id: id, after: q.AfterSeq, match: match}
	if r.filter, err = newFilter(q); err != nil {
		return nil, err
	}
	r.query = `SELECT first, last, start_ns, end_ns, kinds, ops, actions, data FROM blocks WHERE sid = ? AND last > ?`
	add := func(cond string, arg int64) { r.query, r.args = r.query+" AND "+cond, append(r.args, arg) }
	if r.filter.set {
		add("kinds & ? != 0", r.filter.kinds)
		add("ops & ? != 0", r.filter.ops)
		add("actions & ? != 0", r.filter.actions)
	}
	if !q.Since.IsZero() {
		add("end_ns >= ?", q.Since.UnixNano())
	}
	if !q.Until.IsZero() {
		add("start_ns < ?", q.Until.UnixNano())
	}
	r.query += fmt.Sprintf(" ORDER BY last LIMIT %d", pageBlocks)
	return r, nil
}

// records are those that are asked for, by seq; they end at the first error.
func (r *blockReader) records(yield func(event.Event, error) bool) {
	read := r.all
	if r.filter.set {
		read = r.some
	}
	for full := true; full; {
		page, err := r.page()
		full = len(page) == pageBlocks
		for i := range page {
			k := &page[i]
			more, err := read(k, yield)
			if err != nil {
				yield(event.Event{}, fmt.Errorf("seq %d to %d: %w", k.first, k.last, err))
			}
			if err != nil || !more {
				return
			}
			k.data = nil
			// A block that grew since this page will begin with what was read.
			r.after = k.last
		}
		if err != nil {
			yield(event.Event{}, err)
			return
		}
	}
}

// all yields the records of a block, which must be all that it says; more says that
// yield wants more.
func (r *blockReader) all(k *packed, yield func(event.Event, error) bool) (more bool, err error) {
	if err := k.unpack(r.id.id, k.data, &r.batch); err != nil {
		return false, err
	}
	for j := range r.batch.Events {
		if e := &r.batch.Events[j]; e.Seq > r.after && !yield(*e, nil) {
			return false, nil
		}
	}
	return true, nil
}

// some is all, for records that are asked for by what is in them: most often few are.
// It decodes no others.
func (r *blockReader) some(k *packed, yield func(event.Event, error) bool) (more bool, err error) {
	if r.raw, err = decompress(r.raw, k.data); err != nil {
		return false, err
	}
	if !bytes.Contains(r.raw, r.filter.text) {
		return true, nil
	}
	for record, err := range event.RecordsOf(r.raw) {
		if err != nil {
			return false, fmt.Errorf("%w: %w", errBlock, err)
		}
		h, err := event.PeekHead(record)
		if err != nil {
			return false, fmt.Errorf("%w: %w", errBlock, err)
		}
		if h.Seq <= r.after || !r.filter.may(&h) || !bytes.Contains(record, r.filter.text) {
			continue
		}
		var e event.Event
		if err := e.UnmarshalBinary(record); err != nil {
			return false, fmt.Errorf("%w: %w", errBlock, err)
		}
		if e.Session != r.id.id {
			return false, fmt.Errorf("%w: it is of session %q", errBlock, e.Session)
		}
		if r.match.Match(&e) && !yield(e, nil) {
			return false, nil
		}
	}
	return true, nil
}

// filter is what a question asks of the content of records, as far as it can be told
// without decoding them.
type filter struct {
	set                 bool
	kinds, ops, actions int64 // as in an extent
	text                []byte
}

func newFilter(q *storage.Query) (filter, error) {
	f := filter{kinds: -1, ops: -1, actions: -1}
	glob, err := storage.NewGlob(q.Path)
	if err != nil {
		return f, err
	}
	if len(q.Kinds) > 0 {
		f.kinds = bits(q.Kinds)
	}
	if len(q.Ops) > 0 {
		f.ops = bits(q.Ops)
	}
	if len(q.Actions) > 0 {
		f.actions = bits(q.Actions)
	}
	f.text = []byte(glob.Prefix()) // stands in a record as it is
	f.set = f.kinds&f.ops&f.actions != -1 || q.Path != "" || !q.Since.IsZero() || !q.Until.IsZero()
	return f, nil
}

// may reports whether a record can be one of those asked for.
func (f *filter) may(h *event.Head) bool {
	return f.kinds&bit(h.Kind) != 0 && f.ops&bit(h.Op) != 0 && f.actions&bit(h.Action) != 0
}

// page reads up to pageBlocks blocks. Those before an error are returned with it.
func (r *blockReader) page() (_ []packed, err error) {
	rows, err := r.db.QueryContext(r.ctx, r.query, append([]any{r.id.sid, int64(r.after)}, r.args...)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var page []packed
	for rows.Next() {
		var k packed
		if err := rows.Scan(&k.first, &k.last, &k.start, &k.end, &k.kinds, &k.ops, &k.actions, &k.data); err != nil {
			return page, err
		}
		page = append(page, k)
	}
	return page, rows.Err()
}

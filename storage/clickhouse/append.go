package clickhouse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/reeve-audit/reeve/tracer/event"
)

// askSessions is how many sessions one question about stored records names.
const askSessions = 100

// Append keeps a delivery; see storage.Writer. Three things drop repetitions:
// what is stored already is left out; the content of an insert is its
// deduplication token, so that one whose answer was lost is not done twice; and
// readers and merges take one row of each place. (The delivery's place in its
// stream would do as a token too, but a token that two streams shared would
// lose records.)
func (s *Store) Append(ctx context.Context, d event.Delivery) error {
	if len(d.Batches) == 0 {
		return ctx.Err()
	}
	conn, err := s.writer(ctx)
	if err != nil {
		return err
	}
	have, err := s.have(ctx, conn, &d)
	if err != nil {
		return s.fail("look for stored records", err)
	}
	// One insert a partition: each is kept as a whole or not at all.
	months := map[string][]*event.Event{}
	for i := range d.Batches {
		for j := range d.Batches[i].Events {
			e := &d.Batches[i].Events[j]
			if at := (place{e.Session, e.Seq}); !have[at] {
				have[at] = true // a delivery may repeat itself
				month := storedTime(e.Time).UTC().Format("200601")
				months[month] = append(months[month], e)
			}
		}
	}
	for _, month := range slices.Sorted(maps.Keys(months)) {
		if err := s.insert(ctx, conn, months[month]); err != nil {
			return s.fail("insert", err)
		}
	}
	return nil
}

// token identifies the content of an insert: a chain value covers its record
// and all before it.
func token(events []*event.Event) string {
	h := sha256.New()
	for _, e := range events {
		fmt.Fprintf(h, "%s:%d:%x\n", e.Session, e.Seq, e.Chain)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Store) insert(ctx context.Context, conn driver.Conn, events []*event.Event) (err error) {
	ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{
		"insert_deduplicate": 1, "insert_deduplication_token": token(events), "async_insert": 0,
	}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO "+s.database+".events ("+columnNames+")")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !batch.IsSent() {
			err = errors.Join(err, batch.Abort())
		}
	}()
	for i := range columns {
		if err := batch.Column(i).Append(columns[i].values(events)); err != nil {
			return fmt.Errorf("column %s: %w", columns[i].name, err)
		}
	}
	return batch.Send()
}

// place is where a record belongs.
type place struct {
	session string
	seq     uint64
}

// have is the set of d's records that are stored already.
func (s *Store) have(ctx context.Context, conn driver.Conn, d *event.Delivery) (map[place]bool, error) {
	type span struct{ first, last uint64 }
	spans := map[string]span{}
	for i := range d.Batches {
		b := &d.Batches[i]
		v, ok := spans[b.Session]
		if !ok {
			v = span{b.First, b.Last}
		}
		spans[b.Session] = span{min(v.first, b.First), max(v.last, b.Last)}
	}
	have := map[place]bool{}
	var conds []string
	for id, v := range spans {
		conds = append(conds, fmt.Sprintf("session = %s AND seq BETWEEN %d AND %d", literal(id), v.first, v.last))
		if len(conds) < askSessions {
			continue
		}
		if err := s.ask(ctx, conn, conds, have); err != nil {
			return nil, err
		}
		conds = conds[:0]
	}
	if len(conds) > 0 {
		if err := s.ask(ctx, conn, conds, have); err != nil {
			return nil, err
		}
	}
	return have, nil
}

func (s *Store) ask(ctx context.Context, conn driver.Conn, conds []string, have map[place]bool) (err error) {
	rows, err := conn.Query(ctx, "SELECT session, seq FROM "+s.database+".events WHERE "+strings.Join(conds, " OR "))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var at place
		if err := rows.Scan(&at.session, &at.seq); err != nil {
			return err
		}
		have[at] = true
	}
	return rows.Err()
}

// literal is a string constant for any bytes.
func literal(s string) string { return fmt.Sprintf("unhex('%x')", s) }

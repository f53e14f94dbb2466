package sqlite

import (
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/reeve-audit/reeve/tracer/event"
)

// The bounds of a block: what would make one of more records begins another, and so
// does what follows when one has so many bytes. A block of fewer than fewRecords and fewBytes is
// written anew when records come that follow it, so that a session of which little
// happens at a time does not fill the file with heads of blocks.
const (
	blockRecords = 1024
	blockBytes   = 512 << 10
	fewRecords   = 64
	fewBytes     = 16 << 10
)

// block is a run of records of one session: a row of table blocks. Its columns
// first to actions say what is in it, so that a question passes by what has no
// answer for it, and data is message Batch of event.proto, compressed as an S2
// block: canonical bytes with their chain values, as they came from the bus.
type block struct {
	extent
	rowid   int64  // of the row that it replaces, 0 for none
	records []byte // without the head of the batch
}

// extent is what the columns of a block say of its records.
type extent struct {
	first, last uint64
	// start and end are the smallest and largest time, nanoseconds since 1970; 0
	// when no record has one.
	start, end int64
	// kinds, ops and actions have a bit for each that occurs, see bit.
	kinds, ops, actions int64
}

// bit is v's bit in a set of 64. Numbers that are 64 apart share one: what is
// found by it has to be looked at.
func bit[T ~uint8](v T) int64 { return int64(uint64(1) << (v % 64)) }

// bits is the set of list.
func bits[T ~uint8](list []T) (set int64) {
	for _, v := range list {
		set |= bit(v)
	}
	return set
}

// grow takes the next record in.
func (x *extent) grow(e *event.Event) {
	if x.first == 0 {
		x.first = e.Seq
	}
	x.last = e.Seq
	if ns := nanoseconds(e.Time); ns != 0 {
		if x.start == 0 || ns < x.start {
			x.start = ns
		}
		if x.end == 0 || ns > x.end {
			x.end = ns
		}
	}
	x.kinds |= bit(e.Kind)
	x.ops |= bit(e.Op)
	x.actions |= bit(e.Action)
}

// nanoseconds is t since 1970, and 0 for no time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// len is the number of records.
func (x *extent) len() int {
	if x.first == 0 {
		return 0
	}
	return int(x.last - x.first + 1)
}

// takes reports whether b follows, and fits.
func (k *block) takes(b *event.Batch) bool {
	return k.last+1 == b.First && k.last > 1 &&
		k.len()+len(b.Events) <= blockRecords && len(k.records) < blockBytes
}

// add takes the next records in.
func (k *block) add(b *event.Batch) (err error) {
	for i := range b.Events {
		k.grow(&b.Events[i])
	}
	k.records, err = b.AppendRecords(k.records)
	return err
}

// pack is the block's data, in dst's capacity; raw is room to make it in.
func (k *block) pack(session string, raw, dst []byte) (_, data []byte) {
	raw = event.AppendBatchHeader(raw[:0], session, k.first, k.last)
	raw = append(raw, k.records...)
	return raw, s2.Encode(dst[:cap(dst)], raw)
}

// maxRaw is far above what a block holds uncompressed: what somebody wrote into
// the file does not make a reader take all memory.
const maxRaw = 64 << 20

var errBlock = errors.New("a block of records was altered")

// unpack decodes a block's data into b, and holds what it finds against the
// columns: a question that goes by them must not pass by what it asks for.
func (x *extent) unpack(session string, data []byte, b *event.Batch) error {
	if err := decode(session, data, b); err != nil {
		return err
	}
	var found extent
	for i := range b.Events {
		found.grow(&b.Events[i])
	}
	if found != *x {
		return fmt.Errorf("%w: its columns are not those of its records", errBlock)
	}
	return nil
}

// decompress is a block's data as it was before it was compressed, in the capacity
// of dst.
func decompress(dst, data []byte) ([]byte, error) {
	n, err := s2.DecodedLen(data)
	if err != nil || n > maxRaw {
		return nil, fmt.Errorf("%w: it cannot be decompressed", errBlock)
	}
	raw, err := s2.Decode(dst[:cap(dst)], data)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be decompressed: %w", errBlock, err)
	}
	return raw, nil
}

// decode decodes a block's data into b.
func decode(session string, data []byte, b *event.Batch) error {
	raw, err := decompress(nil, data)
	if err != nil {
		return err
	}
	if err := b.UnmarshalBinary(raw); err != nil {
		return fmt.Errorf("%w: %w", errBlock, err)
	}
	if b.Session != session {
		return fmt.Errorf("%w: it is of session %q", errBlock, b.Session)
	}
	return nil
}

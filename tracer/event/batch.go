package event

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Batch is the content of one message on the bus: records of one session with
// consecutive sequence numbers, the first of them First. None is beyond 1<<63 - 1,
// since stores count with signed numbers.
type Batch struct {
	Session     string
	First, Last uint64
	Events      []Event

	sealed []byte // the records as they stood in the message; nil when nobody read one
}

// Delivery is a run of messages of one stream on its way into a store. Stream
// names the stream for good (a stream made again under the same name has
// another one), First and Last are stream sequences: the same delivery tried
// again has the same three. Who gets one keeps no part of it.
type Delivery struct {
	Stream      string
	First, Last uint64
	Batches     []Batch
}

// ID is the message id of the batch, by which a bus drops a repetition.
func (b *Batch) ID() string { return fmt.Sprintf("%s:%d-%d", b.Session, b.First, b.Last) }

// The field numbers of message Batch.
const (
	batchSession protowire.Number = iota + 1
	batchFirst
	batchLast
	batchEvents
)

// AppendBatchHeader appends the head of a batch. After it come, by AppendSealed,
// the records first to last.
func AppendBatchHeader(b []byte, session string, first, last uint64) []byte {
	b = appendText(b, batchSession, session)
	b = appendUint(b, batchFirst, first)
	return appendUint(b, batchLast, last)
}

// AppendSealed appends one record to a batch: its canonical bytes as Chain.Next
// returned them, and its chain value.
func AppendSealed(b, canonical []byte, sum *[32]byte) []byte {
	b = protowire.AppendTag(b, batchEvents, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(canonical)+chainFieldSize))
	return appendChain(append(b, canonical...), sum)
}

// AppendBinary appends the wire form of the batch, message Batch of event.proto.
func (b *Batch) AppendBinary(dst []byte) ([]byte, error) {
	return b.AppendRecords(AppendBatchHeader(dst, b.Session, b.First, b.Last))
}

// Part is a batch of the records i to j-1 of b, which it shares.
func (b *Batch) Part(i, j int) Batch {
	if i == 0 && j == len(b.Events) {
		return *b
	}
	return Batch{Session: b.Session, First: b.First + uint64(i), Last: b.First + uint64(j) - 1, Events: b.Events[i:j]}
}

// Sealed reports whether b was decoded from a message whose records take no more
// than most bytes: AppendRecords is a copy then.
func (b *Batch) Sealed(most int) bool { return b.sealed != nil && len(b.sealed) <= most }

// AppendRecords appends what stands after the head of a batch in its wire form. A
// batch that was decoded, and not changed since, gives the bytes that it was read
// from. Those of batches that follow one another are those of one batch.
func (b *Batch) AppendRecords(dst []byte) ([]byte, error) {
	if b.sealed != nil {
		return append(dst, b.sealed...), nil
	}
	var rec []byte
	var err error
	for i := range b.Events {
		if rec, err = b.Events[i].AppendBinary(rec[:0]); err != nil {
			return dst, err
		}
		dst = protowire.AppendTag(dst, batchEvents, protowire.BytesType)
		dst = protowire.AppendBytes(dst, rec)
	}
	return dst, nil
}

// UnmarshalBinary decodes a batch and checks that it is what it says: records
// First to Last of Session, each once, in order, and at least one. Chains are
// not verified here. b keeps data; its Events take the place of those that it had.
// On error b is undefined.
func (b *Batch) UnmarshalBinary(data []byte) error {
	*b = Batch{Events: b.Events[:0]}
	var last protowire.Number
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 || num < last || num == last && num != batchEvents {
			return fmt.Errorf("decode batch: %w: bad tag", ErrEncoding)
		}
		if num == batchEvents && b.sealed == nil {
			b.sealed = data
		}
		last, data = num, data[n:]
		if n = b.field(num, typ, data); n < 0 {
			return fmt.Errorf("decode batch: %w: bad field %d", ErrEncoding, num)
		}
		if num == batchEvents {
			if err := b.event(data[:n]); err != nil {
				return fmt.Errorf("decode batch %s, record %d: %w", b.ID(), len(b.Events), err)
			}
		}
		data = data[n:]
	}
	if len(b.Events) == 0 || b.First == 0 || b.Last > math.MaxInt64 || b.Last-b.First != uint64(len(b.Events)-1) {
		return fmt.Errorf("decode batch %s: %w: holds %d records", b.ID(), ErrEncoding, len(b.Events))
	}
	return nil
}

// maxPrealloc bounds what a head can make a decoder allocate before records come.
const maxPrealloc = 511

// field reads a field of the head, or measures a record; negative on error.
func (b *Batch) field(num protowire.Number, typ protowire.Type, data []byte) int {
	switch {
	case num == batchSession && typ == protowire.BytesType:
		v, n := protowire.ConsumeString(data)
		b.Session = v
		return n
	case num == batchFirst && typ == protowire.VarintType:
		v, n := protowire.ConsumeVarint(data)
		b.First = v
		return n
	case num == batchLast && typ == protowire.VarintType:
		v, n := protowire.ConsumeVarint(data)
		b.Last = v
		return n
	case num == batchEvents && typ == protowire.BytesType:
		_, n := protowire.ConsumeBytes(data)
		return n
	}
	return -1
}

// event decodes the length-delimited record in field.
func (b *Batch) event(field []byte) error {
	rec, _ := protowire.ConsumeBytes(field)
	if cap(b.Events) == 0 {
		// A head that lies about its size costs at most one page of records.
		b.Events = make([]Event, 0, 1+min(b.Last-b.First, maxPrealloc))
	}
	n := len(b.Events)
	if n < cap(b.Events) {
		b.Events = b.Events[:n+1] // whatever is there is overwritten
	} else {
		b.Events = append(b.Events, Event{})
	}
	e := &b.Events[n]
	if err := e.UnmarshalBinary(rec); err != nil {
		return err
	}
	if want := b.First + uint64(len(b.Events)-1); e.Session != b.Session || e.Seq != want {
		return fmt.Errorf("%w: it is %s:%d, want seq %d", ErrEncoding, e.Session, e.Seq, want)
	}
	return nil
}

package replay

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// The portable form of a session, inside gzip:
//
//	"reeve session 1\n"
//	header, one line of JSON
//	batches (message Batch of event.proto), each after its length as a varint
//	a zero varint
//	footer, one line of JSON
//
// The footer says how many records there are and the last chain value: a file
// that was cut has none, and one that was altered does not fit it.
const (
	fileMagic = "reeve session 1\n"
	fileBatch = 512
	maxBatch  = 16 << 20 // bytes; far above what is written
	maxLine   = 1 << 20
)

// ErrFile is returned, wrapped, for a file that is no complete export.
var ErrFile = errors.New("not a complete session file")

type fileHeader struct {
	Session string `json:"session"`
}

type fileFooter struct {
	Events  uint64 `json:"events"`
	LastSeq uint64 `json:"last_seq"`
	Chain   string `json:"chain"`
}

// Export writes a session's records, in order, to w. A record that cannot be
// read makes it fail: half a session is no export.
func Export(w io.Writer, session string, events iter.Seq2[event.Event, error]) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(zw)
	head, err := json.Marshal(fileHeader{session})
	if err != nil {
		return err
	}
	_, _ = out.WriteString(fileMagic) // bufio keeps the error for Flush
	_, _ = out.Write(append(head, '\n'))
	foot, err := exportRecords(out, session, events)
	if err != nil {
		return fmt.Errorf("export session %s: %w", session, err)
	}
	line, err := json.Marshal(foot)
	if err != nil {
		return err
	}
	_ = out.WriteByte(0)
	_, _ = out.Write(append(line, '\n'))
	if err := errors.Join(out.Flush(), zw.Close()); err != nil {
		return fmt.Errorf("export session %s: %w", session, err)
	}
	return nil
}

func exportRecords(out *bufio.Writer, session string, events iter.Seq2[event.Event, error]) (foot fileFooter, err error) {
	batch := event.Batch{Session: session}
	var data []byte
	flush := func() error {
		if len(batch.Events) == 0 {
			return nil
		}
		batch.First = batch.Events[0].Seq
		batch.Last = batch.Events[len(batch.Events)-1].Seq
		if data, err = batch.AppendBinary(data[:0]); err != nil {
			return err
		}
		batch.Events = batch.Events[:0]
		_, _ = out.Write(binary.AppendUvarint(nil, uint64(len(data))))
		_, err = out.Write(data)
		return err
	}
	for e, err := range events {
		if err != nil {
			return foot, err
		}
		// A batch has no gaps; a session from which records were removed has.
		if len(batch.Events) == fileBatch || len(batch.Events) > 0 && e.Seq != foot.LastSeq+1 {
			if err := flush(); err != nil {
				return foot, err
			}
		}
		batch.Events = append(batch.Events, e)
		foot.Events++
		foot.LastSeq, foot.Chain = e.Seq, hex.EncodeToString(e.Chain[:])
	}
	return foot, flush()
}

// File reads one export, once.
type File struct {
	Session string
	zr      *gzip.Reader
	in      *bufio.Reader
}

// NewFile reads the header.
func NewFile(r io.Reader) (*File, error) {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	f := &File{zr: zr, in: bufio.NewReaderSize(zr, maxLine)}
	magic := make([]byte, len(fileMagic))
	if _, err := io.ReadFull(f.in, magic); err != nil || string(magic) != fileMagic {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrFile)
	}
	var head fileHeader
	if err := f.line(&head); err != nil || head.Session == "" {
		return nil, fmt.Errorf("%w: no header", ErrFile)
	}
	f.Session = head.Session
	return f, nil
}

func (f *File) line(v any) error {
	line, err := f.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// Batches are the file's batches. The last thing it does is to hold the footer
// against what was read; a file that was cut or does not fit ends with ErrFile.
func (f *File) Batches() iter.Seq2[event.Batch, error] {
	return func(yield func(event.Batch, error) bool) {
		var foot fileFooter
		for {
			b, err := f.batch()
			if err == nil && b == nil {
				if err = f.footer(foot); err == nil {
					return
				}
			}
			if err != nil {
				yield(event.Batch{}, fmt.Errorf("%w: %w", ErrFile, err))
				return
			}
			foot.Events += uint64(len(b.Events))
			last := &b.Events[len(b.Events)-1]
			foot.LastSeq, foot.Chain = last.Seq, hex.EncodeToString(last.Chain[:])
			if !yield(*b, nil) {
				return
			}
		}
	}
}

// batch reads the next batch, nil at the end mark.
func (f *File) batch() (*event.Batch, error) {
	n, err := binary.ReadUvarint(f.in)
	if err != nil {
		return nil, noEOF(err)
	}
	if n == 0 {
		return nil, nil
	}
	if n > maxBatch {
		return nil, fmt.Errorf("a batch of %d bytes", n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(f.in, data); err != nil {
		return nil, noEOF(err)
	}
	var b event.Batch
	if err := b.UnmarshalBinary(data); err != nil {
		return nil, err
	}
	if b.Session != f.Session {
		return nil, fmt.Errorf("a batch of session %q in a file of %q", b.Session, f.Session)
	}
	return &b, nil
}

func (f *File) footer(want fileFooter) error {
	var foot fileFooter
	if err := f.line(&foot); err != nil {
		return fmt.Errorf("footer: %w", noEOF(err))
	}
	if foot != want {
		return fmt.Errorf("the footer states %d records up to %d, there are %d up to %d, or their chain differs",
			foot.Events, foot.LastSeq, want.Events, want.LastSeq)
	}
	// To the end: gzip's own checksum comes last.
	if n, err := io.Copy(io.Discard, f.in); err != nil || n > 0 {
		return fmt.Errorf("%d bytes after the footer, %w", n, noEOF(err))
	}
	return nil
}

// noEOF names the end of a file where none should be.
func noEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Events are the file's records.
func (f *File) Events() iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for b, err := range f.Batches() {
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			for _, e := range b.Events {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Import puts a file's records into a store. It does not verify the chain: a
// session that was tampered with is evidence too.
func Import(ctx context.Context, f *File, w storage.Writer) (records uint64, err error) {
	seq := uint64(0)
	for b, err := range f.Batches() {
		if err != nil {
			return records, fmt.Errorf("import session %s: %w", f.Session, err)
		}
		seq++
		d := event.Delivery{Stream: "file:" + f.Session, First: seq, Last: seq, Batches: []event.Batch{b}}
		if err := w.Append(ctx, d); err != nil {
			return records, fmt.Errorf("import session %s: %w", f.Session, err)
		}
		records += uint64(len(b.Events))
	}
	return records, nil
}

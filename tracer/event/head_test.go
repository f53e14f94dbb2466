package event

import (
	"errors"
	"testing"
)

// TestPeekHead holds the head against the whole, and everything that is no record
// against errors.
func TestPeekHead(t *testing.T) {
	events := sealed(t, "S", 50)
	b := Batch{Session: "S", First: 1, Last: 50, Events: events}
	data, err := b.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for record, err := range RecordsOf(data) {
		e := &events[n]
		h, herr := PeekHead(record)
		if want := (Head{e.Seq, e.Kind, e.Op, e.Action}); err != nil || herr != nil || h != want {
			t.Fatalf("record %d: head %+v, want %+v; %v, %v", n, h, want, err, herr)
		}
		n++
	}
	if n != len(events) {
		t.Fatalf("%d records", n)
	}
	for cut := range data {
		for record, err := range RecordsOf(data[:cut]) {
			if err != nil && !errors.Is(err, ErrEncoding) {
				t.Fatal(err)
			}
			_, _ = PeekHead(record)
		}
	}
}

// FuzzPeekHead: a record that can be decoded has the head that is peeked; nothing
// panics.
func FuzzPeekHead(f *testing.F) {
	for _, e := range sealed(f, "S", 5) {
		data, err := e.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := PeekHead(data)
		var e Event
		if e.UnmarshalBinary(data) == nil && (err != nil || h != Head{e.Seq, e.Kind, e.Op, e.Action}) {
			t.Errorf("%+v, %v; the record is %+v", h, err, e)
		}
		for range RecordsOf(data) {
		}
	})
}

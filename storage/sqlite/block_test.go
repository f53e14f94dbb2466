package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/storagetest"
	"github.com/reeve-audit/reeve/tracer/event"
)

// TestAlteredBlock alters each column of a block: what questions are answered by
// must not lie, and what is no block any more is an error.
func TestAlteredBlock(t *testing.T) {
	for column, value := range map[string]string{
		"first": "first + 1", "last": "last + 1", "start_ns": "start_ns + 1", "end_ns": "end_ns - 1", "kinds": "kinds & ~2",
		"ops": "0", "actions": "0", "data": "substr(data, 1, length(data) - 1)", "sid": "sid + 1",
		"data ": "x''", "data  ": "x'ffffffffffff'", "data   ": "x'80808080f07f'", "data    ": "'text'", "actions ": "1.5", "ops ": "'text'",
	} {
		path := filepath.Join(t.TempDir(), "reeve.db")
		s := open(t, path, Config{})
		for _, id := range []string{"01X", "01Y"} {
			if err := s.Append(t.Context(), storagetest.Split(storagetest.Records(t, id, 300), 100, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if column == "sid" {
			exec(t, path, `DELETE FROM blocks WHERE sid = 2 AND last > 1`)
		}
		exec(t, path, `UPDATE blocks SET `+column+` = `+value+` WHERE last > 1 AND sid = 1`)
		first := storagetest.FirstBad(t, s, "01X")
		if column == "sid" { // the session that it was taken from ends early, which the summary tells
			first = storagetest.FirstBad(t, s, "01Y")
		}
		if first != 2 {
			t.Errorf("%s = %s: the first bad record is %d", column, value, first)
		}
		if _, err := s.Sessions(t.Context(), 0); err != nil {
			t.Errorf("%s = %s: %v", column, value, err)
		}
	}
}

// TestTrickle stores records one at a time: they end up in blocks all the same, and
// who reads meanwhile sees each once.
func TestTrickle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reeve.db")
	s := open(t, path, Config{})
	all := storagetest.Records(t, "01T", 400)
	var seen []event.Event
	for i := range all {
		if err := s.Append(t.Context(), storagetest.Split(all[i:i+1], 1, uint64(i+1))); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			seen = append(seen, events(t, s, storage.Query{Session: "01T", AfterSeq: uint64(len(seen))})...)
		}
	}
	seen = append(seen, events(t, s, storage.Query{Session: "01T", AfterSeq: uint64(len(seen))})...)
	if !reflect.DeepEqual(seen, all) {
		t.Errorf("%d records were seen, of %d, or others", len(seen), len(all))
	}
	db, err := s.open(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM blocks`).Scan(&n); err != nil || n > 1+400/(fewRecords/4) {
		t.Errorf("%d blocks, %v", n, err)
	}
	exec(t, path, `UPDATE blocks SET data = x'00' WHERE last = 400`)
	more := storagetest.Records(t, "01T", 401)[400:]
	if err := s.Append(t.Context(), storagetest.Split(more, 1, 401)); err != nil {
		t.Errorf("after an altered block: %v", err)
	}
}

// TestReadWhileGrowing reads pages of blocks while the last one grows.
func TestReadWhileGrowing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "reeve.db"), Config{})
	all := storagetest.Records(t, "01G", 2000)
	n := 0
	put := func(k int) {
		for ; k > 0 && n < len(all); k-- {
			if err := s.Append(t.Context(), storagetest.Split(all[n:min(n+3, len(all))], 3, uint64(n+1))); err != nil {
				t.Fatal(err)
			}
			n = min(n+3, len(all))
		}
	}
	put(400)
	var seen []event.Event
	for e, err := range s.Events(t.Context(), storage.Query{Session: "01G"}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, e); len(seen)%5 == 0 {
			put(2)
		}
	}
	if len(seen) < 1200 || !reflect.DeepEqual(seen, all[:len(seen)]) {
		t.Errorf("%d records, or others", len(seen))
	}
}

// TestReadWhileRemoved: what was read of a session that another process removes
// meanwhile does not pass for all of it.
func TestReadWhileRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reeve.db")
	s, other := open(t, path, Config{}), open(t, path, Config{})
	all := storagetest.Typical("01K", 3*pageBlocks*blockRecords)
	if err := s.Append(t.Context(), storagetest.Split(all, 512, 1)); err != nil {
		t.Fatal(err)
	}
	read := 0
	var failed error
	for _, err := range s.Events(t.Context(), storage.Query{Session: "01K"}) {
		if failed = err; err != nil {
			break
		}
		if read++; read == 1 {
			if err := other.Remove(t.Context(), "01K"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if read == len(all) || !errors.Is(failed, storage.ErrNoSession) || !strings.Contains(failed.Error(), "removed") {
		t.Errorf("%d records of %d, error %v", read, len(all), failed)
	}
}

// TestManySizes stores sessions of all sizes around the bounds, in batches of many
// sizes, partly twice.
func TestManySizes(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "reeve.db"), Config{})
	for _, n := range []int{1, 2, 3, 63, 64, 65, 1023, 1024, 1025, 1026, 2050} {
		for _, per := range []int{1, 2, 60, 512} {
			id := fmt.Sprintf("01%d-%d", n, per)
			all := storagetest.Records(t, id, n)
			half := n / 2
			for _, list := range [][]event.Event{all[:half], all[half/2:], all} {
				if err := s.Append(t.Context(), storagetest.Split(list, per, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if got := events(t, s, storage.Query{Session: id}); !reflect.DeepEqual(got, all) {
				t.Errorf("%s: %d records, or others", id, len(got))
			}
		}
	}
}

// TestLarge stores records as large as a message may be, in one batch: each can be
// read again, alone or from a message.
func TestLarge(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "reeve.db"), Config{})
	for _, id := range []string{"01L", "01M"} {
		all := storagetest.Records(t, id, 200)
		chain := event.NewChain(id)
		for i := range all {
			all[i].Detail = strings.Repeat(fmt.Sprint(i), 150_000)
			if _, err := chain.Next(&all[i]); err != nil {
				t.Fatal(err)
			}
		}
		d := storagetest.Split(all, 200, 1)
		if id == "01M" {
			data, err := d.Batches[0].AppendBinary(nil)
			if err == nil {
				err = d.Batches[0].UnmarshalBinary(data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Append(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if got := events(t, s, storage.Query{Session: id}); !reflect.DeepEqual(got, all) {
			t.Errorf("%s: %d records, or others", id, len(got))
		}
	}
	db, err := s.open(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow(`SELECT max(last - first + 1) FROM blocks`).Scan(&n); err != nil || n > 1+blockBytes/150_000 {
		t.Errorf("a block has %d records, %v", n, err)
	}
}

// FuzzUnpack: what somebody wrote into a block is an error or what it was.
func FuzzUnpack(f *testing.F) {
	var k block
	b := storagetest.Split(storagetest.Records(f, "01F", 20), 20, 1).Batches[0]
	if err := k.add(&b); err != nil {
		f.Fatal(err)
	}
	_, data := k.pack("01F", nil, nil)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var got event.Batch
		if x := k.extent; x.unpack("01F", data, &got) == nil && (got.First != k.first || got.Last != k.last) {
			t.Errorf("%d to %d", got.First, got.Last)
		}
		r := blockReader{id: sessionID{id: "01F"}, filter: filter{set: true, kinds: 1}}
		_, _ = r.some(&packed{extent: k.extent, data: data}, func(event.Event, error) bool { return true })
	})
}

// TestExtremeTimes has times that nanoseconds do not tell from none, or that are
// before 1970.
func TestExtremeTimes(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "reeve.db"), Config{})
	all := storagetest.Records(t, "01E", 5)
	chain := event.NewChain("01E")
	for i, at := range []time.Time{{}, time.Unix(0, 5).UTC(), time.Unix(0, 0).UTC(), time.Unix(0, -5).UTC(), time.Unix(0, 1<<63-1).UTC()} {
		all[i].Time = at
		if _, err := chain.Next(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Append(t.Context(), storagetest.Split(all, 5, 1)); err != nil {
		t.Fatal(err)
	}
	if first := storagetest.FirstBad(t, s, "01E"); first != 0 {
		t.Errorf("the first bad record is %d", first)
	}
	if got := events(t, s, storage.Query{Until: time.Unix(0, 3)}); len(got) != 1 || got[0].Seq != 4 {
		t.Errorf("before 1970 there are %d", len(got))
	}
}

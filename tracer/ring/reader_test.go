package ring

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

func soon() time.Time { return time.Now().Add(10 * time.Millisecond) }

func mustRead(t *testing.T, r *Reader, want []byte) event.Origin {
	t.Helper()
	got, at, err := r.Read(time.Now().Add(5 * time.Second))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %q (%v), want %q", got, err, want)
	}
	if at.Ring != 7 || at.To <= at.From {
		t.Fatalf("it stood at %+v", at)
	}
	return at
}

// TestAcksInAnyOrder: the position that the kernel sees is behind exactly the
// records that were acked with all before them, whatever the order.
func TestAcksInAnyOrder(t *testing.T) {
	f := newFake(t, 4096)
	r := f.open(true)
	random := rand.New(rand.NewPCG(1, 2))
	n := 0
	for range 300 {
		var read []event.Origin
		for first := n; f.write(sample(n), 0); n++ {
			if n-first > 20 {
				n++
				break
			}
		}
		for i := n - int(countUnread(f, r)); i < n; i++ {
			read = append(read, mustRead(t, r, sample(i)))
		}
		if _, _, err := r.Read(soon().Add(-9 * time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("an empty ring gives %v", err)
		}
		acked := map[uint64]uint64{}
		for _, i := range random.Perm(len(read)) {
			r.Ack(read[i])
			acked[read[i].From] = read[i].To
			safe := read[0].From
			for acked[safe] != 0 {
				safe = acked[safe]
			}
			if got := f.consumer(); got != safe {
				t.Fatalf("the consumer is at %d, want %d", got, safe)
			}
		}
		if !r.Drained() {
			t.Fatal("all is acked, and the ring is not drained")
		}
	}
	if f.producer() < 5*uint64(f.size) {
		t.Errorf("the ring has not gone round: %d", f.producer())
	}
}

// countUnread walks from where r is to the producer.
func countUnread(f *fake, r *Reader) (n uint64) {
	for pos := r.pos; ; n++ {
		what, next, _, err := r.mem.at(pos)
		if err != nil {
			f.t.Fatal(err)
		}
		if what == nothing {
			return n
		}
		pos = next
	}
}

// TestUnackedTakesRoom: what was read, and not acked, makes the ring full.
func TestUnackedTakesRoom(t *testing.T) {
	f := newFake(t, 4096)
	r := f.open(true)
	n := 0
	for ; f.write(sample(n), 0); n++ {
	}
	var last event.Origin
	for i := range n {
		last = mustRead(t, r, sample(i))
	}
	if f.write(sample(n), 0) {
		t.Fatal("there is room in a ring nothing of which is acked")
	}
	r.Ack(piece(0, last.To)) // as a publisher says it: one piece
	if !f.write(sample(0), 0) || f.consumer() != last.To {
		t.Fatalf("no room after all was acked; the consumer is at %d of %d", f.consumer(), last.To)
	}
}

// TestGivesBackByItself: without Keep nothing has to be acked.
func TestGivesBackByItself(t *testing.T) {
	f := newFake(t, 4096)
	r := f.open(false)
	for n := range 2000 {
		for !f.write(sample(n), 0) {
			t.Fatalf("the ring is full at %d", n)
		}
		mustRead(t, r, sample(n))
	}
}

// TestBusyAndDiscarded: a record that is being written holds those behind it back;
// one that was discarded is no record, and needs no ack.
func TestBusyAndDiscarded(t *testing.T) {
	f := newFake(t, 4096)
	r := f.open(true)
	f.write(sample(1), discardBit)
	held := f.producer()
	f.write(sample(2), busyBit)
	f.write(sample(3), 0)
	if got, _, err := r.Read(soon()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("before it is written: %q, %v", got, err)
	}
	if f.consumer() != held {
		t.Errorf("the discarded record was not given back: the consumer is at %d, want %d", f.consumer(), held)
	}
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(5*time.Millisecond, func() { f.commit(held) })
	mustRead(t, r, sample(2))
	mustRead(t, r, sample(3))
	if _, _, err := r.Read(time.Time{}); !errors.Is(err, ErrFlushed) {
		t.Errorf("after the flush: %v", err)
	}
}

// TestClose: Close ends a Read that waits, and a late ack is no harm.
func TestClose(t *testing.T) {
	f := newFake(t, 4096)
	r := f.open(true)
	f.write(sample(1), 0)
	at := mustRead(t, r, sample(1))
	done := make(chan error, 1)
	go func() {
		_, _, err := r.Read(time.Time{})
		done <- err
	}()
	time.Sleep(5 * time.Millisecond)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("Read ended with %v", err)
	}
	r.Ack(at)
	if f.consumer() != 0 {
		t.Error("a reader that was closed moves the position")
	}
	if err := r.Flush(); !errors.Is(err, ErrClosed) {
		t.Errorf("Flush says %v", err)
	}
}

// TestTorn: lengths that lead astray are an error, not a crash.
func TestTorn(t *testing.T) {
	f := newFake(t, 4096)
	r := f.open(true)
	f.write(sample(1), 0)
	f.put(0, []byte{0xff, 0xff, 0xff, 0x3f})
	if _, _, err := r.Read(soon()); !errors.Is(err, errTorn) {
		t.Errorf("a length of 1 GB: %v", err)
	}
}

package ring

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// What ends a Read besides a record.
var (
	// ErrFlushed says that all that was written before Flush has been read.
	ErrFlushed = errors.New("the ring was flushed")
	// ErrClosed is os.ErrClosed.
	ErrClosed = os.ErrClosed
)

// tick is how often the ring is looked at while records wait to be acked. The
// kernel wakes a reader only where nothing is before the new record, and poll(2)
// returns at once as long as anything is.
const tick = 2 * time.Millisecond

// Config is what a Reader needs.
type Config struct {
	// FD is the map's descriptor, which stays the caller's and open until Close;
	// Size is the ring's, in bytes.
	FD, Size int
	// Number names the ring in the session; it is not 0.
	Number uint32
	// Keep keeps what was read in the ring until Ack. Without it a place is given
	// back when Read is called again, in its own time.
	Keep bool
}

// Reader reads one ring. Read is for one goroutine, all else for any.
type Reader struct {
	cfg  Config
	wake int // an eventfd
	// flushTo is the position up to which must be read before Read says ErrFlushed;
	// 0 is none.
	flushTo atomic.Uint64
	flushes atomic.Bool
	closed  atomic.Bool

	reading sync.Mutex // held by Read
	pos     uint64     // of the next record to read

	mu     sync.Mutex // guards what follows
	mem    *memory    // nil after Close
	safe   uint64     // all before it has been given back
	pieces []event.Origin
}

// Open maps a ring.
func Open(cfg Config) (*Reader, error) {
	mem, err := mapRing(cfg.FD, cfg.Size, true)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open ring: %w", err), mem.unmap())
	}
	at := atomic.LoadUint64(mem.consumer)
	return &Reader{cfg: cfg, wake: wake, mem: mem, pos: at, safe: at}, nil
}

// Number is what Config said.
func (r *Reader) Number() uint32 { return r.cfg.Number }

// Held is the ring for whoever saves it.
func (r *Reader) Held() Held { return Held{Number: r.cfg.Number, FD: r.cfg.FD, Size: r.cfg.Size} }

// Read waits for the next record, at most until the deadline (the zero time is
// none), and says where it stood. The sample is the ring's memory: valid until the
// place is acked or, without Keep, until the next Read. Besides those of this
// package the error may be os.ErrDeadlineExceeded: then, too, nothing was left.
func (r *Reader) Read(until time.Time) (sample []byte, at event.Origin, err error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	for late := false; ; {
		if r.closed.Load() {
			return nil, at, ErrClosed
		}
		if r.flushes.Load() && r.pos >= r.flushTo.Load() {
			r.flushes.Store(false)
			return nil, at, ErrFlushed
		}
		what, next, sample, err := r.mem.at(r.pos)
		if err != nil {
			return nil, at, err
		}
		at = event.Origin{Ring: r.cfg.Number, From: r.pos, To: next}
		switch what {
		case record:
			r.pos = next
			if !r.cfg.Keep && at.From-r.safe > r.mem.mask/8 {
				r.Ack(event.Origin{From: r.safe, To: at.From})
			}
			return sample, at, nil
		case discarded:
			r.pos = next
			r.Ack(at)
			continue
		}
		if !r.cfg.Keep {
			r.Ack(event.Origin{From: r.safe, To: r.pos})
		}
		if late {
			return nil, at, os.ErrDeadlineExceeded
		}
		if late, err = r.wait(until, what == busy); err != nil {
			return nil, at, err
		}
	}
}

// wait waits until there may be something to read. late says that the deadline is
// over.
func (r *Reader) wait(until time.Time, busy bool) (late bool, err error) {
	fds := []unix.PollFd{{Fd: int32(r.wake), Events: unix.POLLIN}, {Fd: int32(r.cfg.FD), Events: unix.POLLIN}}
	var limit *unix.Timespec
	most := time.Duration(-1)
	if !until.IsZero() {
		most = max(time.Until(until), 0)
	}
	if busy || !r.gaveAllBack() {
		fds = fds[:1]
		if most < 0 || most > tick {
			most = tick
		}
	}
	if most >= 0 {
		t := unix.NsecToTimespec(int64(most))
		limit = &t
	}
	if _, err := unix.Ppoll(fds, limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("wait for the ring: %w", err)
	}
	if fds[len(fds)-1].Revents&unix.POLLNVAL != 0 {
		return false, fmt.Errorf("bug: the map of ring %d was closed before its reader", r.cfg.Number)
	}
	if fds[0].Revents != 0 {
		var n [8]byte
		_, _ = unix.Read(r.wake, n[:]) // somebody else may have emptied it
	}
	return !until.IsZero() && !time.Now().Before(until), nil
}

func (r *Reader) gaveAllBack() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.safe == r.pos
}

// Drained says that all that was read was acked.
func (r *Reader) Drained() bool {
	r.reading.Lock()
	defer r.reading.Unlock()
	return r.gaveAllBack()
}

// Ack says that a piece of the ring is safe: it is given back to the kernel once
// all before it is, too. What was given back before is nobody's concern.
func (r *Reader) Ack(piece event.Origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem == nil || piece.To <= r.safe {
		return
	}
	if piece.From > r.safe {
		at, _ := slices.BinarySearchFunc(r.pieces, piece.From, func(o event.Origin, from uint64) int {
			return int(int64(o.From - from)) //nolint:gosec // they are less than a ring apart
		})
		r.pieces = slices.Insert(r.pieces, at, piece)
		return
	}
	r.safe = piece.To
	n := 0
	for ; n < len(r.pieces) && r.pieces[n].From <= r.safe; n++ {
		r.safe = max(r.safe, r.pieces[n].To)
	}
	r.pieces = slices.Delete(r.pieces, 0, n)
	atomic.StoreUint64(r.mem.consumer, r.safe)
}

// Flush makes Read return ErrFlushed once it has given all that was written before.
func (r *Reader) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem == nil {
		return ErrClosed
	}
	r.flushTo.Store(atomic.LoadUint64(r.mem.producer))
	r.flushes.Store(true)
	return r.rouse()
}

func (r *Reader) rouse() error {
	one := [8]byte{1}
	if _, err := unix.Write(r.wake, one[:]); err != nil && !errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("wake the ring's reader: %w", err)
	}
	return nil
}

// Close ends Read and lets go of the ring; what is acked later stays where it is.
func (r *Reader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	err := r.rouse()
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	err = errors.Join(err, r.mem.unmap(), unix.Close(r.wake))
	r.mem = nil
	return err
}

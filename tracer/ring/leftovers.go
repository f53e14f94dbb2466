package ring

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// LeftoversName is the name, in the session's directory, of what was in the rings
// when reeve was killed.
const LeftoversName = "rings"

// The file of leftovers, in the machine's own order:
//
//	magic [8]byte, wall i64, boot u64          nanoseconds, when it was written
//	frames: ring u32, length u32, from u64, checksum u32, 0 u32, length bytes
//	full:   ring fullRing, from = the number of a ring that had no room left
//	end:    ring endRing, from = the number of frames
//
// A checksum covers what stands before it in the frame, and the bytes.
const (
	magic      = "reeverg1"
	fileHead   = len(magic) + 16
	frameHead  = 24
	endRing    = 1<<32 - 1
	fullRing   = endRing - 1
	maxSample  = 1 << 20
	writerSize = 256 << 10
)

// Held is a ring as a descriptor of its map.
type Held struct {
	Number   uint32
	FD, Size int
}

// Save copies what is between consumer and producer of rings that nobody writes to
// or reads any more into the directory behind dir. Where nothing is, it makes no
// file. What it could not copy, the next Load misses.
func Save(dir int, rings []Held) (err error) {
	s := saver{dir: dir}
	var errs []error
	for _, h := range rings {
		if err := s.ring(h); err != nil {
			errs = append(errs, fmt.Errorf("save ring %d: %w", h.Number, err))
		}
	}
	if len(errs) == 0 {
		return s.finish()
	}
	_, err = s.open() // a file without an end says that something is missing
	return errors.Join(append(errs, err, s.close())...)
}

type saver struct {
	dir    int
	file   *os.File
	w      *bufio.Writer
	frames uint64
}

// open makes the file when it is first needed.
func (s *saver) open() (*bufio.Writer, error) {
	if s.file != nil {
		return s.w, nil
	}
	fd, err := unix.Openat(s.dir, LeftoversName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make file of leftovers: %w", err)
	}
	s.file = os.NewFile(uintptr(fd), LeftoversName)
	s.w = bufio.NewWriterSize(s.file, writerSize)
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return nil, fmt.Errorf("read boot time: %w", err)
	}
	head := binary.NativeEndian.AppendUint64([]byte(magic), uint64(time.Now().UnixNano()))
	_, err = s.w.Write(binary.NativeEndian.AppendUint64(head, uint64(boot.Nano())))
	return s.w, err
}

// stuck is how long a record may stay half written: whoever writes one is a
// program that cannot wait, on behalf of a task that is gone.
const stuck = 100 * time.Millisecond

// nearlyFull is the part of a ring that may be free in one that is taken for full: a
// record is smaller in most.
const nearlyFull = 16

func (s *saver) ring(h Held) (err error) {
	mem, err := mapRing(h.FD, h.Size, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mem.unmap()) }()
	began, first := time.Now(), atomic.LoadUint64(mem.consumer)
	for pos := first; ; {
		what, next, sample, err := mem.at(pos)
		switch {
		case err != nil:
			return err
		case what == nothing && pos-first > uint64(h.Size-h.Size/nearlyFull):
			return s.frame(fullRing, uint64(h.Number), nil)
		case what == nothing:
			return nil
		case what == busy && time.Since(began) > stuck:
			return errors.New("a record was never finished")
		case what == busy:
			time.Sleep(time.Millisecond)
		case what == record:
			if err := s.frame(h.Number, pos, sample); err != nil {
				return err
			}
		}
		pos = next
	}
}

func (s *saver) frame(number uint32, from uint64, sample []byte) error {
	w, err := s.open()
	if err != nil {
		return err
	}
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, frameHead), number)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(sample)))
	b = binary.NativeEndian.AppendUint64(b, from)
	b = binary.NativeEndian.AppendUint32(b, checksum(checksum(0, b), sample))
	b = binary.NativeEndian.AppendUint32(b, 0)
	if _, err := w.Write(b); err != nil {
		return err
	}
	_, err = w.Write(sample)
	s.frames++
	return err
}

func (s *saver) finish() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.frame(endRing, s.frames, nil), s.close())
}

func (s *saver) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.w.Flush(), s.file.Sync(), s.file.Close())
}

// Sample is one record that a killed session's rings held.
type Sample struct {
	At   event.Origin
	Data []byte
}

// Leftovers are what Save wrote.
type Leftovers struct {
	// Wall and Boot are the time of day and of CLOCK_BOOTTIME (nanoseconds) when it
	// was written.
	Wall time.Time
	Boot uint64
	// Samples are in the order of each ring, one ring after the other.
	Samples []Sample
	// Full are the rings that had no room left: what found none was counted by the
	// kernel at most, and nobody knows how often.
	Full []uint32
	// Torn says why there may have been more, nil if this is all.
	Torn error
}

// Load reads what Save wrote, as far as it can be read. The error is that of a file
// that cannot be opened, os.ErrNotExist among them.
func Load(path string) (*Leftovers, error) {
	f, err := openFile(path, os.O_RDONLY)
	if errors.Is(err, errNotFile) {
		return &Leftovers{Torn: err}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open leftovers: %w", err)
	}
	defer f.Close()
	l := &Leftovers{}
	r := bufio.NewReaderSize(f, writerSize)
	head := make([]byte, fileHead)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(magic)]) != magic {
		l.Torn = errors.New("it does not begin as one")
		return l, nil
	}
	l.Wall = time.Unix(0, int64(binary.NativeEndian.Uint64(head[len(magic):])))
	l.Boot = binary.NativeEndian.Uint64(head[len(magic)+8:])
	for {
		s, err := readFrame(r)
		frames := uint64(len(l.Samples) + len(l.Full))
		switch {
		case err != nil:
			l.Torn = fmt.Errorf("after %d records: %w", len(l.Samples), err)
			return l, nil
		case s.At.Ring == endRing && s.At.From != frames:
			l.Torn = fmt.Errorf("%d records, of %d", frames, s.At.From)
			return l, nil
		case s.At.Ring == endRing:
			return l, nil
		case s.At.Ring == fullRing:
			l.Full = append(l.Full, uint32(s.At.From))
		default:
			l.Samples = append(l.Samples, s)
		}
	}
}

func readFrame(r io.Reader) (s Sample, err error) {
	head := make([]byte, frameHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return s, fmt.Errorf("read record: %w", err)
	}
	length := binary.NativeEndian.Uint32(head[4:])
	if length > maxSample {
		return s, fmt.Errorf("a record of %d bytes", length)
	}
	s.Data = make([]byte, length)
	if _, err := io.ReadFull(r, s.Data); err != nil {
		return s, fmt.Errorf("read record: %w", err)
	}
	sum := checksum(checksum(0, head[:16]), s.Data)
	if sum != binary.NativeEndian.Uint32(head[16:]) {
		return s, errors.New("a record whose checksum is wrong")
	}
	from := binary.NativeEndian.Uint64(head[8:])
	s.At = event.Origin{Ring: binary.NativeEndian.Uint32(head), From: from, To: from + headerBytes + (uint64(length)+7)&^7}
	return s, nil
}

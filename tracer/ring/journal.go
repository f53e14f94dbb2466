package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/reeve-audit/reeve/tracer/event"
)

// JournalName is the journal's name in the session's directory.
const JournalName = "rings.journal"

// A journal is a file of slots that are written in turn: more of them than
// messages can be on their way to the bus, so the one that belongs to the last
// message on the bus is always there. A slot is
//
//	checksum u32, count u32, last u64, count × (ring u32, inner u32, from u64, to u64)
//
// in the machine's own order, since nobody else reads it.
const (
	slots     = 256
	slotBytes = 512
	slotHead  = 16
	markBytes = 24
	// MaxMarks is how many marks a slot takes.
	MaxMarks = (slotBytes - slotHead) / markBytes
)

// checksum is that of b, or of what came before and b. The table is not made before
// it is needed: init is linked with this package, and somebody waits for its start.
func checksum(before uint32, b []byte) uint32 {
	return crc32.Update(before, crc32.MakeTable(crc32.Castagnoli), b)
}

// Journal writes what a session's publisher tells it. It is for one goroutine.
type Journal struct {
	path string
	file *os.File // nil until there is something to note
	next int
	slot [slotBytes]byte
}

// NewJournal is the journal in a session's directory. The file is made, or gone on
// with, when there is something to note.
func NewJournal(path string) *Journal { return &Journal{path: path} }

// Note states that the records up to sequence number last come from the pieces in
// marks, MaxMarks at most.
func (j *Journal) Note(last uint64, marks []event.Origin) error {
	if j.file == nil {
		if err := j.open(); err != nil {
			return err
		}
	}
	if len(marks) > MaxMarks {
		return fmt.Errorf("bug: %d marks for a journal of %d", len(marks), MaxMarks)
	}
	b := binary.NativeEndian.AppendUint32(j.slot[:4], uint32(len(marks)))
	b = binary.NativeEndian.AppendUint64(b, last)
	for _, m := range marks {
		b = binary.NativeEndian.AppendUint32(b, m.Ring)
		b = binary.NativeEndian.AppendUint32(b, m.Inner)
		b = binary.NativeEndian.AppendUint64(b, m.From)
		b = binary.NativeEndian.AppendUint64(b, m.To)
	}
	binary.NativeEndian.PutUint32(b, checksum(0, b[4:]))
	if _, err := j.file.WriteAt(b, int64(j.next)*slotBytes); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	j.next = (j.next + 1) % slots
	return nil
}

func (j *Journal) open() error {
	f, err := openFile(j.path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	list, err := readSlots(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.file, j.next = f, 0
	var latest uint64
	for _, e := range list {
		if e.last >= latest {
			latest, j.next = e.last, (e.slot+1)%slots
		}
	}
	return nil
}

// Close closes the file.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

type entry struct {
	slot  int
	last  uint64
	marks []event.Origin
}

// readSlots reads all slots that are whole.
func readSlots(f *os.File) (list []entry, err error) {
	b := make([]byte, slots*slotBytes)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	for i := 0; i*slotBytes+slotHead <= n; i++ {
		s := b[i*slotBytes : (i+1)*slotBytes]
		count := binary.NativeEndian.Uint32(s[4:])
		if count == 0 || count > MaxMarks {
			continue
		}
		end := slotHead + markBytes*int(count)
		if checksum(0, s[4:end]) != binary.NativeEndian.Uint32(s) {
			continue
		}
		e := entry{slot: i, last: binary.NativeEndian.Uint64(s[8:])}
		for at := slotHead; at < end; at += markBytes {
			e.marks = append(e.marks, event.Origin{
				Ring: binary.NativeEndian.Uint32(s[at:]), Inner: binary.NativeEndian.Uint32(s[at+4:]),
				From: binary.NativeEndian.Uint64(s[at+8:]), To: binary.NativeEndian.Uint64(s[at+16:]),
			})
		}
		list = append(list, e)
	}
	return list, nil
}

// Marks say which pieces of the rings are in a stream.
type Marks []event.Origin

// ReadMarks reads from a journal what is in the stream whose last record has the
// sequence number last. Without a journal, or with something else in
// its place, nothing is.
func ReadMarks(path string, last uint64) (Marks, error) {
	f, err := openFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotFile) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	list, err := readSlots(f)
	var marks Marks
	var latest uint64
	for _, e := range list {
		if e.last <= last && e.last > latest {
			latest, marks = e.last, e.marks
		}
	}
	return marks, errors.Join(err, f.Close())
}

// Have says whether a record is in the stream: those of a ring and a session
// inside are, from the first to the last that was recorded there.
func (m Marks) Have(o event.Origin) bool {
	for _, at := range m {
		if at.Ring == o.Ring && at.Inner == o.Inner && at.From <= o.From && o.To <= at.To {
			return true
		}
	}
	return false
}

// HaveRing is Have where it is not known which session inside a record is of.
func (m Marks) HaveRing(o event.Origin) bool {
	for _, at := range m {
		if o.Inner = at.Inner; (Marks{at}).Have(o) {
			return true
		}
	}
	return false
}

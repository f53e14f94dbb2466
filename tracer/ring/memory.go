package ring

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The form of a ring, see kernel/bpf/ringbuf.c: a page with the consumer's
// position, one with the producer's, and the data, which are mapped twice so that
// no record is torn at the end. Before each record stands its length, with two
// bits, and what only the kernel needs.
const (
	headerBytes = 8
	busyBit     = 1 << 31
	discardBit  = 1 << 30
)

// memory is a mapped ring.
type memory struct {
	consumerPage, dataPages []byte
	consumer, producer      *uint64
	data                    []byte // twice the ring
	mask                    uint64
}

// mapRing maps the ring of size bytes behind a map's descriptor; only with move the
// consumer's position can be changed.
func mapRing(fd, size int, move bool) (*memory, error) {
	if size <= 0 || size&(size-1) != 0 {
		return nil, fmt.Errorf("map a ring of %d bytes: not a power of two", size)
	}
	page, access := os.Getpagesize(), unix.PROT_READ
	if move {
		access |= unix.PROT_WRITE
	}
	consumer, err := unix.Mmap(fd, 0, page, access, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the ring's consumer page: %w", err)
	}
	data, err := unix.Mmap(fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map the ring's data: %w", err), unix.Munmap(consumer))
	}
	return &memory{
		consumerPage: consumer, dataPages: data, data: data[page:], mask: uint64(size - 1),
		consumer: (*uint64)(unsafe.Pointer(&consumer[0])), producer: (*uint64)(unsafe.Pointer(&data[0])),
	}, nil
}

func (m *memory) unmap() error {
	return errors.Join(unix.Munmap(m.dataPages), unix.Munmap(m.consumerPage))
}

// place is what stands at a position.
type place uint8

const (
	nothing place = iota // the producer is here
	busy                 // a program is writing it
	discarded
	record
)

var errTorn = errors.New("the ring is torn: a length leads beyond what was written")

// at says what stands at a position, where the next one is, and gives the record:
// the ring's own memory, as it is until the position has been given back.
func (m *memory) at(pos uint64) (p place, next uint64, sample []byte, err error) {
	left := atomic.LoadUint64(m.producer) - pos
	if left == 0 {
		return nothing, pos, nil, nil
	}
	at := pos & m.mask
	// Read with acquire: the kernel takes the busy bit away when all is written.
	head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&m.data[at])))
	if head&busyBit != 0 {
		return busy, pos, nil, nil
	}
	length := uint64(head &^ (busyBit | discardBit))
	next = pos + headerBytes + (length+7)&^7
	if next-pos > left || left > m.mask+1 {
		return nothing, pos, nil, fmt.Errorf("%w: %d bytes at %d, %d written", errTorn, length, pos, left)
	}
	if head&discardBit != 0 {
		return discarded, next, nil, nil
	}
	return record, next, m.data[at+headerBytes : at+headerBytes+length], nil
}

package ring

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// fake is a ring as the kernel lays it out, in a file in memory. Other than the
// kernel's, it is always ready to poll(2).
type fake struct {
	t        testing.TB
	fd, size int
	all      []byte
}

func newFake(t testing.TB, size int) *fake {
	t.Helper()
	fd, err := unix.MemfdCreate("ring", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	total := 2*os.Getpagesize() + 2*size
	if err := unix.Ftruncate(fd, int64(total)); err != nil {
		t.Fatal(err)
	}
	all, err := unix.Mmap(fd, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	return &fake{t, fd, size, all}
}

func (f *fake) word(at int) *uint64 { return (*uint64)(unsafe.Pointer(&f.all[at])) }
func (f *fake) consumer() uint64    { return atomic.LoadUint64(f.word(0)) }
func (f *fake) producer() uint64    { return atomic.LoadUint64(f.word(os.Getpagesize())) }

// put writes b at a position of the data, in both copies.
func (f *fake) put(pos uint64, b []byte) {
	for i, c := range b {
		at := 2*os.Getpagesize() + int(pos+uint64(i))%f.size
		f.all[at], f.all[at+f.size] = c, c
	}
}

// write writes a record with the bits, false if there is no room.
func (f *fake) write(sample []byte, bits uint32) bool {
	pos := f.producer()
	next := pos + headerBytes + uint64(len(sample)+7)&^7
	if next-f.consumer() > uint64(f.size) {
		return false
	}
	f.put(pos, binary.NativeEndian.AppendUint64(nil, uint64(uint32(len(sample))|bits)))
	f.put(pos+headerBytes, sample)
	atomic.StoreUint64(f.word(os.Getpagesize()), next)
	return true
}

// commit takes the busy bit of the record at a position away.
func (f *fake) commit(pos uint64) {
	at := 2*os.Getpagesize() + int(pos)%f.size
	for _, at := range []int{at, at + f.size} {
		head := (*uint32)(unsafe.Pointer(&f.all[at]))
		atomic.StoreUint32(head, *head&^uint32(busyBit))
	}
}

func (f *fake) open(keep bool) *Reader {
	f.t.Helper()
	r, err := Open(Config{FD: f.fd, Size: f.size, Number: 7, Keep: keep})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return r
}

// sample is the nth of samples of all lengths.
func sample(n int) []byte {
	return append(bytes.Repeat([]byte{byte(n)}, n%40), fmt.Sprint("sample ", n)...)
}

func piece(from, to uint64) event.Origin { return event.Origin{Ring: 7, From: from, To: to} }

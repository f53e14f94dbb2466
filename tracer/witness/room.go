package witness

import (
	"encoding/binary"

	"github.com/cilium/ebpf"

	"github.com/reeve-audit/reeve/bpf"
)

// Room is what has to be free in the witness's ring so that no record of it is
// lost. The engine lsm, which can refuse forks and execs, keeps it free.
type Room struct {
	// Ring is the witness's, and gone after Close. Bytes is how much it takes.
	Ring  *ebpf.Map
	Bytes uint32
	// Fork, Exec and Exit are what one record takes in the ring, at most.
	Fork, Exec, Exit uint32
}

// Room says it.
func (w *Witness) Room() Room {
	return Room{
		Ring: w.objects.Records, Bytes: w.objects.Records.MaxEntries() - ringAlign,
		Fork: inRing(binary.Size(bpf.WitnessForkRecord{})), Exit: inRing(binary.Size(bpf.WitnessExitRecord{})),
		Exec: inRing(int(w.objects.Scratches.ValueSize())), // where one is put together
	}
}

// What a record is in the ring: BPF_RINGBUF_HDR_SZ of uapi/linux/bpf.h more, and
// aligned. A ring is full when less than that is free.
const (
	ringHeader = 8
	ringAlign  = 8
)

func inRing(bytes int) uint32 {
	return uint32((bytes + ringHeader + ringAlign - 1) / ringAlign * ringAlign)
}

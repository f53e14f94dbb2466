package automaton

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// decodeTables reads the tables and checks every entry against its bound, and
// that the dead state is dead.
func (a *Automaton) decodeTables(d *decoder, s sizes) error {
	copy(a.class[:], d.take(256))
	for b, c := range a.class {
		if int(c) >= s.classes {
			return fmt.Errorf("byte %d is of class %d of %d", b, c, s.classes)
		}
	}
	raw := d.take(2 * s.states * s.classes)
	if d.keep {
		a.next = uint16sIn(raw)
	}
	if a.next == nil {
		a.next = make([]uint16, s.states*s.classes)
		copyUint16s(a.next, raw)
	}
	if highest := highestOf(a.next); int(highest) >= s.states {
		return fmt.Errorf("transition to state %d of %d", highest, s.states)
	}
	for _, to := range a.next[:s.classes] {
		if to != uint16(dead) {
			return errors.New("the dead state has a way out")
		}
	}
	a.accept = make([]uint32, s.states)
	for i := range a.accept {
		if a.accept[i] = d.u32(); a.accept[i] >= uint32(s.accepts) {
			return fmt.Errorf("state %d has accept class %d of %d", i, a.accept[i], s.accepts)
		}
	}
	if a.accept[dead] != 0 {
		return errors.New("the dead state accepts")
	}
	a.winners = make([]int32, s.accepts*s.layers)
	for i := range a.winners {
		if a.winners[i] = int32(d.u32()); a.winners[i] < -1 || int(a.winners[i]) >= s.rules {
			return fmt.Errorf("winner %d of %d rules", a.winners[i], s.rules)
		}
		if i < s.layers && a.winners[i] != -1 {
			return errors.New("accept class 0 has a winner")
		}
	}
	return nil
}

// decodeRules reads the rules and checks that they are in their layers.
func (a *Automaton) decodeRules(d *decoder, s sizes) error {
	lengths, sum := make([]int, s.rules), 0
	a.rules = make([]Rule, s.rules)
	for i := range a.rules {
		lengths[i] = int(d.u32())
		layer, below := d.u32(), d.u32()
		if layer >= uint32(s.layers) || below > 1 || lengths[i] > maxGlob {
			return fmt.Errorf("rule %d: layer %d, below %d, %d bytes", i, layer, below, lengths[i])
		}
		sum += lengths[i]
		a.rules[i] = Rule{Layer: int(layer), Below: below == 1, Tie: int(int64(d.u64())), Group: int(int64(d.u64()))}
	}
	if sum != len(d.data) {
		return fmt.Errorf("globs of %d bytes, want %d", sum, len(d.data))
	}
	globs := string(d.data)
	for i, n := range lengths {
		a.rules[i].Glob, globs = globs[:n], globs[n:]
	}
	for i, w := range a.winners {
		if w >= 0 && a.rules[w].Layer != i%s.layers {
			return fmt.Errorf("rule %d of layer %d wins in layer %d", w, a.rules[w].Layer, i%s.layers)
		}
	}
	return nil
}

// uint16sIn are the numbers in raw, in place; nil where this machine has them in
// another order or not at such an address.
func uint16sIn(raw []byte) []uint16 {
	at := unsafe.Pointer(unsafe.SliceData(raw))
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 || uintptr(at)%unsafe.Alignof(uint16(0)) != 0 {
		return nil
	}
	return unsafe.Slice((*uint16)(at), len(raw)/2)
}

func copyUint16s(to []uint16, raw []byte) {
	for i := range to {
		to[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
}

// highestOf is the highest number of a table, which is nearly all there is to load:
// four are looked at in a step.
func highestOf(table []uint16) uint16 {
	var a, b, c, d uint16
	for ; len(table) >= 4; table = table[4:] {
		a, b, c, d = max(a, table[0]), max(b, table[1]), max(c, table[2]), max(d, table[3])
	}
	for _, v := range table {
		a = max(a, v)
	}
	return max(a, b, c, d)
}

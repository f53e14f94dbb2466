package automaton

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The binary form, all numbers little-endian:
//
//	"reeveDFA"  magic
//	u32         format version
//	u32         CRC-32C of everything after this field
//	u32 × 6     states, classes, layers, accept classes, rules, bytes of all globs
//	256 bytes   byte → class
//	u16 …       next, states × classes
//	u32 …       accept, states
//	u32 …       winners (two's complement), accept classes × layers
//	per rule    u32 length of the glob, u32 layer, u32 below, u64 tie, u64 group
//	bytes       the globs, one after another
const (
	magic         = "reeveDFA"
	formatVersion = 1
	headerSize    = len(magic) + 4 + 4
	ruleSize      = 3*4 + 2*8
	maxRules      = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrFormat is wrapped by all errors of UnmarshalBinary.
var ErrFormat = errors.New("not a compiled automaton")

// Fingerprint identifies rules and the format of their binary form: a compiled
// automaton may be loaded in place of compiling rules with the same fingerprint.
func Fingerprint(rules []Rule) [sha256.Size]byte {
	buf := binary.LittleEndian.AppendUint32([]byte(magic), formatVersion)
	return sha256.Sum256(appendRules(buf, rules))
}

func appendRules(buf []byte, rules []Rule) []byte {
	for _, r := range rules {
		below := uint32(0)
		if r.Below {
			below = 1
		}
		buf = binary.LittleEndian.AppendUint32(buf, uint32(len(r.Glob)))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(r.Layer))
		buf = binary.LittleEndian.AppendUint32(buf, below)
		buf = binary.LittleEndian.AppendUint64(buf, uint64(int64(r.Tie)))
		buf = binary.LittleEndian.AppendUint64(buf, uint64(int64(r.Group)))
	}
	for _, r := range rules {
		buf = append(buf, r.Glob...)
	}
	return buf
}

// MarshalBinary gives the tables and the rules in a form that can be kept and
// loaded. It never fails.
func (a *Automaton) MarshalBinary() ([]byte, error) {
	globs := 0
	for _, r := range a.rules {
		globs += len(r.Glob)
	}
	size := headerSize + 6*4 + 256 + 2*len(a.next) + 4*len(a.accept) + 4*len(a.winners) + ruleSize*len(a.rules) + globs
	buf := make([]byte, 0, size)
	buf = append(buf, magic...)
	buf = binary.LittleEndian.AppendUint32(buf, formatVersion)
	buf = append(buf, 0, 0, 0, 0)
	for _, n := range []int{len(a.accept), a.classes, a.layers, a.NumAccepts(), len(a.rules), globs} {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(n))
	}
	buf = append(buf, a.class[:]...)
	for _, v := range a.next {
		buf = binary.LittleEndian.AppendUint16(buf, v)
	}
	for _, v := range a.accept {
		buf = binary.LittleEndian.AppendUint32(buf, v)
	}
	for _, v := range a.winners {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(v))
	}
	buf = appendRules(buf, a.rules)
	sum := crc32.Checksum(buf[headerSize:], castagnoli)
	binary.LittleEndian.PutUint32(buf[headerSize-4:], sum)
	return buf, nil
}

// UnmarshalBinary loads what MarshalBinary made. Whatever the bytes, it does not
// panic, and neither does any method of what it accepts: every number is checked
// against its bound. The checksum is against damage, not against forgery, so
// keep compiled automata where only the policy's owner can write. After an error
// the automaton is as before. It must not be called while others use a.
func (a *Automaton) UnmarshalBinary(data []byte) error {
	loaded, err := decode(data, false)
	if err != nil {
		return fmt.Errorf("load automaton: %w: %w", ErrFormat, err)
	}
	*a = *loaded
	return nil
}

// Load is UnmarshalBinary without a copy: the automaton stands on data, which must
// not change for as long as it is used, such as a file that is mapped.
func Load(data []byte) (*Automaton, error) {
	a, err := decode(data, true)
	if err != nil {
		return nil, fmt.Errorf("load automaton: %w: %w", ErrFormat, err)
	}
	return a, nil
}

// decoder reads the sections of the binary form; sizes are checked before. With keep
// the tables may be where they are in data.
type decoder struct {
	data []byte
	keep bool
}

func (d *decoder) u32() uint32 {
	v := binary.LittleEndian.Uint32(d.data)
	d.data = d.data[4:]
	return v
}

func (d *decoder) u64() uint64 {
	v := binary.LittleEndian.Uint64(d.data)
	d.data = d.data[8:]
	return v
}

func (d *decoder) take(n int) []byte {
	v := d.data[:n]
	d.data = d.data[n:]
	return v
}

// sizes are the lengths of all sections.
type sizes struct{ states, classes, layers, accepts, rules, globs int }

// check bounds each size, so that no product can overflow, and compares their
// sum with the bytes there are.
func (s sizes) check(have int) error {
	switch {
	case s.states < 2 || s.states > DefaultMaxStates:
		return fmt.Errorf("%d states", s.states)
	case s.classes < 1 || s.classes > 256:
		return fmt.Errorf("%d byte classes", s.classes)
	case s.layers > MaxLayers:
		return fmt.Errorf("%d layers", s.layers)
	case s.accepts < 1 || s.accepts > s.states:
		return fmt.Errorf("%d accept classes for %d states", s.accepts, s.states)
	case s.layers == 0 && s.accepts != 1:
		return fmt.Errorf("%d accept classes without layers", s.accepts)
	case s.rules > maxRules || s.globs > s.rules*maxGlob:
		return fmt.Errorf("%d rules of %d bytes", s.rules, s.globs)
	}
	want := 256 + 2*s.states*s.classes + 4*s.states + 4*s.accepts*s.layers + ruleSize*s.rules + s.globs
	if want != have {
		return fmt.Errorf("%d bytes of tables, want %d", have, want)
	}
	return nil
}

func decode(data []byte, keep bool) (*Automaton, error) {
	if len(data) < headerSize+6*4 || string(data[:len(magic)]) != magic {
		return nil, errors.New("magic does not match")
	}
	d := &decoder{data: data[len(magic):], keep: keep}
	if v := d.u32(); v != formatVersion {
		return nil, fmt.Errorf("format version %d, want %d", v, formatVersion)
	}
	if sum := d.u32(); sum != crc32.Checksum(d.data, castagnoli) {
		return nil, errors.New("checksum does not match: the file is damaged")
	}
	s := sizes{
		states: int(d.u32()), classes: int(d.u32()), layers: int(d.u32()),
		accepts: int(d.u32()), rules: int(d.u32()), globs: int(d.u32()),
	}
	if err := s.check(len(d.data)); err != nil {
		return nil, err
	}
	a := &Automaton{classes: s.classes, layers: s.layers, derived: &derived{}}
	if err := a.decodeTables(d, s); err != nil {
		return nil, err
	}
	return a, a.decodeRules(d, s)
}

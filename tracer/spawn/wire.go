package spawn

import (
	"encoding/binary"
	"errors"

	"golang.org/x/net/bpf"
)

// A message on the wire is its fields in the order of the structs. Numbers are
// varints, texts have their length before them, and of what may be missing a
// number says whether it is there. Both ends are the same binary, so there is no
// version. The form is our own because an argument or a variable is any bytes,
// which JSON cannot say, and because the command waits while it is decoded.

func (m *message) append(b []byte) []byte {
	b = appendText(b, string(m.Kind))
	b = binary.AppendVarint(b, int64(m.PID))
	b = binary.AppendUvarint(b, uint64(m.Status))
	b = binary.AppendVarint(b, int64(m.Signal))
	b = binary.AppendVarint(b, int64(m.Errno))
	b = appendText(b, m.Step)
	b = appendBool(b, m.Order != nil)
	if m.Order != nil {
		b = m.Order.append(b)
	}
	return b
}

func (o *Order) append(b []byte) []byte {
	b = appendText(b, o.Path)
	b = appendTexts(b, o.Argv)
	b = appendTexts(b, o.Env)
	b = appendText(b, o.Dir)
	b = appendBool(b, o.IDs != nil)
	if o.IDs != nil {
		b = binary.AppendVarint(b, int64(o.IDs.UID))
		b = binary.AppendVarint(b, int64(o.IDs.GID))
		b = binary.AppendUvarint(b, uint64(len(o.IDs.Groups)))
		for _, g := range o.IDs.Groups {
			b = binary.AppendVarint(b, int64(g))
		}
	}
	b = appendBool(b, o.KeepCaps != nil)
	if o.KeepCaps != nil {
		b = binary.AppendUvarint(b, *o.KeepCaps)
	}
	b = binary.AppendUvarint(b, uint64(len(o.Filter)))
	for _, i := range o.Filter {
		b = binary.AppendUvarint(b, uint64(i.Op))
		b = append(b, i.Jt, i.Jf)
		b = binary.AppendUvarint(b, uint64(i.K))
	}
	b = appendBool(b, o.Landlock)
	b = appendBool(b, o.PrivateIPC)
	b = appendBool(b, o.Linger)
	b = appendBool(b, o.Terminal != nil)
	if o.Terminal != nil {
		b = o.Terminal.append(b)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

var errWire = errors.New("bug: not a message of the launch protocol")

// decodeMessage is the message in b, all of it; it keeps nothing of b.
func decodeMessage(b []byte) (message, error) {
	d := decoder{rest: b}
	m := message{
		Kind: kind(d.text()), PID: d.int(), Status: uint32(d.number(1<<32 - 1)),
		Signal: d.int(), Errno: d.int(), Step: d.text(),
	}
	if d.bool() {
		m.Order = d.order()
	}
	if d.bad || len(d.rest) > 0 {
		return message{}, errWire
	}
	return m, nil
}

// decoder takes one field after another; bad says that one was not there.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) order() *Order {
	o := &Order{Path: d.text(), Argv: d.texts(), Env: d.texts(), Dir: d.text()}
	if d.bool() {
		o.IDs = &IDs{UID: d.int(), GID: d.int()}
		for n := d.count(); n > 0; n-- {
			o.IDs.Groups = append(o.IDs.Groups, d.int())
		}
	}
	if d.bool() {
		keep := d.number(1<<64 - 1)
		o.KeepCaps = &keep
	}
	n := d.count()
	o.Filter = make([]bpf.RawInstruction, 0, n)
	for ; n > 0; n-- {
		op := uint16(d.number(1<<16 - 1))
		jump := d.take(2)
		if d.bad {
			break
		}
		o.Filter = append(o.Filter, bpf.RawInstruction{Op: op, Jt: jump[0], Jf: jump[1], K: uint32(d.number(1<<32 - 1))})
	}
	o.Landlock, o.PrivateIPC, o.Linger = d.bool(), d.bool(), d.bool()
	if d.bool() {
		o.Terminal = d.terminal()
	}
	return o
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	v := d.rest[:n]
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) number(most uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if d.bad || n <= 0 || v > most {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// count is how many elements follow: no more than there are bytes.
func (d *decoder) count() uint64 { return d.number(uint64(len(d.rest))) }

func (d *decoder) int() int {
	v, n := binary.Varint(d.rest)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return int(v)
}

func (d *decoder) bool() bool { return d.number(1) == 1 }

func (d *decoder) text() string { return string(d.take(d.number(1<<63 - 1))) }

func (d *decoder) texts() []string {
	n := d.count()
	out := make([]string, 0, n)
	for ; n > 0 && !d.bad; n-- {
		out = append(out, d.text())
	}
	return out
}

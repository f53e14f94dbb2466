package spawn

import (
	"reflect"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func samples() []message {
	keep := uint64(1<<63 | 5)
	return []message{
		{Kind: kindGo},
		{Kind: kindFailed, Errno: 13, Step: "exec: \xff\x00"},
		{Kind: kindExited, PID: 1 << 22, Status: 1<<32 - 1, Signal: -1},
		{Kind: kindOrder, Order: &Order{Argv: []string{}, Env: []string{}, Filter: []bpf.RawInstruction{}}},
		{Kind: kindOrder, Order: &Order{
			Path: "/bin/sh", Argv: []string{"sh", "", "\xff\xfe\xc3("}, Env: []string{"A=\x80", "=", ""}, Dir: "/\xe9t\xe9",
			IDs: &IDs{UID: 65534, GID: -1, Groups: []int{0, 7}}, KeepCaps: &keep,
			Filter:   []bpf.RawInstruction{{Op: 6, K: 0x7fc00000}, {Op: 0xffff, Jt: 255, Jf: 1, K: 1<<32 - 1}},
			Landlock: true, PrivateIPC: true, Linger: true,
			Terminal: &Terminal{Streams: []int{0, 2}, Reset: "\x1b[!p", Modes: &unix.Termios{Iflag: 1, Oflag: 2, Cflag: 3, Lflag: 1<<32 - 1, Line: 9, Cc: [19]uint8{3, 28}, Ospeed: 15}},
		}},
		{Kind: kindOrder, Order: &Order{
			Argv: []string{}, Env: []string{}, Filter: []bpf.RawInstruction{}, Terminal: &Terminal{},
		}},
	}
}

// TestWire: what is decoded is what was encoded, any bytes included, and nothing
// less or more is taken for a message.
func TestWire(t *testing.T) {
	for _, m := range samples() {
		b := m.append(nil)
		got, err := decodeMessage(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("decoded %+v (order %+v), %v; want %+v (order %+v)", got, got.Order, err, m, m.Order)
		}
		for n := range b {
			if got, err := decodeMessage(b[:n]); err == nil {
				t.Errorf("%d of %d bytes of %s decode to %+v", n, len(b), m.Kind, got)
			}
		}
		if _, err := decodeMessage(append(b, 0)); err == nil {
			t.Errorf("%s with a byte behind it is decoded", m.Kind)
		}
	}
}

// FuzzWire: no bytes make the decoder panic or take much memory, and what it
// accepts means the same when it is encoded and decoded again.
func FuzzWire(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err != nil {
			return
		}
		again, err := decodeMessage(m.append(nil))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v becomes %+v, %v", m, again, err)
		}
	})
}

package wire_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/vm/wire"
)

// TestFrames: what is written is what is read, long payloads in parts.
func TestFrames(t *testing.T) {
	var line bytes.Buffer
	long := bytes.Repeat([]byte("x\x00\n"), 50_000)
	for _, f := range []struct {
		kind    byte
		payload []byte
	}{{wire.Hello, []byte("6.12")}, {wire.Stdout, long}, {wire.Stderr, nil}, {wire.Exit, []byte("0")}} {
		if err := wire.Write(&line, f.kind, f.payload); err != nil {
			t.Fatal(err)
		}
	}
	got, order := map[byte][]byte{}, ""
	for {
		kind, payload, err := wire.Read(&line)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[kind] = append(got[kind], payload...)
		if !strings.HasSuffix(order, string(kind)) {
			order += string(kind)
		}
	}
	if order != "hoex" || !bytes.Equal(got[wire.Stdout], long) || string(got[wire.Exit]) != "0" {
		t.Errorf("order %q, %d bytes of stdout, exit %q", order, len(got[wire.Stdout]), got[wire.Exit])
	}
}

// TestBroken: noise and a cut stream are errors, never output.
func TestBroken(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"noise", "[    1.0] panic", "none of ours"},
		{"cut head", "o\x00\x00", "unexpected EOF"},
		{"cut payload", "o\x00\x00\x00\x05ab", "unexpected EOF"},
		{"too long", "o\xff\xff\xff\xff", "at most"},
	} {
		if _, _, err := wire.Read(strings.NewReader(c.line)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

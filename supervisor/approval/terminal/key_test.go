package terminal

import "testing"

func TestNextKey(t *testing.T) {
	for _, c := range []struct {
		in   string
		kind keyKind
		r    rune
		n    int
	}{
		{"y", typed, 'y', 1}, {"\x03", typed, interrupt, 1}, {"é", typed, 'é', 2}, {"\xc3", 0, 0, 0},
		{"\x1b", 0, 0, 0}, {"\x1by", noise, 0, 2}, {"\x1b\x1b[A", noise, 0, 1},
		{"\x1b[A", up, 0, 3}, {"\x1bOB", down, 0, 3}, {"\x1b[5~", pageUp, 0, 4}, {"\x1b[6", 0, 0, 0},
		{"\x1b[1;5A", up, 0, 6}, {"\x1bOP", noise, 0, 3},
		{"\x1b[200~", pasteBegin, 0, 6}, {"\x1b[201~", pasteEnd, 0, 6},
		{"\x1b[12;40R", reply, 0, 8}, {"\x1b[?62;c", reply, 0, 7}, {"\x1b[?2026;2$y", reply, 0, 11},
		{"\x1b]11;rgb:0/0/0\x1b\\", reply, 0, 16}, {"\x1b]11;rgb:0/0/0\a", reply, 0, 15}, {"\x1b]11;rgb", 0, 0, 0},
		{"\x1bP1$r0m\x1b\\", reply, 0, 9}, {"\x1b[?1u", reply, 0, 5},
		{"\x1b[121u", typed, 'y', 6}, {"\x1b[121;1u", typed, 'y', 8}, {"\x1b[99;5u", typed, interrupt, 7},
		{"\x1b[110;2u", typed, 'N', 8}, {"\x1b[110:78;2u", typed, 'N', 11}, {"\x1b[121;1:3u", noise, 0, 10},
		{"\x1b[121;3u", noise, 0, 8}, {"\x1b[27;5;99~", typed, interrupt, 10}, {"\x1b[121;129u", typed, 'y', 10},
		{"\x1b[My!!", noise, 0, 6}, {"\x1b[M y", 0, 0, 0}, {"\x1b[<0;5;5M", noise, 0, 9}, {"\x1b[I", noise, 0, 3},
	} {
		k, n := nextKey([]byte(c.in))
		if n != c.n || n > 0 && (k.kind != c.kind || k.r != c.r || string(k.raw) != c.in[:n]) {
			t.Errorf("%q: kind %d, rune %q, %d bytes %q; want %d %q %d", c.in, k.kind, k.r, n, k.raw, c.kind, c.r, c.n)
		}
	}
}

// TestTypedAhead: the shell gets what a person typed and nothing else.
func TestTypedAhead(t *testing.T) {
	for _, c := range []struct{ sent, unread, unsent, want string }{
		{"", "", "", ""},
		{"ls\r", "ls\n", "", "ls\n"},
		{"answer\rmake te", "make te", "st\r", "make test\n"},
		{"ls\r", "rm -rf /\n", "", ""},                // the command's own words
		{"ls\r", "", "pw\x03\x04d\x1b[2;2Rd", "pwdd"}, // no keys of control, no replies
	} {
		if got := string(typedAhead([]byte(c.sent), []byte(c.unread), []byte(c.unsent))); got != c.want {
			t.Errorf("sent %q, unread %q, unsent %q: %q, want %q", c.sent, c.unread, c.unsent, got, c.want)
		}
	}
}

// FuzzNextKey: every byte is taken once, in order, or waits for more.
func FuzzNextKey(f *testing.F) {
	f.Add([]byte("y\x1b[A\x1b]0;\x1bx\x1b[Mabc\xff"))
	f.Fuzz(func(t *testing.T, p []byte) {
		for rest := p; len(rest) > 0; {
			k, n := nextKey(rest)
			if n == 0 {
				return
			}
			if n < 0 || n > len(rest) || string(k.raw) != string(rest[:n]) {
				t.Fatalf("%q: takes %d as %q", rest, n, k.raw)
			}
			if k.kind == typed && k.r == 'y' && rest[0] != 'y' && rest[0] != 0x1b {
				t.Fatalf("%q is a yes", rest[:n])
			}
			rest = rest[n:]
		}
	})
}

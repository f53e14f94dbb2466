package terminal

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// key is one thing that came from the outer terminal.
type key struct {
	kind keyKind
	r    rune   // of a typed key: a character, or a control character
	raw  []byte // as it came
}

type keyKind uint8

const (
	typed keyKind = iota
	up
	down
	pageUp
	pageDown
	reply      // of the terminal, to something that the command asked it
	pasteBegin // until pasteEnd, what comes is no key
	pasteEnd
	noise // what means nothing here: other keys, the mouse
)

// Control characters that are for the command as well.
const (
	interrupt = 0x03 // ^C
	quit      = 0x1c // ^\
	stop      = 0x1a // ^Z
)

// nextKey takes one key off p. n is 0 when p ends within one.
func nextKey(p []byte) (k key, n int) {
	switch {
	case len(p) == 0:
		return k, 0
	case p[0] != 0x1b:
		if !utf8.FullRune(p) {
			return k, 0
		}
		r, size := utf8.DecodeRune(p)
		return key{kind: typed, r: r, raw: p[:size]}, size
	case len(p) == 1:
		return k, 0
	}
	switch p[1] {
	case '[':
		return controlKey(p)
	case 'O': // SS3: one more byte
		if len(p) < 3 {
			return k, 0
		}
		return key{kind: arrow(p[2]), raw: p[:3]}, 3
	case ']', 'P', 'X', '^', '_':
		return textReply(p)
	case 0x1b: // ESC alone, and another sequence
		return key{kind: noise, raw: p[:1]}, 1
	}
	// ESC and a key: Alt, or Escape and then a key. Neither answers.
	_, size := utf8.DecodeRune(p[1:])
	return key{kind: noise, raw: p[:1+size]}, 1 + size
}

func arrow(final byte) keyKind {
	switch final {
	case 'A':
		return up
	case 'B':
		return down
	}
	return noise
}

// controlKey reads a CSI sequence.
func controlKey(p []byte) (key, int) {
	end := bytes.IndexFunc(p[2:], func(r rune) bool { return r >= 0x40 && r < 0x7f })
	if end < 0 {
		return key{}, 0
	}
	end += 2
	n := end + 1
	params, final := string(p[2:end]), p[end]
	k := key{kind: noise, raw: p[:n]}
	switch final {
	case 'A', 'B':
		k.kind = arrow(final)
	case '~':
		k.kind, k.r = tildeKey(params)
	case 'u':
		k.kind, k.r = kittyKey(params)
	case 'M': // X10's mouse report: three bytes more
		if params == "" {
			if len(p) < n+3 {
				return key{}, 0
			}
			n += 3
			k.raw = p[:n]
		}
	case 'R', 'c', 'n', 't', 'x', 'y': // CPR, DA, DSR, window, DECREPTPARM, DECRPM
		k.kind = reply
	}
	return k, n
}

func tildeKey(params string) (keyKind, rune) {
	switch params {
	case "5":
		return pageUp, 0
	case "6":
		return pageDown, 0
	case "200":
		return pasteBegin, 0
	case "201":
		return pasteEnd, 0
	}
	// xterm's modifyOtherKeys: 27;modifiers;code
	if f := strings.Split(params, ";"); len(f) == 3 && f[0] == "27" {
		return modified(f[2], f[1])
	}
	return noise, 0
}

// kittyKey reads code:…;modifiers:event;text of kitty's keyboard protocol.
func kittyKey(params string) (keyKind, rune) {
	if strings.HasPrefix(params, "?") {
		return reply, 0
	}
	f := append(strings.Split(params, ";"), "1")
	code, shifted, _ := strings.Cut(f[0], ":")
	mods, event, _ := strings.Cut(f[1], ":")
	if event != "" && event != "1" {
		return noise, 0 // repeated or released
	}
	if upper, _, _ := strings.Cut(shifted, ":"); upper != "" && mods == "2" {
		code = upper
	}
	return modified(code, mods)
}

// modified is a character with modifiers: 1 and bits for shift (1), alt (2) and
// control (4), of which the first is in the character already.
func modified(code, mods string) (keyKind, rune) {
	c, err := strconv.Atoi(code)
	m, err2 := strconv.Atoi(mods)
	if err != nil || err2 != nil || c <= 0 || c > utf8.MaxRune {
		return noise, 0
	}
	const capsLock, numLock = 64, 128
	switch (m - 1) &^ (capsLock | numLock) {
	case 0, 1:
		if m == 2 && c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		return typed, rune(c)
	case 4:
		if c >= '@' && c < 0x7f {
			return typed, rune(c & 0x1f)
		}
	}
	return noise, 0
}

// textReply reads a string of the terminal's: ESC, a letter, until ST or BEL.
func textReply(p []byte) (key, int) {
	for i := 2; i < len(p); i++ {
		switch {
		case p[i] == 0x07:
			return key{kind: reply, raw: p[:i+1]}, i + 1
		case p[i] == 0x1b && i+1 < len(p):
			if p[i+1] == '\\' {
				return key{kind: reply, raw: p[:i+2]}, i + 2
			}
			return key{kind: noise, raw: p[:i]}, i
		}
	}
	return key{}, 0
}

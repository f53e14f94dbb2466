package event

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendJSONString appends s as a JSON string in which nothing can steer a
// terminal or reorder a line: control characters (C0, DEL, C1), line and
// paragraph separators and bidirectional formatting are \u-escaped, and bytes
// that are not UTF-8 become U+FFFD.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendEscapedByte(b, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError && !steers(r) {
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		if r == utf8.RuneError {
			b = append(b, "\ufffd"...)
		} else {
			b = appendUnicodeEscape(b, r)
		}
		i += n
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscapedByte(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\t':
		return append(b, '\\', 't')
	}
	return appendUnicodeEscape(b, rune(c))
}

// appendUnicodeEscape appends \uXXXX; r is in the basic plane.
func appendUnicodeEscape(b []byte, r rune) []byte {
	return append(b, '\\', 'u',
		hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}

// steers reports characters beyond ASCII that change how other text is shown.
func steers(r rune) bool {
	switch {
	case r >= 0x80 && r < 0xa0: // C1 controls
	case r == 0x061c, r == 0x200e, r == 0x200f: // bidirectional marks
	case r >= 0x2028 && r <= 0x202e: // separators, embeddings, overrides
	case r >= 0x2066 && r <= 0x2069: // isolates
	default:
		return false
	}
	return true
}

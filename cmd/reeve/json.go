package main

import (
	"encoding/json"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// newJSON is the encoder of every JSON that a verb prints: what a terminal would obey
// or what changes the direction of text is escaped in it, and not control characters
// below 0x20 alone.
func newJSON(w io.Writer) *json.Encoder { return json.NewEncoder(shownJSON{w}) }

// shownJSON is a writer of whole JSON values.
type shownJSON struct{ to io.Writer }

func (s shownJSON) Write(p []byte) (int, error) {
	if _, err := s.to.Write(showJSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// showJSON escapes what is not printable in JSON text. Such characters stand only
// inside its strings, so the value stays the same.
func showJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r != 0x7f && (r < utf8.RuneSelf || unicode.IsPrint(r)):
			out = append(out, text[i:i+size]...)
		case r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			out = appendEscape(appendEscape(out, high), low)
		default:
			out = appendEscape(out, r)
		}
		i += size
	}
	return out
}

func appendEscape(out []byte, r rune) []byte {
	return append(out, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable makes text safe to draw: what is not printable, and where ascii all
// that is not ASCII, comes out as \xNN or \u{NNNN}. Callers escape what they show;
// this makes sure of it.
func printable(text string, ascii bool) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < 0x20, r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r < 0x80:
			b.WriteRune(r)
		// A mark joins the character before it, which nobody could tell apart.
		case ascii, !unicode.IsPrint(r), unicode.Is(unicode.M, r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// wide are the characters that take two cells: Unicode's East Asian Width, W and
// F, in ranges. A terminal that disagrees shows a line shorter or cut.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x231a, Hi: 0x231b, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0xa4cf, Stride: 1}, {Lo: 0xa960, Hi: 0xa97c, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x16fe0, Hi: 0x18aff, Stride: 1}, {Lo: 0x1aff0, Hi: 0x1b2ff, Stride: 1}, {Lo: 0x1f200, Hi: 0x1f2ff, Stride: 1},
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

func cell(r rune) int {
	if r >= 0x1100 && unicode.Is(wide, r) {
		return 2
	}
	return 1
}

// cells is the width of printable text.
func cells(text string) (n int) {
	for _, r := range text {
		n += cell(r)
	}
	return n
}

// head is as much of the beginning of text as fits into width cells.
func head(text string, width int) string {
	for i, r := range text {
		if width -= cell(r); width < 0 {
			return text[:i]
		}
	}
	return text
}

// tail is as much of the end of text as fits into width cells.
func tail(text string, width int) string {
	i := len(text)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:i])
		if width -= cell(r); width < 0 {
			break
		}
		i -= size
	}
	return text[i:]
}

// cut leaves out the middle of text that is wider than width, since the ends tell
// more of paths and command lines.
func cut(text string, width int, dots string) string {
	if cells(text) <= width {
		return text
	}
	room := width - cells(dots)
	if room < 2 {
		return head(text, width)
	}
	end := room / 2
	return head(text, room-end) + dots + tail(text, end)
}

// wrap breaks text into rows of at most width cells. All but the first begin with
// mark, so that no text can look like lines of its own.
func wrap(text string, width int, mark string) (rows []string) {
	for first := true; first || text != ""; first = false {
		prefix := ""
		if !first && cells(mark) < width-1 {
			prefix = mark
		}
		part := head(text, max(1, width-cells(prefix)))
		if part == "" && text != "" { // a wide character and a single column
			_, size := utf8.DecodeRuneInString(text)
			part = text[:size]
		}
		rows = append(rows, prefix+part)
		text = text[len(part):]
	}
	return rows
}

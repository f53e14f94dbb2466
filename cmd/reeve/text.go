package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// sanitize is escape for text in which a backslash means itself: messages, whose
// quoted parts are escaped already.
func sanitize(s string) string {
	parts := strings.Split(s, `\`)
	for i, p := range parts {
		parts[i] = escape(p)
	}
	return strings.Join(parts, `\`)
}

const hexDigits = "0123456789abcdef"

// escape makes any bytes safe to show on a terminal: what is not printable, what
// changes the direction of text, letters that show nothing, piles of marks, and bytes that are not UTF-8 come out as \n,
// \xNN or \u{NNNN}, a backslash as two. Names and arguments are chosen by the
// supervised command, which must not be able to paint over what reeve says.
func escape(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	marks := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		if marks > maxMarks || slices.Contains(fillers, r) {
			writeRune(&b, r)
		} else {
			escapeRune(&b, r, size, s[i])
		}
		i += size
	}
	return b.String()
}

// maxMarks is how many marks may join one character: no script needs more, and a
// pile of them covers the lines above.
const maxMarks = 4

// fillers are letters to Unicode, which a terminal shows as nothing.
var fillers = []rune{0x115f, 0x1160, 0x3164, 0xffa0}

func escapeRune(b *strings.Builder, r rune, size int, first byte) {
	switch {
	case r == '\\':
		b.WriteString(`\\`)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case r == utf8.RuneError && size == 1, r < 0x20, r == 0x7f:
		b.WriteString(`\x`)
		b.WriteByte(hexDigits[first>>4])
		b.WriteByte(hexDigits[first&15])
	case unicode.IsPrint(r):
		b.WriteRune(r)
	default:
		writeRune(b, r)
	}
}

func writeRune(b *strings.Builder, r rune) {
	b.WriteString(`\u{`)
	writeHex(b, uint32(r))
	b.WriteByte('}')
}

func writeHex(b *strings.Builder, n uint32) {
	if n >= 16 {
		writeHex(b, n/16)
	}
	b.WriteByte(hexDigits[n%16])
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f || s[i] == '\\' {
			return false
		}
	}
	return true
}

// quote is escape for one word among others: quoted where a shell would need it.
func quote(word string) string {
	if word == "" {
		return "''"
	}
	e := escape(word)
	if strings.ContainsAny(word, " '\"$`&|;<>()*?[]#~!{}\\") || e != word {
		return "'" + strings.ReplaceAll(e, "'", `'\''`) + "'"
	}
	return e
}

// commandLine shows an argument vector.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = quote(a)
	}
	return strings.Join(words, " ")
}

// ink colours text, or does not.
type ink bool

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "34"
	cyan   = "36"
	faint  = "2"
	bold   = "1"
)

// paint wraps text, which must already be escaped.
func (i ink) paint(colour, text string) string {
	if !i || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// inkFor colours on a terminal, unless NO_COLOR (no-color.org) is set or the
// terminal says that it cannot.
func inkFor(w io.Writer) ink {
	return ink(os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// pad fills text up to width columns, counting runes; longer text stays whole.
func pad(text string, width int) string {
	if n := width - utf8.RuneCountInString(text); n > 0 {
		return text + strings.Repeat(" ", n)
	}
	return text
}

// plainColumns is how wide text is that goes to no terminal.
const plainColumns = 100

// columns is how wide text for w may be.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return plainColumns
}

// hang breaks text that begins at column indent between words, so that it ends before
// column width, with the same indent for what follows. A word that is too long stays
// whole, and a narrow page still gets some words a line.
func hang(text string, indent, width int) string {
	const least = 30
	var b strings.Builder
	room := max(width-indent, least)
	used := 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

package terminal

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// screen follows what the command's output makes of the terminal: the modes that
// a question has to switch off and on again, and whether the output stands between
// two sequences, where something else may be written.
//
// It reads sequences as ECMA-48 and xterm's ctlseqs have them. It knows nothing of
// what is shown.
type screen struct {
	state  parserState
	seq    []byte // parameters and intermediates of the CSI sequence so far
	part   []byte // the unfinished sequence, up to longestPart of it
	lead   byte   // of the UTF-8 character being read
	expect int    // its bytes to come

	modes  map[int]bool // private modes that are not as they are at first
	insert bool         // IRM
	region string       // parameters of DECSTBM; empty is all
	// margins are the parameters of DECSLRM; empty is all, or the mode is off.
	margins string
	// coloured says that the command may have given colours another look.
	coloured bool
	// kitty says that the command speaks kitty's keyboard protocol, keys what it
	// set xterm's modifyOtherKeys to.
	kitty bool
	keys  string
}

// Private modes that take part in asking, with what they are at first.
const (
	modeOrigin, modeWrap, modeCursor, modeMargins, modePaste = 6, 7, 25, 69, 2004
)

// reporting are the modes that make the terminal send what is not a key, or hold
// back what is drawn.
var reporting = []int{9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2026}

// alternates are the modes of the alternate screen.
var alternates = []int{47, 1047, 1049}

func initially(mode int) bool { return mode == modeWrap || mode == modeCursor }

// dispatch takes a whole CSI sequence.
func (s *screen) dispatch(final byte) {
	params := string(s.seq)
	switch {
	case len(s.seq) >= longest:
	case final == 'h' || final == 'l':
		s.set(params, final == 'h')
	case final == 'r' && !strings.ContainsAny(params, "?<=>! $"):
		s.region = params
	case final == 's' && s.is(modeMargins) && !strings.ContainsAny(params, "?<=>! $"):
		s.margins = params
	case final == 'p' && params == "!": // DECSTR
		s.insert, s.region, s.margins, s.keys = false, "", "", ""
		delete(s.modes, modeMargins)
		delete(s.modes, modeOrigin)
		delete(s.modes, modeCursor)
	case final == 'u' && params != "" && strings.IndexByte("<=>", params[0]) >= 0:
		s.kitty = true
	case final == 'm' && strings.HasPrefix(params, ">4"):
		_, s.keys, _ = strings.Cut(params, ";")
	}
}

func (s *screen) set(params string, on bool) {
	private := strings.HasPrefix(params, "?")
	for p := range strings.SplitSeq(strings.TrimPrefix(params, "?"), ";") {
		n, err := strconv.Atoi(p)
		switch {
		case err != nil:
		case !private && n == 4:
			s.insert = on
		case !private:
		case slices.Contains(alternates, n):
			for _, m := range alternates {
				s.mode(m, on)
			}
		case n == modeMargins:
			s.mode(n, on)
			s.margins = ""
		case slices.Contains(reporting, n), n == modeOrigin, n == modeWrap, n == modeCursor, n == modePaste:
			s.mode(n, on)
		}
	}
}

func (s *screen) mode(n int, on bool) {
	if on == initially(n) {
		delete(s.modes, n)
		return
	}
	if s.modes == nil {
		s.modes = map[int]bool{}
	}
	s.modes[n] = on
}

// is says whether a mode is on.
func (s *screen) is(n int) bool {
	if on, ok := s.modes[n]; ok {
		return on
	}
	return initially(n)
}

// alternate says whether the command is on the alternate screen.
func (s *screen) alternate() bool { return s.is(1049) }

// take are the sequences that take the terminal from the command: they keep the
// cursor with its attributes, and undo what would disturb a drawing or the
// reading of keys. Pastes are marked, so that they are not taken for keys.
//
// Margins are switched off whatever the command is known to have sent, since they
// would cut the question short. Colours that the command has redefined become the
// terminal's own again, since text may have been made invisible by them; they stay so:
// nobody knows what they were, and a program that had set them, or a person's script
// that had before it, has to set them again.
func (s *screen) take(inline bool) []byte {
	var b bytes.Buffer
	if s.alternate() || inline {
		b.WriteString("\x1b7")
	} else {
		b.WriteString("\x1b[?1049h")
	}
	b.WriteString("\x1b[?69l\x1b[r\x1b[?6l\x1b[4l\x1b(B\x0f\x1b[0m")
	if s.coloured {
		b.WriteString(ownColours)
		s.coloured = false
	}
	for _, n := range reporting {
		if s.is(n) {
			setMode(&b, n, false)
		}
	}
	if s.kitty {
		b.WriteString("\x1b[>0u")
	}
	if s.keys != "" {
		b.WriteString("\x1b[>4;0m")
	}
	setMode(&b, modePaste, true)
	if inline {
		b.WriteString("\x1b8\x1b[0m\x1b(B\x0f") // home again, where the question is printed
		setMode(&b, modeWrap, true)
		return b.Bytes()
	}
	setMode(&b, modeWrap, false)
	setMode(&b, modeCursor, false)
	return b.Bytes()
}

// ownColours makes the palette, its special colours, and those of text, background,
// cursor, pointer and selection the terminal's own; the last is the Linux console's word
// for it.
const ownColours = "\x1b]104\x1b\\\x1b]105\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\" +
	"\x1b]113\x1b\\\x1b]114\x1b\\\x1b]117\x1b\\\x1b]118\x1b\\\x1b]119\x1b\\\x1b]R\x1b\\"

// giveBack undoes take, but for the colours. The cursor comes last, since some modes move it.
func (s *screen) giveBack(inline bool) []byte {
	var b bytes.Buffer
	if inline {
		b.WriteString("\x1b7")
	} else {
		b.WriteString("\x1b[0m\x1b[2J")
	}
	if s.keys != "" {
		b.WriteString("\x1b[>4;" + s.keys + "m")
	}
	if s.kitty {
		b.WriteString("\x1b[<u")
	}
	for _, n := range reporting {
		if s.is(n) && n != 2026 { // what was held back was shown
			setMode(&b, n, true)
		}
	}
	for _, n := range []int{modePaste, modeWrap, modeCursor} {
		setMode(&b, n, s.is(n))
	}
	if s.insert {
		b.WriteString("\x1b[4h")
	}
	if s.region != "" {
		b.WriteString("\x1b[" + s.region + "r")
	}
	if s.is(modeMargins) {
		setMode(&b, modeMargins, true)
		if s.margins != "" {
			b.WriteString("\x1b[" + s.margins + "s")
		}
	}
	if s.is(modeOrigin) {
		setMode(&b, modeOrigin, true)
	}
	if s.alternate() || inline {
		b.WriteString("\x1b8")
	} else {
		b.WriteString("\x1b[?1049l")
	}
	return b.Bytes()
}

func setMode(b *bytes.Buffer, n int, on bool) {
	b.WriteString("\x1b[?" + strconv.Itoa(n))
	if on {
		b.WriteByte('h')
	} else {
		b.WriteByte('l')
	}
}

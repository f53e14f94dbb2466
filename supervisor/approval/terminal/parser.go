package terminal

import (
	"strconv"
	"strings"
)

type parserState uint8

const (
	ground parserState = iota
	inEscape
	inIntermediate // after ESC and a byte that announces another
	inControl      // CSI
	inCommand      // OSC, which BEL ends as well as ST
	inText         // DCS, SOS, PM, APC
	inTextEscape   // ESC in one of the last two
	inCharacter    // of several bytes
)

// longest is how much of a CSI sequence is kept. A longer one changes none of
// the modes that matter.
const longest = 128

// longestPart is how much of a sequence is kept to be sent again.
const longestPart = 4096

// feed takes output. With stop it ends behind the first byte after which there is
// no unfinished sequence, and says how many bytes that is.
func (s *screen) feed(p []byte, stop bool) int {
	for i, c := range p {
		s.step(c)
		switch {
		case s.state == ground:
			s.part = s.part[:0]
		case len(s.part) < longestPart:
			s.part = append(s.part, c)
		}
		if stop && s.state == ground {
			return i + 1
		}
	}
	return len(p)
}

func (s *screen) step(c byte) {
	switch s.state {
	case inCommand, inText:
		s.stepText(c)
		return
	case inTextEscape:
		s.state = ground
		if c != '\\' {
			s.state = inEscape
			s.step(c)
		}
		return
	case inCharacter:
		s.stepCharacter(c)
		return
	}
	switch {
	case c == 0x18 || c == 0x1a: // CAN and SUB end any sequence
		s.state = ground
	case c == 0x1b:
		s.state = inEscape
	case s.state == ground:
		s.begin(c)
	case c < 0x20 || c == 0x7f: // done at once, within a sequence
	case s.state == inEscape:
		s.escaped(c)
	case s.state == inIntermediate:
		if c >= 0x30 {
			s.state = ground
		}
	case c >= 0x40 && c < 0x7f:
		s.state = ground
		s.dispatch(c)
	case len(s.seq) < longest:
		s.seq = append(s.seq, c)
	}
}

func (s *screen) stepText(c byte) {
	switch {
	case c == 0x18 || c == 0x1a, c == 0x07 && s.state == inCommand:
		s.state = ground
	case c == 0x1b:
		s.state = inTextEscape
	case s.state == inCommand:
		s.stepCommand(c)
	}
}

// stepCommand looks for an OSC that sets colours: 4, 5 and those from 10 to 21, by
// their number, and the Linux console's P.
func (s *screen) stepCommand(c byte) {
	switch {
	case len(s.seq) > 3: // past its number, or none that is known
	case c >= '0' && c <= '9':
		if len(s.seq) > 0 || c != '0' { // leading zeros are none
			s.seq = append(s.seq, c)
		}
	default:
		n, err := strconv.Atoi(string(s.seq))
		s.coloured = s.coloured || err == nil && (n == 4 || n == 5 || n >= 10 && n <= 21) || len(s.seq) == 0 && c == 'P'
		s.seq = append(s.seq, "past"...)
	}
}

// begin takes the first byte of a character.
func (s *screen) begin(c byte) {
	switch {
	case c < 0xc2 || c > 0xf4:
		return
	case c < 0xe0:
		s.expect = 1
	case c < 0xf0:
		s.expect = 2
	default:
		s.expect = 3
	}
	s.state, s.lead = inCharacter, c
}

func (s *screen) stepCharacter(c byte) {
	if c&0xc0 != 0x80 {
		s.state = ground
		s.step(c)
		return
	}
	if s.expect--; s.expect > 0 {
		return
	}
	s.state = ground
	if s.lead == 0xc2 && c < 0xa0 { // a C1 control: ESC and c-0x40
		s.escaped(c - 0x40)
	}
}

// escaped takes the byte after ESC.
func (s *screen) escaped(c byte) {
	s.state = ground
	switch {
	case c == '[':
		s.state, s.seq = inControl, s.seq[:0]
	case c == ']':
		s.state, s.seq = inCommand, s.seq[:0]
	case strings.IndexByte("PX^_", c) >= 0:
		s.state = inText
	case c >= 0x20 && c < 0x30:
		s.state = inIntermediate
	case c == 'c': // RIS, which leaves the colours in some terminals
		*s = screen{coloured: s.coloured}
	}
}

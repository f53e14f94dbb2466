package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// sheet is one question as it is drawn. Its texts are printable.
type sheet struct {
	able   ability
	lines  []string // of the question, or of the rule that is about to be written
	number int      // of this question among those since the terminal was taken
	of     int
	left   time.Duration
	status string // what came of the last key; may be empty
	// confirm says that lines are a rule, and the question is whether to write it.
	confirm bool
	// whole shows every line in full, from row offset on; otherwise each that is
	// too long is cut.
	whole  bool
	offset int
}

// The styles of rows.
const (
	reverse = "\x1b[7m"
	boldOn  = "\x1b[1m"
	plain   = "\x1b[0m"
)

func (s *sheet) dots() string {
	if s.able.unicode {
		return "…"
	}
	return "..."
}

func (s *sheet) mark() string {
	if s.able.unicode {
		return "    ↳ "
	}
	return "    > "
}

// titles say where in the queue this question is, and how long it waits, from the
// longest form to the shortest.
func (s *sheet) titles() []string {
	name, short := "asks", ""
	if s.confirm {
		name, short = "asks: write this rule?", "write? "
	}
	left := clock(s.left)
	return []string{
		fmt.Sprintf(" reeve %s   question %d of %d   %s left ", name, s.number, s.of, left),
		fmt.Sprintf("reeve %s %d/%d %s left", name, s.number, s.of, left),
		fmt.Sprintf("%s%d/%d %s", short, s.number, s.of, left),
	}
}

func clock(d time.Duration) string {
	n := int(max(0, d).Round(time.Second) / time.Second)
	return fmt.Sprintf("%d:%02d", n/60, n%60)
}

// prompts are what the keys mean, from the longest form to the shortest.
func (s *sheet) prompts(cutOff, more bool) []string {
	view := ""
	switch {
	case more:
		view = "   space down   b up   v back"
	case cutOff:
		view = "   v show all"
	}
	if s.confirm {
		return []string{"y write it and allow   any other key back" + view, "y write it" + view, "y write?"}
	}
	short := ""
	if view != "" {
		short = " v"
	}
	return []string{
		"y yes, once   s yes, this session   a always...   n no   N no, this session" + view,
		"y once  s session  a always  n no  N no, session" + view,
		"y once s session a always n no N never" + short,
		"y/s/a/n/N" + short + "?",
	}
}

// rows draws the sheet into at most height rows of width cells, which have no
// control characters but the styles'. All cells are written: a program can guard
// what it has drawn against being erased.
func (s *sheet) rows(width, height int) []string {
	if width < 1 || height < 1 {
		return nil
	}
	var rows []string
	add := func(style, text string) {
		rows = append(rows, s.styled(style, pad(cut(text, width, s.dots()), width)))
	}
	if height < 4 {
		for _, text := range s.few(width, height) {
			add("", text)
		}
		return rows
	}
	add(reverse, s.fit(width, s.titles()...))
	status := wrap(s.status, width, s.mark())
	status = status[:min(len(status), max(1, height/3))]
	body, cutOff := s.body(width, max(1, height-2-len(status))) // without title and prompt
	for i, text := range body {
		style := ""
		if i == 0 && s.offset == 0 && !s.confirm {
			style = boldOn
		}
		add(style, text)
	}
	for len(rows) < height-1-len(status) {
		add("", "")
	}
	for _, text := range status {
		add("", text)
	}
	add(boldOn, s.fit(width, s.prompts(cutOff, s.whole)...))
	return rows
}

// body is the question's lines in room rows. cutOff says that there is more.
func (s *sheet) body(width, room int) (rows []string, cutOff bool) {
	rows = s.wrapped(width)
	if len(rows) <= room {
		s.whole, s.offset = false, 0
		return rows, false
	}
	if s.whole {
		s.offset = max(0, min(s.offset, len(rows)-room))
		return rows[s.offset : s.offset+room], true
	}
	if extra := room - len(s.lines); extra >= 0 {
		return s.fill(width, extra), true
	}
	more := fmt.Sprintf("  %s %d lines more", s.dots(), len(s.lines)-room+1)
	return append(slices.Clone(s.lines[:room-1]), more), true
}

// fill gives the first lines that can have it the rows that are to spare, and cuts
// the others.
func (s *sheet) fill(width, spare int) (rows []string) {
	for _, line := range s.lines {
		w := wrap(line, width, s.mark())
		if n := len(w) - 1; n <= spare {
			rows = append(rows, w...)
			spare -= n
		} else {
			rows = append(rows, line)
		}
	}
	return rows
}

// few is the sheet where there is hardly any room.
func (s *sheet) few(width, height int) []string {
	what := ""
	if len(s.lines) > 0 {
		what = s.lines[0]
	}
	keys := s.fit(width, s.prompts(true, s.whole)...)
	if height == 1 {
		short := s.prompts(true, false)
		k := head(short[len(short)-1], width)
		if free := width - cells(k) - 1; free > 4 {
			k += " " + cut(what, free, s.dots())
		}
		return []string{k}
	}
	rows := []string{what}
	if s.whole {
		all := s.wrapped(width)
		s.offset = max(0, min(s.offset, len(all)-1))
		rows[0] = all[s.offset]
	}
	if height == 3 {
		rows = slices.Insert(rows, 0, s.fit(width, s.titles()...))
	}
	return append(rows, keys)
}

func (s *sheet) wrapped(width int) (rows []string) {
	for _, line := range s.lines {
		rows = append(rows, wrap(line, width, s.mark())...)
	}
	return rows
}

// fit is the first of the forms that fits, or the beginning of the last.
func (s *sheet) fit(width int, forms ...string) string {
	for _, f := range forms {
		if cells(f) <= width {
			return f
		}
	}
	return head(forms[len(forms)-1], width)
}

func (s *sheet) styled(style, text string) string {
	if !s.able.style || style == "" {
		return text
	}
	return style + text + plain
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-cells(text)))
}

// draw is the sheet on an empty screen.
func (s *sheet) draw(width, height int) []byte {
	var b strings.Builder
	for i, row := range s.rows(width, height) {
		fmt.Fprintf(&b, "\x1b[%d;1H%s", i+1, row)
	}
	return []byte(b.String())
}

// print is the sheet as lines below what is there.
func (s *sheet) print() []byte {
	lines := append([]string{"", strings.TrimSpace(s.titles()[0])}, s.lines...)
	return []byte(strings.Join(append(lines, s.prompts(false, false)[0]+": "), "\r\n"))
}

package terminal

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// quiet is how long nobody may have typed before a key counts as an answer.
const quiet = 300 * time.Millisecond

// asking is what the loop knows while a question is shown.
type asking struct {
	id       string // of the question; empty between two
	deadline time.Time
	sheet    sheet
	answered int       // questions since the terminal was taken
	typed    time.Time // when the last key came that was no answer, or the question
	first    bool      // the command had the keys until this question came
	drawn    string    // what is on the screen; empty draws anew

	keys   []byte // the beginning of a sequence
	keysAt time.Time
	paste  bool
}

// nextTick is when the clock shows something else, or a lone Escape is no
// sequence's beginning any more.
func (a *asking) nextTick(now time.Time) time.Time {
	if len(a.keys) > 0 {
		return a.keysAt.Add(a.patience())
	}
	left := a.deadline.Sub(now)
	return now.Add(max(time.Millisecond, left-left.Round(time.Second)+time.Second/2))
}

// torn is how long the rest of a terminal's reply may be on its way. What comes
// without its beginning would be taken for keys: \x1b[?2026;2$y ends like a yes.
const torn = 5 * time.Second

// patience is how long what was read waits for the rest: a lone Escape is a key.
func (a *asking) patience() time.Duration {
	if len(a.keys) > 1 && a.keys[0] == 0x1b {
		return torn
	}
	return unfinished
}

// advance shows, changes and takes away questions as they come and go.
func (l *loop) advance(now time.Time) {
	free := l.front && !l.hung && l.finished == nil && l.suspended == nil
	switch {
	case l.hung:
		l.deny()
		return
	case !free:
		l.leave(now)
	}
	if !free {
		l.announce()
		return
	}
	if l.mode == relaying && len(l.pending) > 0 {
		l.mode, l.since = pausing, now
	}
	switch {
	case l.mode == pausing && len(l.pending) == 0:
		l.resumeOutput()
	case l.mode == pausing:
		l.enter(now)
	}
	if l.mode == shown {
		l.present(now)
	}
}

// announce says in the background, once, that a question waits.
func (l *loop) announce() {
	if len(l.pending) == 0 || l.front || l.hung || l.away || l.finished != nil {
		l.told = len(l.pending) > 0 && l.told
		return
	}
	if l.told || l.screen.state != ground {
		return
	}
	l.told = true
	l.out = append(l.out, "\r\nreeve: a question waits for an answer; bring the job to the foreground (fg)\r\n"...)
}

// enter takes the terminal once the command's output has come to a good place, or
// has had its time.
func (l *loop) enter(now time.Time) {
	if l.screen.state != ground && !l.broken {
		if now.Sub(l.since) < unfinished {
			return
		}
		l.out, l.broken = append(l.out, "\x18\x1b\\"...), true // CAN and ST end any
	}
	if len(l.out) > 0 {
		return
	}
	l.mode, l.asking = shown, asking{first: true}
	if !l.able.dumb {
		l.out = append(l.out, l.screen.take(l.able.inline)...)
	}
}

// leave gives the terminal back to the command.
func (l *loop) leave(now time.Time) {
	switch l.mode {
	case pausing:
		l.resumeOutput()
		return
	case relaying:
		return
	}
	l.asking = asking{}
	if l.able.inline {
		l.out = append(l.out, "\r\n"...)
	}
	if !l.able.dumb {
		l.out = append(l.out, l.screen.giveBack(l.able.inline)...)
	}
	if (l.screen.alternate() || l.able.inline) && !l.able.dumb {
		l.redraw(now)
	}
	l.resumeOutput()
}

// redraw makes the command draw its screen again: a window that is another size
// for a moment. Many programs do nothing when the size is the same.
func (l *loop) redraw(now time.Time) {
	ws := l.outer.size()
	if ws == nil || ws.Row == 0 {
		return
	}
	if ws.Row--; ws.Row == 0 {
		ws.Row = 2
	}
	l.inner.resize(ws)
	l.redrawFrom, l.redrawAt = now, now.Add(resizeHold)
}

// endRedraw gives the window its size again when the command has had the time to
// see the other one: it has written something that it did not write at once, as
// what had to wait, or does not seem to care.
func (l *loop) endRedraw(now time.Time) {
	if l.redrawAt.IsZero() || now.Before(l.redrawAt) || l.away {
		return
	}
	if l.quietFrom.Sub(l.redrawFrom) < reaction && now.Sub(l.redrawFrom) < resizeLongest {
		l.redrawAt = now.Add(resizeHold)
		return
	}
	l.redrawAt = time.Time{}
	l.inner.resize(l.outer.size())
}

func (l *loop) resumeOutput() {
	held := l.held
	l.mode, l.held = relaying, nil
	if l.broken && len(l.screen.part) < longestPart {
		l.out = append(l.out, l.screen.part...) // from its beginning
	} else if l.broken {
		l.drop = true
	}
	l.broken = false
	l.show(held)
}

// defaultSize is that of a terminal which does not know its own.
var defaultSize = unix.Winsize{Row: 24, Col: 80}

// present makes the screen show the oldest question.
func (l *loop) present(now time.Time) {
	a := &l.asking
	if len(l.pending) == 0 {
		l.leave(now)
		return
	}
	if len(a.keys) > 0 && now.Sub(a.keysAt) >= a.patience() {
		a.keys = nil
	}
	q := &l.pending[0]
	if q.ID != a.id {
		l.begin(q, now)
	}
	if !a.sheet.confirm {
		a.sheet.lines = l.printable(l.cfg.Lines(q)) // more tasks may wait for it
	}
	a.sheet.of = a.answered + len(l.pending)
	a.sheet.left = q.Deadline.Sub(now)
	if l.able.inline {
		l.presentInline()
		return
	}
	ws := l.outer.size()
	if ws == nil || ws.Row == 0 || ws.Col == 0 {
		ws = &defaultSize
	}
	text := string(a.sheet.draw(int(ws.Col), int(ws.Row)))
	if len(l.out) > 0 || text == a.drawn {
		return
	}
	if a.drawn == "" {
		l.out = append(l.out, "\x1b[2J"...)
	}
	a.drawn = text
	l.out = append(l.out, text...)
}

// begin starts with a question.
func (l *loop) begin(q *approval.Question, now time.Time) {
	a := &l.asking
	if a.id != "" {
		a.answered++
		a.first = false
	}
	a.id, a.deadline, a.typed, a.drawn = q.ID, q.Deadline, now, ""
	a.sheet = sheet{able: l.able, number: a.answered + 1}
}

// presentInline prints a question once, and again when it changes.
func (l *loop) presentInline() {
	a := &l.asking
	text := a.sheet.status + "\n" + strings.Join(a.sheet.lines, "\n")
	if text == a.drawn {
		return
	}
	a.drawn = text
	if a.sheet.status != "" {
		l.out = append(l.out, "\r\n"+a.sheet.status...)
	}
	l.out = append(l.out, a.sheet.print()...)
}

func (l *loop) printable(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = printable(line, !l.able.unicode)
	}
	return out
}

// question is the one that is shown; nil when it has gone meanwhile.
func (l *loop) question() *approval.Question {
	for i := range l.pending {
		if l.pending[i].ID == l.asking.id {
			return &l.pending[i]
		}
	}
	return nil
}

// answer answers the question that is shown.
func (l *loop) answer(allow bool, scope approval.Scope) {
	a := &l.asking
	err := l.desk.Answer(a.id, approval.Answer{Allow: allow, Scope: scope, By: l.cfg.By})
	l.pending = l.desk.Pending()
	if err != nil && l.question() != nil {
		l.endConfirm()
		a.sheet.status = printable(fmt.Sprintf(" %v", err), !l.able.unicode)
	}
}

// propose shows the rule that always allowing would write.
func (l *loop) propose(now time.Time) {
	a := &l.asking
	p, err := l.desk.Propose(a.id)
	if err != nil {
		a.sheet.status = printable(fmt.Sprintf(" not always: %v", err), !l.able.unicode)
		return
	}
	lines := []string{"always allow: these lines go into " + p.File, ""}
	for line := range strings.SplitSeq(strings.TrimRight(p.Text, "\n"), "\n") {
		lines = append(lines, "  "+strings.ReplaceAll(line, "\t", "    "))
	}
	a.sheet.lines, a.sheet.confirm = l.printable(lines), true
	a.sheet.whole, a.sheet.offset, a.sheet.status = false, 0, ""
	a.typed, a.first = now, false
}

// endConfirm goes back from the rule to the question.
func (l *loop) endConfirm() {
	if l.asking.sheet.confirm {
		s := &l.asking.sheet
		s.confirm, s.whole, s.offset = false, false, 0
	}
}

package terminal

import (
	"time"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// keys takes what came from the outer terminal while a question is shown.
func (l *loop) keys(p []byte, now time.Time) {
	a := &l.asking
	p = append(a.keys, p...)
	a.keys = nil
	var list []key
	keystrokes := 0
	for len(p) > 0 {
		k, n := nextKey(p)
		if n == 0 {
			a.keys, a.keysAt = append([]byte(nil), p...), now
			break
		}
		p = p[n:]
		list = append(list, k)
		if k.kind == typed {
			keystrokes++
		}
	}
	for _, k := range list {
		// Keys that come all at once were typed before, or pasted: no answer.
		l.key(k, now, keystrokes > 1)
		if l.mode != shown {
			return
		}
	}
}

// key takes one key.
func (l *loop) key(k key, now time.Time, burst bool) {
	a := &l.asking
	switch {
	case k.kind == pasteBegin, k.kind == pasteEnd:
		a.paste = k.kind == pasteBegin
	case a.paste, k.kind == noise:
	case k.kind == reply:
		l.in = append(l.in, k.raw...)
	case now.Sub(a.typed) < quiet:
		a.typed = now
		// What was typed to the command as the question came is for the command.
		if a.first || forCommand(k) {
			l.in = append(l.in, k.raw...)
		}
	case burst:
		if forCommand(k) {
			l.in = append(l.in, k.raw...)
		}
	case k.kind != typed:
		l.scroll(k.kind)
	default:
		l.press(k.r, now)
	}
}

func forCommand(k key) bool {
	return k.kind == typed && (k.r == interrupt || k.r == quit || k.r == stop)
}

// press takes a key that counts.
func (l *loop) press(r rune, now time.Time) {
	a := &l.asking
	a.sheet.status = ""
	switch r {
	case interrupt:
		// The signal first: what is denied would go on for a moment, and a script
		// with its next command.
		if !l.inner.interrupt() {
			l.in = append(l.in, interrupt)
		}
		l.answer(false, approval.Once)
		return
	case quit, stop:
		l.in = append(l.in, byte(r))
		return
	case 'v':
		a.sheet.whole, a.sheet.offset = !a.sheet.whole, 0
		return
	}
	if a.sheet.whole && l.scrollBy(r) {
		return
	}
	switch {
	case a.sheet.confirm && r == 'y':
		l.answer(true, approval.Always)
	case a.sheet.confirm:
		l.endConfirm()
	case r == 'y':
		l.answer(true, approval.Once)
	case r == 's':
		l.answer(true, approval.Session)
	case r == 'a':
		l.propose(now)
	case r == 'n':
		l.answer(false, approval.Once)
	case r == 'N':
		l.answer(false, approval.Session)
	}
}

func (l *loop) scrollBy(r rune) bool {
	switch r {
	case ' ':
		l.scroll(pageDown)
	case 'b':
		l.scroll(pageUp)
	case 'j':
		l.scroll(down)
	case 'k':
		l.scroll(up)
	default:
		return false
	}
	return true
}

// scroll moves the view of a question that is shown in whole.
func (l *loop) scroll(kind keyKind) {
	page := 1
	if ws := l.outer.size(); ws != nil {
		page = max(1, int(ws.Row)-4)
	}
	s := &l.asking.sheet
	switch kind {
	case up:
		s.offset--
	case down:
		s.offset++
	case pageUp:
		s.offset -= page
	case pageDown:
		s.offset += page
	}
	s.offset = max(0, s.offset)
}

package terminal

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// What a person types ahead of a command that ends is for the shell that comes
// next. It stood in the terminal's queue; now it stands in the inner one's, and is
// put back from there. The kernel lets root do that, and others where
// dev.tty.legacy_tiocsti is set; elsewhere it is lost.

// typedAhead is what was typed and not read, as a line editor wants it: characters
// and line ends. It is what came from the outer terminal, never what the command
// may have put into its queue itself: unread has to be the end of what was sent.
func typedAhead(sent, unread, unsent []byte) []byte {
	lines := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte{'\r'}, []byte{'\n'}) }
	ahead := lines(unread)
	if !bytes.HasSuffix(lines(sent), ahead) {
		return nil
	}
	ahead = append(ahead, lines(unsent)...)
	var out []byte
	for len(ahead) > 0 {
		k, n := nextKey(ahead)
		if n == 0 {
			break
		}
		if k.kind == typed && (k.r >= ' ' || k.r == '\n' || k.r == '\t' || k.r == '\b') {
			out = append(out, k.raw...)
		}
		ahead = ahead[n:]
	}
	return out
}

// putBack puts p into the queue of what was typed.
func (o *outer) putBack(p []byte) {
	for _, c := range p {
		if unix.IoctlSetPointerInt(o.fd, unix.TIOCSTI, int(c)) != nil {
			return
		}
	}
}

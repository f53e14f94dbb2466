package main

import (
	"encoding/json"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
)

// objectText says what an operation was about: escaped, one line.
func objectText(e *event.Event) string {
	switch e.Op {
	case event.OpExec, event.OpAsk, event.OpAnswer:
		if len(e.Task.Argv) > 0 && (e.Op == event.OpExec || e.Access == event.AccessExec) {
			return oneObject(&e.Object) + contentText(e.ReadDetail().Content) + " [" + commandLine(e.Task.Argv) + "]"
		}
	case event.OpExit:
		return exitText(e)
	case event.OpFork:
		return "by task " + escape(e.Object.Path)
	case event.OpLoss:
		return fmt.Sprintf("%d records lost", e.Count)
	case event.OpStart:
		return startText(e)
	case event.OpEnd:
		return exitText(e)
	case event.OpResize:
		return windowText(e)
	case event.OpDegraded:
		return escape(e.Detail)
	}
	text := oneObject(&e.Object)
	switch {
	case e.Op == event.OpRename && e.Flags&unix.RENAME_EXCHANGE != 0:
		text += " exchanged with " + oneObject(&e.Target)
	case e.Target != (event.Object{}):
		text += " -> " + oneObject(&e.Target)
	case e.Op == event.OpChmod:
		text += fmt.Sprintf(" -> mode %04o", e.Mode&0o7777)
	case e.Op == event.OpMknod:
		text += " -> " + nodeText(e.Mode)
	}
	return text
}

// contentText says what a program without a name held.
func contentText(c *event.Content) string {
	switch {
	case c == nil:
		return ""
	case c.SHA256 == "":
		return fmt.Sprintf(" (%d bytes, unreadable)", c.Size)
	case c.Hashed != 0:
		return fmt.Sprintf(" (%d bytes, the first %d sha256:%s)", c.Size, c.Hashed, escape(c.SHA256))
	}
	return fmt.Sprintf(" (%d bytes, sha256:%s)", c.Size, escape(c.SHA256))
}

// nodeText is the kind of file that mknod makes.
func nodeText(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "pipe"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFBLK, unix.S_IFCHR:
		return "device"
	}
	return "file"
}

// startText is the command of a session and its profile, from its manifest.
func startText(e *event.Event) string {
	var m session.Manifest
	if err := json.Unmarshal([]byte(e.Detail), &m); err != nil {
		return ""
	}
	return manifestCommand(&m) + "  profile " + escape(m.Profile)
}

func manifestCommand(m *session.Manifest) string {
	argv := make([]string, len(m.Argv))
	for i, a := range m.Argv {
		argv[i] = string(a)
	}
	return commandLine(argv)
}

func oneObject(o *event.Object) string {
	if o.Kind == event.ObjectAddr && o.Addr != "" {
		text := net.JoinHostPort(escape(o.Addr), strconv.Itoa(int(o.Port)))
		if o.Proto != "" {
			text += "/" + escape(o.Proto)
		}
		return text
	}
	text := o.Path
	if text == "" {
		text = o.Raw
	}
	switch {
	case text == "" && o.Kind != event.ObjectNone:
		return "(" + o.Kind.String() + ")"
	case text == "":
		return ""
	case o.Kind == event.ObjectAbstract:
		return quote("@" + text)
	}
	text = quote(text)
	if o.PathLen != 0 {
		text += fmt.Sprintf("… (%d bytes)", o.PathLen)
	}
	return text
}

func exitText(e *event.Event) string {
	if e.ExitSignal != 0 {
		return "killed by " + signalName(e.ExitSignal)
	}
	return fmt.Sprintf("status %d", e.ExitCode)
}

func signalName(n int32) string {
	return fmt.Sprintf("signal %d (%s)", n, syscall.Signal(n))
}

// taskText names a task: its program and pid.
func taskText(t *event.Task) string {
	if t.PID == 0 {
		return ""
	}
	name := path.Base(t.Exe)
	if t.Exe == "" {
		name = "?"
		if len(t.Argv) > 0 {
			name = path.Base(t.Argv[0])
		}
	}
	return fmt.Sprintf("%s[%d]", escape(name), t.PID)
}

// opText names an operation with what it wants to do, where that is not obvious.
func opText(e *event.Event) string {
	op := e.Op.String()
	if op == "" {
		op = fmt.Sprintf("#%d", e.Op)
	}
	if e.Op == event.OpOpen && e.Access != 0 {
		return op + " " + e.Access.String()
	}
	return op
}

// whyText says which rule decided, for decisions that somebody may ask about.
func whyText(e *event.Event) string {
	var parts []string
	if e.Action == event.ActionDeny || e.Action == event.ActionAsk {
		if e.Reason != "" {
			parts = append(parts, escape(e.Reason))
		}
		if e.Rule != "" {
			parts = append(parts, "rule "+quote(e.Rule))
		}
		if isAlias(e) {
			parts = append(parts, "asked for as "+quote(e.Object.Raw))
		}
	} else if e.Reason != "" && (e.Kind == event.KindLost || isTalk(e)) {
		parts = append(parts, escape(e.Reason))
	}
	if who, asked := strings.CutPrefix(e.By, "approver:"); asked {
		parts = append(parts, "by "+escape(who))
	}
	if e.Errno != 0 {
		parts = append(parts, event.ErrnoName(e.Errno))
	}
	return strings.Join(parts, ", ")
}

// isAlias says that the task asked for the object by another name than its own:
// through a symlink, say.
func isAlias(e *event.Event) bool {
	raw := e.Object.Raw
	if raw == "" || e.Object.Path == "" {
		return false
	}
	if !path.IsAbs(raw) {
		raw = path.Join(e.Task.Cwd, raw)
	}
	return path.Clean(raw) != e.Object.Path
}

// actionColours shows at a glance what was decided.
var actionColours = map[event.Action]string{
	event.ActionAllow: green, event.ActionAsk: yellow, event.ActionDeny: red,
}

// isTalk says that a record is a question or an answer.
func isTalk(e *event.Event) bool { return e.Op == event.OpAsk || e.Op == event.OpAnswer }

// actionWord is the third column: the decision, or what kind of record it is.
func actionWord(e *event.Event) string {
	if e.Kind == event.KindFact && e.Action != event.ActionDeny && !isTalk(e) {
		return "seen" // by the witness; nobody was asked
	}
	if e.Action != event.ActionNone {
		return e.Action.String()
	}
	if e.Kind == event.KindLost {
		return "LOST"
	}
	return "-"
}

// eventLine is a record as one line of columns.
func eventLine(e *event.Event, colours ink) string {
	colour := actionColours[e.Action]
	switch {
	case e.Kind == event.KindLost:
		colour = red
	case e.Kind == event.KindFact && e.Action != event.ActionDeny && !isTalk(e):
		colour = faint
	}
	var b strings.Builder
	b.WriteString(colours.paint(faint, pad(strconv.FormatUint(e.Seq, 10), 6)+" "+e.Time.Local().Format("15:04:05.000")))
	b.WriteString("  " + colours.paint(colour, pad(actionWord(e), 5)))
	b.WriteString("  " + colours.paint(cyan, pad(taskText(&e.Task), 18)))
	b.WriteString("  " + pad(opText(e), 12))
	b.WriteString("  " + objectText(e))
	if why := whyText(e); why != "" {
		b.WriteString("  " + colours.paint(faint, "("+why+")"))
	}
	return strings.TrimRight(b.String(), " ")
}

package main

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/storage/replay"
	"github.com/reeve-audit/reeve/tracer/event"
)

// systemDirs hold what every program reads to start: of no interest, unless it is
// refused or changed.
var systemDirs = []string{"/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/etc/", "/proc/", "/sys/", "/dev/", "/nix/store/"}

func isSystem(path string) bool {
	for _, dir := range systemDirs {
		if strings.HasPrefix(path, dir) || path+"/" == dir {
			return true
		}
	}
	return false
}

// timeline writes a session's records in order.
type timeline struct {
	w       *bufio.Writer
	colours ink
	all     bool
	pace    *pacer
	// quiet is the run of system reads that is not written yet.
	quiet struct {
		process     *replay.Process
		task        string
		at          time.Duration
		first, last string
		n           int
	}
}

func replayTimeline(c *cli.Context, w *bufio.Writer, r *recording) error {
	t := &timeline{w: w, colours: inkFor(c.App.Writer), all: c.Bool("all"), pace: newPacer(c, w)}
	r.headline(w, t.colours)
	for step, err := range replay.Timeline(r.events(c), replay.NewTree()) {
		if err != nil {
			return err
		}
		if err := t.pace.wait(step.Wait); err != nil {
			return err
		}
		t.show(&step)
	}
	t.endQuiet()
	r.footline(w, t.colours)
	return nil
}

func (t *timeline) show(s *replay.Step) {
	e := &s.Event
	switch {
	case !t.all && isEcho(e):
		return
	case !t.all && isQuiet(e):
		t.addQuiet(s)
		return
	}
	t.endQuiet()
	colour := ""
	switch {
	case e.Action == event.ActionDeny, e.Kind == event.KindLost:
		colour = red
	case e.Action == event.ActionAsk:
		colour = yellow
	case e.Errno != 0:
		colour = faint
	}
	verb, object := didText(e), objectText(e)
	switch {
	case e.Action == event.ActionDeny:
		verb, object = "DENIED", strings.TrimPrefix(opText(e), "open ")+" "+object
	case e.Errno != 0:
		verb = "failed to " + strings.TrimPrefix(opText(e), "open ")
	case e.Op == event.OpStart:
		object = "" // the headline says it
	}
	t.line(s.At, s.Process, taskText(&e.Task), colour, verb, object, whyText(e))
}

func (t *timeline) line(at time.Duration, p *replay.Process, task, colour, verb, object, why string) {
	text := t.colours.paint(faint, fmt.Sprintf("%+10.3fs", at.Seconds())) + "  " +
		t.colours.paint(cyan, pad(strings.Repeat("  ", min(depthOf(p), 12))+task, 26)) + " " +
		t.colours.paint(colour, pad(verb, 14)) + " " + object
	if why != "" {
		text += "  " + t.colours.paint(faint, "("+why+")")
	}
	fmt.Fprintln(t.w, strings.TrimRight(text, " "))
}

// isEcho says that a record tells nothing new: the kernel's report of an exec that
// was decided, or an exec of what is not there, by which a shell goes through
// its PATH.
func isEcho(e *event.Event) bool {
	if e.Op != event.OpExec || e.Action == event.ActionDeny {
		return false
	}
	return e.Kind == event.KindFact || e.Errno == int32(unix.ENOENT)
}

// isQuiet says that a record is a granted read of one of the system's files, or
// a search for one that is not there.
func isQuiet(e *event.Event) bool {
	path := e.Object.Path
	if path == "" {
		path = e.Object.Raw
	}
	return e.Op == event.OpOpen && e.Action == event.ActionAllow &&
		e.Access&^(event.AccessRead|event.AccessPath) == 0 && isSystem(path)
}

func (t *timeline) addQuiet(s *replay.Step) {
	q := &t.quiet
	if q.n > 0 && q.process != s.Process {
		t.endQuiet()
	}
	if q.n == 0 {
		q.process, q.task, q.at, q.first = s.Process, taskText(&s.Event.Task), s.At, oneObject(&s.Event.Object)
	}
	q.last = oneObject(&s.Event.Object)
	q.n++
}

func (t *timeline) endQuiet() {
	q := &t.quiet
	if q.n == 0 {
		return
	}
	object := q.first
	if q.n > 1 {
		object = fmt.Sprintf("%d system files, %s … %s", q.n, q.first, q.last)
	}
	t.line(q.at, q.process, q.task, "", "read", object, "")
	q.n = 0
}

// depthOf is how far below the session's first task a task stands.
func depthOf(p *replay.Process) int {
	n := 0
	for ; p != nil && p.Parent != nil && n < 64; p = p.Parent {
		n++
	}
	return n
}

// did are the verbs of the timeline.
var did = map[event.Op]string{
	event.OpExec: "ran", event.OpFork: "started", event.OpExit: "ended", event.OpCreate: "made", event.OpDelete: "deleted",
	event.OpRename: "renamed", event.OpLink: "linked", event.OpSymlink: "symlinked", event.OpMkdir: "made dir",
	event.OpRmdir: "deleted dir", event.OpMknod: "made", event.OpTruncate: "truncated", event.OpChmod: "changed mode",
	event.OpChown: "changed owner", event.OpSetxattr: "changed attr", event.OpUtime: "changed times",
	event.OpConnect: "connected", event.OpBind: "bound", event.OpListen: "listens", event.OpSend: "sent to",
	event.OpStart: "session start", event.OpEnd: "session end", event.OpLoss: "LOST", event.OpDegraded: "DEGRADED", event.OpResize: "terminal is",
}

// didText says what happened, in the past tense.
func didText(e *event.Event) string {
	if e.Op == event.OpOpen {
		switch {
		case e.Access&event.AccessCreate != 0:
			return "wrote (new)"
		case e.Access&event.AccessChange != 0:
			return "wrote"
		case e.Access == event.AccessPath:
			return "looked at"
		}
		return "read"
	}
	if verb := did[e.Op]; verb != "" {
		return verb
	}
	return opText(e)
}

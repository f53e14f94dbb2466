package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/tracer/event"
)

// questionEvent is a question in the form in which operations are shown.
func questionEvent(q *approval.Question) *event.Event {
	e := asEvent(&q.Request)
	e.Task = q.Request.Task
	if e.Op == event.OpExec {
		e.Task.Argv = q.Request.Argv
	}
	return e
}

// questionLines say all that somebody needs to answer a question, one line each:
// escaped, without colour, and of any length.
func questionLines(q *approval.Question) []string {
	e := questionEvent(q)
	lines := []string{opText(e) + " " + objectText(e)}
	add := func(name, text string) {
		if text != "" {
			lines = append(lines, fmt.Sprintf("  %-9s %s", name, text))
		}
	}
	why := sanitize(q.Reason)
	if q.Risk != "" {
		why = escape(q.Risk) + ": " + why
	}
	if q.Rule != "" {
		why += "  (rule " + quote(q.Rule) + " of " + escape(q.Profile) + ")"
	}
	add("why", why)
	if e.Object.Raw != "" && e.Object.Raw != e.Object.Path {
		add("asked as", quote(e.Object.Raw))
	}
	add("in", quote(q.Request.Task.Cwd))
	for i := range q.Ancestry {
		name := ""
		if i == 0 {
			name = "by"
		}
		t := &q.Ancestry[i]
		lines = append(lines, fmt.Sprintf("  %-9s %*s%d %s", name, 2*i, "", t.PID, taskCommand(t)))
	}
	for _, line := range alsoLines(q.Also) {
		add("also", line)
	}
	if q.Waiting > 1 {
		add("waiting", fmt.Sprintf("%d tasks for the same", q.Waiting))
	}
	return lines
}

// stepWords are the steps after an operation that have no object but its own.
var stepWords = map[event.Op]string{
	event.OpChmod: "mode", event.OpChown: "owner", event.OpSetxattr: "access list, user attributes", event.OpUtime: "times", event.OpTruncate: "length",
	event.OpDelete: "removal", event.OpRmdir: "removal",
}

// alsoLines say what an answer is for besides the operation.
func alsoLines(steps []event.Request) (lines []string) {
	var own []string
	for i := range steps {
		s := &steps[i]
		switch s.Op {
		case event.OpRename:
			lines = append(lines, "its rename to "+quote(s.Target.Path))
		case event.OpExec:
			lines = append(lines, "what runs it: "+quote(s.Object.Path)+" ["+commandLine(s.Argv)+"]")
		default:
			own = append(own, stepWords[s.Op])
		}
	}
	if len(own) > 0 {
		lines = append(lines, "its "+strings.Join(own, ", ")+": by this task, within a minute")
	}
	return lines
}

// taskCommand is a task's command line, or its program where that is not known.
func taskCommand(t *event.Task) string {
	if len(t.Argv) > 0 {
		return commandLine(t.Argv)
	}
	return quote(t.Exe)
}

// left is how long a question still waits, in whole seconds.
func left(q *approval.Question, now time.Time) time.Duration {
	return max(0, q.Deadline.Sub(now).Round(time.Second))
}

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit statuses. Those of `run` are the command's own but for 125–127, those of
// `policy explain` say what was decided.
const (
	statusOK     = 0
	statusFailed = 1
	statusUsage  = 2
	// statusReeve: reeve itself failed before the command ran.
	statusReeve = 125
)

// statusError is an error that knows the exit status it stands for. Without an
// Err nothing is printed: the verb has already said what there is to say.
type statusError struct {
	Status int
	Err    error
}

func (e *statusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

func (e *statusError) Unwrap() error { return e.Err }

// exitStatus ends a verb with a status and no message.
func exitStatus(status int) error { return &statusError{Status: status} }

// failWith ends a verb with a status and a message.
func failWith(status int, err error) error { return &statusError{Status: status, Err: err} }

func usageErrorf(format string, args ...any) error {
	return failWith(statusUsage, fmt.Errorf(format, args...))
}

// hinted is an error a person can act on.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// Hint is what the person can do.
func (e *hinted) Hint() string { return e.hint }

func withHint(err error, hint string) error { return &hinted{err, hint} }

// hinter is what errors with a hint have in common, here and in the packages
// that reeve is made of.
type hinter interface{ Hint() string }

// usageHandler is what happens to a command line that cannot be parsed.
func usageHandler(status int) cli.OnUsageErrorFunc {
	return func(c *cli.Context, err error, _ bool) error {
		return failWith(status, withHint(err, fmt.Sprintf("`%s --help` lists the options", c.Command.HelpName)))
	}
}

// report prints an error as one line and a hint, and returns the exit status.
func report(w io.Writer, err error) int {
	if err == nil {
		return statusOK
	}
	status := statusFailed
	var known *statusError
	if errors.As(err, &known) {
		status = known.Status
		if known.Err == nil {
			return status
		}
	}
	say(w, err)
	return status
}

// say prints an error: one line, and what can be done about it.
func say(w io.Writer, err error) {
	// A joined error is several lines; a person, and a log, wants one.
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
	fmt.Fprintf(w, "reeve: %s\n", sanitize(text))
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", sanitize(hint))
	}
}

// hintOf is the hint nearest to the surface of an error.
func hintOf(err error) string {
	var h hinter
	if errors.As(err, &h) {
		return h.Hint()
	}
	if errors.Is(err, os.ErrPermission) {
		return "check the owner and mode of the file, or run as the user it belongs to"
	}
	return ""
}

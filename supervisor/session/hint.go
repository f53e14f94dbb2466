package session

import (
	"errors"

	"golang.org/x/sys/unix"
)

// HintError is an error that a person can act on.
type HintError struct {
	Err  error
	hint string
}

// Error is the error without its hint.
func (e *HintError) Error() string { return e.Err.Error() }

// Unwrap is the error itself.
func (e *HintError) Unwrap() error { return e.Err }

// Hint is what the person can do, one clause without a full stop.
func (e *HintError) Hint() string { return e.hint }

func withHint(err error, hint string) error { return &HintError{Err: err, hint: hint} }

// fullDisk adds the hint for a full disk, where that is the reason.
func fullDisk(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return withHint(err, "free some space there, remove old sessions with `reeve sessions rm`, or name another --state DIR")
	}
	return err
}

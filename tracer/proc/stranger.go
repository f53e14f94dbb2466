package proc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Stranger is the error of a path that passes a magic link of /proc (root, cwd,
// exe, fd/N, map_files/…, ns/…) of a process outside the session. Such a link is
// not followed for a task: we could where the task could not.
type Stranger struct {
	PID int // 0 for one of another procfs, whose numbers are not ours
	// Raw is the path as the task passed it, where the look-up knew it, Path the same
	// as we see it: the link by its process's number, and what remained to be walked.
	Raw, Path string
	// nofollow says that the last component is an entry, whatever it is.
	nofollow bool
}

// Way is the path as the task passed it, where the look-up knew it, and as we see it.
func (e *Stranger) Way() (raw, path string) { return e.Raw, e.Path }

// Error says whose link it is.
func (e *Stranger) Error() string {
	who := "of a process"
	if e.PID != 0 {
		who = "of process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("a magic link %s outside the session: %s", who, e.Path)
}

// Unwrap is the errno that the task gets.
func (e *Stranger) Unwrap() error { return unix.EACCES }

// Object is what the path leads to, as far as the calling thread can find out: it
// is for the record, and nothing is done with it. Raw is not set. It may wait for a
// file system.
func (e *Stranger) Object() event.Object {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if e.nofollow {
		flags |= unix.O_NOFOLLOW
	}
	if fd, err := unix.Open(e.Path, flags, 0); err == nil {
		if o, ok := e.object(fd, ""); ok {
			return o
		}
	}
	if dir, last, err := splitLast(e.Path); err == nil {
		if fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			if o, ok := e.object(fd, last); ok {
				return o
			}
		}
	}
	return event.Object{Kind: event.ObjectMissing, Path: e.Path}
}

// object names what fd holds, or the name last in it, and closes fd. Below our own
// entry of /proc stands what is ours, and not what the task would see.
func (e *Stranger) object(fd int, last string) (o event.Object, ok bool) {
	p, err := Pin(fd)
	if err != nil {
		return o, false
	}
	defer p.Close()
	if p.ourProc() {
		return o, false
	}
	if last == "" {
		return named(p.Object("")), true
	}
	n := Name{Parent: p, Last: last}
	return named(n.Object("")), true
}

// named is o without its raw name, which the caller knows.
func named(o event.Object) event.Object {
	o.Raw = ""
	return o
}

// passed notes by which path of the task's the look-up was that ended elsewhere.
func passed(err error, raw string) error {
	var e *Stranger
	var f *ForeignRoot
	switch {
	case errors.As(err, &e):
		e.Raw = raw
	case errors.As(err, &f):
		f.raw = raw
	}
	return err
}

// entryOf is the error of an entry whose directory could not be resolved.
func entryOf(err error, last string) error {
	var e *Stranger
	var f *ForeignRoot
	switch {
	case errors.As(err, &e):
		e.nofollow = true
		e.Path = strings.TrimSuffix(e.Path, "/") + "/" + strings.TrimRight(last, "/")
	case errors.As(err, &f):
		f.last = last
	}
	return err
}

// linkOwner is the process that a link in the directory dir of a procfs is about.
// ok is false where it is about none: links by name, of sound cards for example.
func linkOwner(dir string) (pid int, ok bool) {
	if pid, ok := PathPID(dir); ok || strings.HasPrefix(dir, "/proc/") {
		return pid, ok
	}
	for part := range strings.SplitSeq(dir, "/") { // mounted elsewhere
		if n, err := strconv.Atoi(part); err == nil && n > 0 {
			return 0, true
		}
	}
	return 0, false
}

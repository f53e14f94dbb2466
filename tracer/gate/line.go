package gate

import (
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// inlineArgv is how many bytes of arguments are read where nothing may wait.
const inlineArgv = 64 << 10

// argv reads the whole argument vector: what an exec means may stand at its end.
func (w *worker) argv(addr uint64) ([]string, error) {
	limit := proc.MaxArgv
	if w.inline {
		limit = inlineArgv
	}
	argv, err := w.th.Argv(addr, limit)
	switch {
	case errors.Is(err, proc.ErrTooLong) && w.inline:
		return nil, proc.ErrBlocks
	case errors.Is(err, proc.ErrTooLong), errors.Is(err, unix.E2BIG):
		return nil, unix.E2BIG
	case err != nil:
		return nil, unix.EFAULT
	}
	return argv, nil
}

// alike names the known programs that a file is the same as.
func (w *worker) alike(p *proc.Pinned) ([]string, error) {
	if w.m.Programs == nil || !p.Regular() {
		return nil, nil
	}
	return w.m.Programs.Alike(p.Path, &p.Stat, func() (*os.File, error) {
		if w.inline {
			return nil, proc.ErrBlocks // reading a program takes its time
		}
		fd, err := w.readable(p)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), p.Path), nil
	})
}

// keepArgv puts into the request what is recorded of its argument vector.
func keepArgv(req *event.Request) {
	argv, cut := proc.CutArgv(req.Argv)
	req.Task.Argv, req.Task.ArgvLen = argv, uint32(cut)
}

// loaded judges the program that a dynamic loader is told to run, as if it were
// run by itself. so is what was decided about the loader. Where the program is
// refused it is what the request is about.
func (w *worker) loaded(req *event.Request, so event.Decision) (event.Decision, error) {
	if w.m.Programs == nil {
		return so, nil
	}
	i := w.m.Programs.Loads(req.Object.Path, req.Argv)
	if i <= 0 || i >= len(req.Argv) {
		return so, nil
	}
	name := req.Argv[i]
	if !strings.Contains(name, "/") && !w.g.records {
		return event.Decision{Action: event.ActionDeny, By: "gate", Errno: int32(unix.EACCES),
			Reason: "a loader searches for a program without a directory, so it cannot be judged"}, nil
	}
	p, err := w.view.Resolve(unix.AT_FDCWD, name, 0, 0)
	if unfinished(err) || isElsewhere(err) {
		return so, err
	}
	if err != nil {
		return so, nil // the loader will not find it either
	}
	defer p.Close()
	sub, d, err := w.led(req, req, &p, event.Interp{Arg: i}, so)
	if err == nil && d.Action != event.ActionAllow {
		*req = sub
		req.Interps = nil
		keepArgv(req)
		w.content, err = w.contentOf(&p)
	}
	return d, err
}

// led judges a program that req leads to by way of from, which may be req itself,
// found as p. One that somebody answered for is what the whole is decided by.
func (w *worker) led(req, from *event.Request, p *proc.Pinned, i event.Interp, so event.Decision) (event.Request, event.Decision, error) {
	alike, err := w.alike(p)
	if err != nil {
		return *from, so, err
	}
	i.Found(p.Object(""), alike)
	sub := i.Request(from)
	sub.Object = p.Object(sub.Object.Raw)
	req.Interps = append(req.Interps, i)
	d := w.decide(&sub)
	if d.Action == event.ActionAllow {
		w.yes(&d, p.FD)
		w.spend(&sub)
		if !d.Answered() {
			d = so
		}
	}
	return sub, d, nil
}

// scriptWords are the words of an interpreter that was handed argv for a script
// that was to be told from. The kernel calls the script as it was called itself.
func scriptWords(words, argv, from []string, called string) []string {
	head := argv[:len(argv)-max(len(from)-1, 0)]
	out := append(slices.Clone(head[:len(head)-1]), called)
	if len(words) > 1 {
		out = append(out, words[1:]...)
	}
	return out
}

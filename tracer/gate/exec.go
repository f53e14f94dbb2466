package gate

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// An exec cannot be performed for another task, so it continues, and the kernel
// reads its path again. What holds then: Landlock grants EXECUTE on nothing that
// the policy denies, and what really ran is compared with what was judged, by the
// witness before its first instruction, or here at the process's next call.

// execs are the execs that were let go on and not seen to have happened yet.
type execs struct {
	mu sync.Mutex          // guards m
	m  map[string]execWait // by the process, whose number alone may be another's soon
}

type execWait struct {
	pid    int
	before FileID // what the process ran when it was judged
	files  []Program
}

// maxScripts is how deep an interpreter may itself be a script: the kernel
// allows two more (exec_binprm), the witness expects no more files than this.
const maxScripts = 3

func (w *worker) execve(req event.Request) (outcome, error) {
	return w.exec(req, unix.AT_FDCWD, w.n.Args[0], w.n.Args[1], w.n.Args[2], 0)
}

func (w *worker) execveat(req event.Request) (outcome, error) {
	return w.exec(req, int32(w.n.Args[0]), w.n.Args[1], w.n.Args[2], w.n.Args[3], int(uint32(w.n.Args[4])))
}

// atExecveCheck only asks whether an exec would be allowed (Linux 6.14).
const atExecveCheck = 0x10000

func (w *worker) exec(req event.Request, dirfd int32, pathPtr, argvPtr, envPtr uint64, flags int) (outcome, error) {
	path, err := w.th.Path(pathPtr, w.buf[:])
	req.Object.Raw, req.Flags = path, uint64(flags)
	out := outcome{req: req}
	if err != nil {
		return out, err
	}
	p, err := w.object(dirfd, path, flags&unix.AT_EMPTY_PATH != 0, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	if err != nil {
		return out, err
	}
	defer p.Close()
	if out.req.Argv, err = w.argv(argvPtr); err != nil {
		return out, err
	}
	out.req.Object, out.req.Task = p.Object(path), w.th.Task(true)
	if w.m.Programs != nil && w.m.Programs.Internal(out.req.Task.Exe) {
		out.req.Caller, out.req.CallerLen = out.req.Task.Argv, out.req.Task.ArgvLen
	}
	caller := out.req.Task.Argv
	out.req.Task.Argv, out.req.Task.ArgvLen = nil, 0
	out.req.Task.Cwd = w.th.Cwd()
	if out.req.Alike, err = w.alike(&p); err != nil {
		return out, err
	}
	if w.content, err = w.contentOf(&p); err != nil {
		return out, err
	}
	out.d = w.decide(&out.req)
	w.yes(&out.d, p.FD)
	err = w.leadsOf(&out, &p, envPtr)
	keepArgv(&out.req)
	if err != nil || out.d.Action != event.ActionAllow {
		return out, err
	}
	if out.d, err = w.loaded(&out.req, out.d); err != nil || out.d.Action != event.ActionAllow {
		return out, err
	}
	files, words, d, err := w.programs(&out.req, &p, kernelName(dirfd, path), out.d)
	if out.d = d; err != nil || d.Action != event.ActionAllow {
		return out, err
	}
	if flags&atExecveCheck != 0 {
		return out, nil
	}
	if words != nil && len(words) == 0 {
		words = []string{""} // the kernel gives a program at least that
	}
	if words != nil && !w.wordsDecide(&out.req) {
		words = nil
	}
	return w.letRun(out, files, caller, words)
}

// wordsDecide says whether the words of an exec may decide about it, or about a
// program that it leads to.
func (w *worker) wordsDecide(req *event.Request) bool {
	v := w.m.Programs
	if v == nil {
		return false
	}
	if v.Words(req) {
		return true
	}
	from := *req
	for i := range req.Interps {
		sub := req.Interps[i].Request(&from)
		if v.Words(&sub) {
			return true
		}
		from = sub
	}
	return false
}

// kernelName is how the kernel calls a program that is named by a path at a
// descriptor, which is what it tells the interpreter of a script (alloc_bprm).
func kernelName(dirfd int32, path string) string {
	name := "/dev/fd/" + strconv.Itoa(int(dirfd))
	switch {
	case dirfd == unix.AT_FDCWD, strings.HasPrefix(path, "/"):
		return path
	case path == "":
		return name
	}
	return name + "/" + path
}

// letRun tells whoever verifies what may run and what it may be told, which is nil
// for anything, and then lets the exec go on.
func (w *worker) letRun(out outcome, files []Program, caller, words []string) (outcome, error) {
	told := false
	if v := w.g.cfg.Verifier; v != nil {
		var err error
		if told, err = v.Expect(w.th.TID, files, words); err != nil {
			return out, fmt.Errorf("tell the witness what may run: %w", err)
		}
		if h := w.m.Holder; h != nil {
			if err := h.Announce(w.th.TID, files); err != nil {
				return out, fmt.Errorf("tell the hooks what may run: %w", err)
			}
		}
	} else {
		w.g.execs.wait(w.th.ID, execWait{pid: w.th.TGID, before: FileID(w.th.ExeID()), files: files})
	}
	w.expectWords(files, caller, words, told)
	w.changing()
	return out, nil
}

// programs are the files that the exec may end in: the program, and if it is a
// script its interpreter, which is judged too. called is the kernel's name for it, d is what was decided so far; words are
// what it will be told, nil when the kernel may tell it something else.
func (w *worker) programs(req *event.Request, p *proc.Pinned, called string, d event.Decision) (files []Program, words []string, _ event.Decision, err error) {
	self, err := w.identify(p)
	if err != nil {
		return nil, nil, d, err
	}
	files = []Program{{self, p.Path}}
	words = append([]string{}, req.Argv...)
	cur, sub := *p, *req
	for depth := 0; ; depth++ {
		line, native, err := w.firstLine(&cur)
		if cur.FD != p.FD {
			cur.Close()
		}
		if err != nil {
			return nil, nil, d, err
		}
		interp := event.Interp{Line: line}
		if line == "" {
			if !native {
				files = append(files, w.g.interps...) // binfmt_misc may know it
				words = nil
			}
			return files, words, d, nil
		}
		if depth == maxScripts {
			if cur.FD != p.FD {
				cur.Close()
			}
			return nil, nil, d, fmt.Errorf("a script whose interpreters are scripts more than %d deep", maxScripts)
		}
		next, err := w.view.Resolve(unix.AT_FDCWD, interp.Name(), 0, 0)
		if unfinished(err) || isElsewhere(err) {
			return nil, nil, d, err
		}
		if err != nil {
			return files, words, d, nil //nolint:nilerr // the kernel will not find it either
		}
		from := sub.Argv
		if sub, d, err = w.led(req, &sub, &next, interp, d); err != nil || d.Action != event.ActionAllow {
			next.Close()
			return nil, nil, d, err
		}
		words, called = scriptWords(words, sub.Argv, from, called), interp.Name()
		id, err := w.identify(&next)
		if err != nil {
			next.Close()
			return nil, nil, d, err
		}
		files = append(files, Program{id, next.Path})
		cur = next
	}
}

// identify names a file as whoever verifies the exec sees it.
func (w *worker) identify(p *proc.Pinned) (FileID, error) {
	if v := w.g.cfg.Verifier; v != nil {
		return v.Identify(p.FD)
	}
	return FileID{p.Stat.Dev, p.Stat.Ino}, nil
}

func (e *execs) wait(process string, x execWait) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.m == nil {
		e.m = map[string]execWait{}
	}
	if len(e.m) >= maxLines {
		maps.DeleteFunc(e.m, func(_ string, x execWait) bool { return ended(x.pid) })
	}
	e.m[process] = x
}

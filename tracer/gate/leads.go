package gate

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// maxLeads bounds how many programs are looked for behind a script.
const maxLeads = 8

// maxPlaces is in how many directories of a PATH a program is looked for.
const maxPlaces = 64

// leads are the programs that an exec of p becomes: the interpreter of a script,
// what env finds for it, the interpreter of that, and the shell that runs a file
// which the kernel cannot. Each has the object and the arguments that it will be
// run with. An error of the kernel's says that the exec can only fail so.
func (w *worker) leads(req *event.Request, p *proc.Pinned, envp uint64) (out []event.Request, err error) {
	if !w.runnable(p) {
		return nil, unix.EACCES
	}
	cur, by := *p, *req
	defer func() {
		if cur.FD != p.FD {
			cur.Close()
		}
	}()
	step := func(next proc.Pinned, r event.Request) {
		if cur.FD != p.FD {
			cur.Close()
		}
		r.Object = next.Object("")
		cur, by = next, r
		out = append(out, event.Request{Op: event.OpExec, Access: event.AccessExec, Object: r.Object, Argv: r.Argv, Task: event.Task{Cwd: req.Task.Cwd}})
	}
	for len(out) < maxLeads {
		line, native, err := w.firstLine(&cur)
		if err != nil || native || line == "" && !w.may(&cur, unix.R_OK) {
			return out, err
		}
		i := event.Interp{Line: line}
		if line == "" {
			i.Line = "/bin/sh" // execvp(3), and shells
		}
		next, err := w.view.Resolve(unix.AT_FDCWD, i.Name(), 0, 0)
		if err == unix.ENOENT && len(out) == 0 && line != "" || unfinished(err) {
			return nil, err
		}
		if err != nil {
			return out, nil // it leads no further
		}
		r := i.Request(&by)
		step(next, r)
		if words := envWords(&r); words != nil {
			found, ok, err := w.found(words[0], envp)
			if err != nil || !ok {
				return out, err
			}
			r.Argv, r.Object.Raw = words, path.Base(words[0])
			step(found, r)
		}
	}
	return out, nil
}

// leadsOf puts what an exec of p leads to before whoever is asked about it, and
// into the answer. What can only fail is no question.
func (w *worker) leadsOf(out *outcome, p *proc.Pinned, envp uint64) error {
	if w.asked == nil && (out.d.Action != event.ActionAllow || w.grantOf(&out.req) == nil) {
		return nil
	}
	steps, err := w.leads(&out.req, p, envp)
	if err != nil {
		return err
	}
	if g := w.grantOf(&out.req); g != nil && w.asked == nil && !sees(g.seen, steps, g.known) {
		// The yes was to other programs: what a script begins with was changed.
		g.stale, w.changed = true, true
		out.d = w.decide(&out.req)
	}
	w.follows(&out.req, steps)
	return nil
}

// sees says whether an approver was shown all steps.
func sees(seen, steps []event.Request, session bool) bool {
	return len(shown(steps, seen, session)) == len(steps)
}

// spend takes from what answers are for what this very exec does by itself, and all
// before it: the kernel runs a script's interpreter.
func (w *worker) spend(r *event.Request) {
	rest := func(also []event.Request) []event.Request {
		i := slices.IndexFunc(also, func(step event.Request) bool { return isStep(&step, r) })
		return also[i+1:]
	}
	for i := range w.grants {
		w.grants[i].also = rest(w.grants[i].also)
	}
	w.left = rest(w.left)
}

// runnable says whether the task may execute a file, as the kernel sees it.
func (w *worker) runnable(p *proc.Pinned) bool {
	return p.Regular() && w.may(p, unix.X_OK)
}

func (w *worker) may(p *proc.Pinned, mode uint32) bool {
	dir, name := proc.Self(p.FD)
	return unix.Faccessat(dir, name, mode, unix.AT_EACCESS) == nil
}

// envWords is the command that env(1) runs as the interpreter of a script, nil
// where that is another program, or cannot be told.
func envWords(r *event.Request) []string {
	if path.Base(r.Argv[0]) != "env" || len(r.Argv) < 3 {
		return nil
	}
	words := []string{r.Argv[1]}
	if list, split := strings.CutPrefix(r.Argv[1], "-S"); split {
		if strings.ContainsAny(list, `\'"$#`) {
			return nil
		}
		words = strings.Fields(list)
	}
	if len(words) == 0 || words[0] == "" || words[0][0] == '-' || strings.Contains(words[0], "=") {
		return nil
	}
	return slices.Concat(words, r.Argv[2:])
}

// found is the program that a name leads to by the PATH of an environment.
func (w *worker) found(name string, envp uint64) (p proc.Pinned, ok bool, err error) {
	places := []string{""}
	if !strings.Contains(name, "/") {
		env, err := w.argv(envp)
		if err == proc.ErrBlocks {
			return p, false, err
		}
		i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
		if err != nil || i < 0 {
			return p, false, nil //nolint:nilerr // it cannot be told, so it is asked about
		}
		places = strings.Split(strings.TrimPrefix(env[i], "PATH="), ":")
		places = places[:min(len(places), maxPlaces)]
		for i, dir := range places {
			places[i] = cmp.Or(dir, ".") + "/"
		}
	}
	for _, dir := range places {
		p, err := w.view.Resolve(unix.AT_FDCWD, dir+name, 0, 0)
		if unfinished(err) {
			return p, false, err
		}
		if err != nil {
			continue
		}
		if w.runnable(&p) {
			return p, true, nil
		}
		p.Close()
	}
	return proc.Pinned{FD: -1}, false, nil
}

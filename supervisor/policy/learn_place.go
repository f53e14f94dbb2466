package policy

import (
	"slices"
	"strings"
)

// root is a place that patterns are written from: "" for the root directory, "~",
// or a special that takes a table of patterns.
type root string

const (
	rootAbsolute  root = ""
	rootHome      root = "~"
	rootWorkspace root = ":workspace_roots"
	rootTmp       root = ":session_tmp"
)

// place is where a path is written from, and the components of its pattern. What
// another session calls otherwise, its temporary directory and the numbers of its
// tasks, is put so that the pattern means the same there.
func (h *Host) place(path string) (at root, parts []string) {
	rest, from := path, ""
	under := func(r root, dirs ...string) {
		for _, d := range dirs {
			if isBelow(path, d) && len(d) > len(from) {
				at, from, rest = r, d, path[len(d):]
			}
		}
	}
	under(rootHome, one(h.Home)...)
	if len(h.Workspaces) == 1 { // a pattern would hold in each of several
		under(rootWorkspace, h.Workspaces...)
	}
	under(rootTmp, append(one(h.Tmp), one(h.Cache)...)...)
	for part := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
		if part != "" {
			parts = append(parts, quote(part))
		}
	}
	if at == rootAbsolute && len(parts) > 1 && parts[0] == "proc" {
		numbersOf(parts)
	}
	return at, parts
}

// anyTask is what policies call the tasks that are not the session's.
const anyTask = "[0-9]*"

// numbersOf replaces the numbers of tasks and threads in a path below /proc.
func numbersOf(parts []string) {
	if isNumber(parts[1]) {
		parts[1] = anyTask
	}
	if len(parts) > 3 && parts[2] == "task" && isNumber(parts[3]) {
		parts[3] = "*"
	}
}

// anyTasks is a path in which tasks have no numbers.
func anyTasks(path string) string {
	if !strings.HasPrefix(path, "/proc/") {
		return path
	}
	parts := strings.Split(path[1:], "/")
	numbersOf(parts)
	return "/" + strings.Join(parts, "/")
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// dirs are the directories that patterns are written from, on a host.
func (r root) dirs(h *Host) []string {
	switch r {
	case rootHome:
		return one(h.Home)
	case rootWorkspace:
		return h.Workspaces
	case rootTmp:
		return append(one(h.Tmp), one(h.Cache)...)
	}
	return []string{"/"}
}

// shared are directories that many programs have their files in: to open one in
// whole is more than any session needs. Those below "~" are in the home directory.
var shared = []string{
	"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/share", "/usr/include", "/usr/src", "/usr/local", "/usr/local/bin",
	"/usr/local/sbin", "/usr/local/lib", "/usr/local/share", "/usr/local/etc", "/var/lib", "/var/log", "/var/cache", "/var/tmp", "/var/spool", "/var/run",
	"/run/user", "/run/lock", "/dev/shm", "/dev/pts", "/proc/self", "/proc/sys", "/sys/fs", "/sys/kernel", "/sys/class", "/sys/devices",
	"~/.config", "~/.cache", "~/.local", "~/.local/share", "~/.local/bin", "~/.local/lib", "~/.local/state", "~/.mozilla", "~/snap",
}

// tooWide reports whether a rule on a directory in whole would open far more than
// one program's or project's files: the root, what stands directly in it, the home
// directory and what is above it or a workspace, and directories that all share.
func (h *Host) tooWide(dir string) bool {
	if strings.Count(dir, "/") < 2 || h.Home != "" && isBelow(h.Home, dir) {
		return true
	}
	if slices.ContainsFunc(h.Workspaces, func(ws string) bool { return isBelow(ws, dir) && ws != dir }) {
		return true
	}
	if task, ok := strings.CutPrefix(dir, "/proc/"); ok && !strings.Contains(task, "/") {
		return true
	}
	return slices.ContainsFunc(shared, func(s string) bool {
		if below, ok := strings.CutPrefix(s, "~"); ok {
			return h.Home != "" && dir == h.Home+below
		}
		return dir == s
	})
}

// contested reports whether a rule on a directory could take the place of a
// pattern of the profile that matches inside it and says something stricter: the
// longer literal beginning decides, and patterns such as "**/*.env" have a short
// one.
func (p *Policy) contested(dir string, w word) bool {
	would := w.verdict()
	for i := range p.files.rules {
		r := &p.files.rules[i]
		if indexUnescaped(r.glob, "*?[{") < 0 || !isBelow(dir, literalPrefix(r.glob)) || !mayReach(r.glob, dir) {
			continue
		}
		if v := r.verdict(); would.widens(v) || v.widens(would) {
			return true
		}
	}
	return false
}

// mayReach reports whether a pattern may match something at or below dir; it errs
// on the side of yes.
func mayReach(glob, dir string) bool {
	parts := strings.Split(strings.TrimPrefix(dir, "/"), "/")
	for i, g := range strings.Split(strings.TrimPrefix(glob, "/"), "/") {
		if i == len(parts) || g == "**" || strings.ContainsAny(g, "{}") {
			return true
		}
		if indexUnescaped(g, "*?[") < 0 && unquote(g) != parts[i] {
			return false
		}
	}
	return true // it matches dir or a directory above it
}

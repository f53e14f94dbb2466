package policy

import (
	"strings"
	"syscall"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

func load(t testing.TB, name string, sources ...Source) *Policy {
	t.Helper()
	p, err := Load(sources, name, testHost())
	if err != nil {
		t.Fatalf("load %q: %v", name, err)
	}
	return p
}

// ask makes a request from a short form: "read PATH", "write PATH", "make PATH"
// (open with O_CREAT of what is not there), "stat PATH" (O_PATH), "exec PATH",
// "delete PATH", "mkdir PATH", "chmod PATH", "probe PATH" (read of what is not
// there). The task is number 77 and a path ending in "/" is a directory.
func ask(text string) *event.Request {
	verb, path, _ := strings.Cut(text, " ")
	req := &event.Request{Op: event.OpOpen, Task: event.Task{PID: 77, TID: 78}}
	req.Object = event.Object{Kind: event.ObjectFile, Path: path}
	if len(path) > 1 && strings.HasSuffix(path, "/") {
		req.Object.Kind, req.Object.Path = event.ObjectDir, strings.TrimSuffix(path, "/")
	}
	switch verb {
	case "read":
		req.Access = event.AccessRead
	case "write":
		req.Access = event.AccessWrite
	case "make":
		req.Op, req.Access, req.Object.Kind = event.OpCreate, event.AccessWrite|event.AccessCreate, event.ObjectMissing
	case "update":
		req.Op, req.Access, req.Object.Kind = event.OpCreate, event.AccessRead|event.AccessWrite|event.AccessCreate, event.ObjectMissing
	case "probe":
		req.Access, req.Object.Kind = event.AccessRead, event.ObjectMissing
	case "stat":
		req.Access = event.AccessPath
	case "exec":
		req.Op, req.Access = event.OpExec, event.AccessExec
	case "delete":
		req.Op, req.Access = event.OpDelete, event.AccessDelete
	case "mkdir":
		req.Op, req.Access = event.OpMkdir, event.AccessCreate
		if req.Object.Kind == event.ObjectFile {
			req.Object.Kind = event.ObjectMissing
		}
	case "chmod":
		req.Op, req.Access, req.Mode = event.OpChmod, event.AccessMeta, 0o755
	default:
		panic("verb " + verb)
	}
	return req
}

// outcome is "ok", or the errno of a denial.
func outcome(d event.Decision) string {
	if d.Action == event.ActionAllow {
		return "ok"
	}
	switch syscall.Errno(d.Errno) {
	case syscall.EACCES:
		return "no"
	case syscall.ENOENT:
		return "ENOENT"
	case syscall.EEXIST:
		return "EEXIST"
	case syscall.EXDEV:
		return "EXDEV"
	case syscall.EPERM:
		return "EPERM"
	case syscall.ENOSYS:
		return "ENOSYS"
	}
	return syscall.Errno(d.Errno).Error()
}

func TestProfiles(t *testing.T) {
	profiles := []string{"read-only", "workspace-edit-no-net", "privileged-manual", "observe"}
	for column, name := range profiles {
		p := load(t, name)
		for _, row := range profileTable {
			text, columns, _ := strings.Cut(row, "|")
			want := strings.Fields(columns)[column]
			if d := p.Decide(ask(strings.TrimSpace(text))); outcome(d) != want {
				t.Errorf("%s: %s: %s (%s, %s), want %s", name, strings.TrimSpace(text), outcome(d), d.Rule, d.Reason, want)
			}
		}
	}
}

func TestDenialsSayWhy(t *testing.T) {
	p := load(t, "")
	for _, row := range profileTable {
		text, _, _ := strings.Cut(row, "|")
		d := p.Decide(ask(strings.TrimSpace(text)))
		if d.By != "policy:workspace-edit-no-net" {
			t.Errorf("%s: by %q", text, d.By)
		}
		if d.Action == event.ActionDeny && (d.Reason == "" || d.Rule == "" && d.Reason != reasonUnnamed && d.Reason != reasonMissing && d.Reason != reasonExists) {
			t.Errorf("%s: rule %q reason %q", text, d.Rule, d.Reason)
		}
		if d.Action == event.ActionAllow && d.Rule == "" {
			t.Errorf("%s: allowed by no rule", text)
		}
	}
}

func TestOpenDoesNotAllocate(t *testing.T) {
	p := load(t, "")
	for _, text := range []string{"read /usr/lib/libc.so.6", "write /home/u/ws/main.c", "make /home/u/ws/x", "read /proc/77/status"} {
		req := ask(text)
		if n := testing.AllocsPerRun(100, func() { p.Decide(req) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/landlock"
)

func lower(t *testing.T, p *Policy) tracer.Plan {
	t.Helper()
	plan, err := p.Lower()
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func granted(plan tracer.Plan, path string) landlock.AccessFS {
	var access landlock.AccessFS
	for _, r := range plan.Floor.Paths {
		if isBelow(path, r.Path) {
			access |= r.Access
		}
	}
	return access
}

func TestLowerDefault(t *testing.T) {
	plan := lower(t, load(t, ""))
	for class, want := range map[gate.Class]gate.Handling{
		gate.Read: gate.Perform, gate.Write: gate.Perform, gate.Tree: gate.Perform, gate.Meta: gate.Perform, gate.Exec: gate.Continue,
		gate.Connect: gate.Perform, gate.Bind: gate.Perform, gate.Send: gate.Perform, gate.Socket: gate.Continue, gate.Signal: gate.Continue,
		gate.Creds: gate.Untrapped, gate.Memfd: gate.Perform, gate.Kernel: gate.Refuse,
	} {
		if got := plan.Handling[class]; got != want {
			t.Errorf("%v: %v, want %v", class, got, want)
		}
	}
	f := plan.Floor
	if f.HandledFS&(landlock.ReadFile|landlock.ReadDir) != 0 {
		t.Error("reads are handled, though there are secrets in readable ground")
	}
	if want := landlock.Execute | writeRights; f.HandledFS != want {
		t.Errorf("handled %b, want %b", f.HandledFS, want)
	}
	if !f.HandledTCP || len(f.BindPorts)+len(f.ConnectPorts) != 0 || !f.ScopeSignal || !f.ScopeAbstract {
		t.Errorf("floor %+v", f)
	}
	for _, r := range f.Paths {
		if r.Access&^landlock.Execute != 0 {
			t.Errorf("%s: %b is granted, though nothing of it is continued", r.Path, r.Access)
		}
	}
	for path, want := range map[string]landlock.AccessFS{
		"/usr/bin/ls": landlock.Execute, "/lib64/ld-linux-x86-64.so.2": landlock.Execute, "/home/u/ws/a.out": landlock.Execute,
		"/tmp/reeve-01S/x": landlock.Execute, "/home/u/.pyenv/x": landlock.Execute, "/home/u/x": 0, "/home/u/.ssh/x": 0,
		"/home/u/.local/state/reeve/x": 0, "/root/x": 0, "/proc/self/x": 0, "/sys/x": 0, "/opt/x": 0,
	} {
		if got := granted(plan, path); got != want {
			t.Errorf("%s: granted %b, want %b", path, got, want)
		}
	}
	if len(plan.Gaps) != 1 || !strings.HasPrefix(plan.Gaps[0], "commands: ") {
		t.Errorf("gaps %q", plan.Gaps)
	}
}

func TestLowerObserve(t *testing.T) {
	h := testHost()
	h.UID = 0
	p, err := Load(nil, "observe", h)
	if err != nil {
		t.Fatal(err)
	}
	plan := lower(t, p)
	for class, handling := range plan.Handling {
		if handling != gate.Continue && gate.Class(class) != gate.Signal {
			t.Errorf("%v: %v", gate.Class(class), handling)
		}
	}
	if plan.Floor.HandledFS != 0 || plan.Floor.HandledTCP || plan.Floor.ScopeSignal || plan.Floor.ScopeAbstract {
		t.Errorf("floor %+v", plan.Floor)
	}
	if len(plan.Gaps) == 0 || !slices.Contains(plan.AllowKernel, "mount") {
		t.Errorf("gaps %q kernel %q", plan.Gaps, plan.AllowKernel)
	}
}

func TestObserveUnderAnEnvelopeIsHeld(t *testing.T) {
	p := load(t, "observe", source(Envelope, "default_permissions = \"read-only\"\n"))
	if plan := lower(t, p); plan.Handling[gate.Read] != gate.Perform || plan.Handling[gate.Kernel] != gate.Refuse || len(plan.AllowKernel) != 0 {
		t.Errorf("%v %v", plan.Handling, plan.AllowKernel)
	}
}

// TestLowerWithoutHoles: where a policy is a plain list of directories, reading
// is left to the kernel. Changes are not, since the kernel's floor knows neither
// set-user-ID bits nor whose a socket is.
func TestLowerWithoutHoles(t *testing.T) {
	text := `[permissions.s.filesystem]
"/{usr,lib,lib64,bin}" = "read"
"~/out" = "write"
[permissions.s.secrets]
"/" = "write"
[permissions.s.protected]
"/" = "write"
`
	plan := lower(t, load(t, "s", source(Session, text)))
	if plan.Handling[gate.Read] != gate.Continue || plan.Handling[gate.Write] != gate.Perform || plan.Handling[gate.Tree] != gate.Perform || plan.Handling[gate.Meta] != gate.Perform {
		t.Errorf("%v", plan.Handling)
	}
	if got, want := granted(plan, "/usr/x"), readRights|landlock.Execute; got != want {
		t.Errorf("/usr: %b, want %b", got, want)
	}
	if got := granted(plan, "/home/u/out/x"); got&landlock.ReadFile == 0 || got&writeRights != 0 {
		t.Errorf("out: %b", got)
	}
	if got := granted(plan, "/home/u/x"); got != 0 {
		t.Errorf("home: %b", got)
	}
	for name, hole := range map[string]string{
		"literal": "\"/usr/share/x\" = \"deny\"\n", "pattern": "\"/usr/**/x\" = \"deny\"\n", "ask": "\"/lib/x\" = \"ask\"\n",
		"open pattern": "\"/opt/*/x\" = \"read\"\n", "list": "\"/opt\" = \"list\"\n", "hide": "\"/home/u/out/x\" = \"hide\"\n",
		"terminals": "\"/dev\" = \"read\"\n", "a terminal": "\"/dev/pts/3\" = \"read\"\n",
	} {
		text := strings.Replace(text, "[permissions.s.secrets]", hole+"[permissions.s.secrets]", 1)
		plan := lower(t, load(t, "s", source(Session, text)))
		if plan.Handling[gate.Read] != gate.Perform || plan.Floor.HandledFS&landlock.ReadFile != 0 {
			t.Errorf("%s: reads are continued over a hole", name)
		}
	}
}

func TestExecHoles(t *testing.T) {
	p := load(t, "s", source(Session, `[permissions.s]
extends = ":workspace"
[permissions.s.exec]
"/usr/bin/{curl,wget}" = "deny"
"/opt/none" = "deny"
":workspace_roots" = { "bad" = "deny" }
"/usr/**/python*" = "deny"
`))
	ground, holes := p.ExecGround()
	if !slices.Contains(ground, "/usr") || !slices.Contains(ground, "/home/u/ws") {
		t.Errorf("ground %v", ground)
	}
	if !slices.Equal(holes, []string{"/usr/bin/curl", "/usr/bin/wget"}) {
		t.Errorf("holes %v", holes)
	}
	plan := lower(t, p)
	if granted(plan, "/usr/bin/ls") != 0 {
		t.Error("/usr is granted in whole, though it has holes")
	}
	if granted(plan, "/home/u/ws/x")&landlock.Execute == 0 {
		t.Error("what the session makes in its workspace could not run")
	}
	gaps := strings.Join(plan.Gaps, "\n")
	if !strings.Contains(gaps, "/home/u/ws/bad") {
		t.Errorf("gaps %s", gaps)
	}
}

func TestExpandBraces(t *testing.T) {
	for glob, want := range map[string][]string{
		"/a": {"/a"}, "/{a,b}/c": {"/a/c", "/b/c"}, "/{a,b}{c,d}": {"/ac", "/ad", "/bc", "/bd"}, `/a\*b`: {"/a*b"}, `/{a\,b,c}`: {"/a,b", "/c"},
		"/a*": nil, "/{a,b*}": nil, "/a?": nil, "/[ab]": nil, "/**": nil,
	} {
		got, ok := expandBraces(glob)
		if ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%s: %v %v", glob, got, ok)
		}
	}
}

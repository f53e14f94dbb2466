package trial

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Event is a record as `reeve events --json` prints it.
type Event struct {
	Session string `json:"session"`
	Seq     uint64 `json:"seq"`
	Time    string `json:"time"`
	Engine  string `json:"engine"`
	Kind    string `json:"kind"`
	Task    struct {
		ID   string   `json:"id"`
		PID  int      `json:"pid"`
		PPID int      `json:"ppid"`
		Exe  string   `json:"exe"`
		Argv []string `json:"argv"`
		Cwd  string   `json:"cwd"`
	} `json:"task"`
	Op      string   `json:"op"`
	Access  []string `json:"access"`
	Object  Object   `json:"object"`
	Target  Object   `json:"target"`
	Action  string   `json:"action"`
	Rule    string   `json:"rule"`
	Reason  string   `json:"reason"`
	By      string   `json:"by"`
	Layer   string   `json:"layer"`
	Errno   string   `json:"errno"`
	Syscall string   `json:"syscall"`
	Arch    string   `json:"arch"`
	Count   uint64   `json:"count"`
	Exit    int      `json:"exit_code"`
	Signal  int      `json:"exit_signal"`
	Detail  string   `json:"detail"`
	Chain   string   `json:"chain"`
}

// Object is the object of a record.
type Object struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	Raw  string `json:"raw"`
	Dev  string `json:"dev"`
	Ino  uint64 `json:"ino"`
	Addr string `json:"addr"`
	Port int    `json:"port"`
	Own  bool   `json:"own"`
}

// String is the part of a record that a failing test should print.
func (e *Event) String() string {
	return fmt.Sprintf("#%d %s %s %v %s %q→%q addr %s:%d syscall %s arch %s errno %s rule %q by %s: %s",
		e.Seq, e.Kind, e.Op, e.Access, e.Action, e.Object.Path, e.Target.Path, e.Object.Addr, e.Object.Port,
		e.Syscall, e.Arch, e.Errno, e.Rule, e.By, e.Reason)
}

// Events reads the stream of the ground's state with further flags.
func (g *Ground) Events(flags ...string) []Event {
	g.t.Helper()
	out := g.Verb(append([]string{"events", "--json"}, flags...)...)
	if out.Status != 0 {
		g.t.Fatalf("reeve events: status %d: %s", out.Status, out.Stderr)
	}
	var events []Event
	lines := bufio.NewScanner(strings.NewReader(out.Stdout))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			g.t.Fatalf("decode event %q: %v", lines.Text(), err)
		}
		events = append(events, e)
	}
	if strings.Contains(out.Stdout, g.Token) {
		g.t.Errorf("the secret's content stands in the stream")
	}
	return events
}

// Verb runs another verb of reeve on the ground's state.
func (g *Ground) Verb(args ...string) *Result {
	g.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(g.Reeve, append([]string{args[0], "--state", g.State}, args[1:]...)...)
	cmd.Dir, cmd.Env = g.Base, g.Environ()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: g.Cred}
	began := time.Now()
	err := cmd.Run()
	return &Result{Status: ExitStatus(err), Stdout: stdout.String(), Stderr: stderr.String(), Took: time.Since(began)}
}

// Redecided requires that a session's own policy, as recorded, decides every
// operation of its record as it is recorded.
func (g *Ground) Redecided(session string) {
	g.t.Helper()
	out := g.Verb("replay", session, "--redecide")
	if out.Status != 0 {
		g.t.Errorf("decided anew by its own policy, the session is another one (status %d): %s", out.Status, out.Text())
	}
}

// Denials are the records with action deny.
func Denials(events []Event) []Event {
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Action != "deny" || e.Op == "answer" })
}

// Denial is what the one denial of a session must say. Empty fields are not
// looked at; Ops and Syscalls hold alternatives.
type Denial struct {
	Ops      []string
	Syscalls []string
	// Path is the resolved object, Target the second one.
	Path, Target string
	Arch         string
	Addr         string
	Port         int
	// Errno is the symbolic errno; empty is EACCES, "*" is any.
	Errno string
}

// Check reports what is wrong with a record as the denial of session.
func (d Denial) Check(e *Event) error {
	errno := d.Errno
	if errno == "" {
		errno = "EACCES"
	}
	switch {
	case len(d.Ops) > 0 && !slices.Contains(d.Ops, e.Op):
		return fmt.Errorf("op is %q, want one of %v", e.Op, d.Ops)
	case len(d.Syscalls) > 0 && !slices.Contains(d.Syscalls, e.Syscall):
		return fmt.Errorf("syscall is %q, want one of %v", e.Syscall, d.Syscalls)
	case d.Path != "" && e.Object.Path != d.Path:
		return fmt.Errorf("object is %q, want %q", e.Object.Path, d.Path)
	case d.Target != "" && e.Target.Path != d.Target:
		return fmt.Errorf("target is %q, want %q", e.Target.Path, d.Target)
	case d.Arch != "" && e.Arch != d.Arch:
		return fmt.Errorf("arch is %q, want %q", e.Arch, d.Arch)
	case d.Addr != "" && e.Object.Addr != d.Addr:
		return fmt.Errorf("address is %q, want %q", e.Object.Addr, d.Addr)
	case d.Port != 0 && e.Object.Port != d.Port:
		return fmt.Errorf("port is %d, want %d", e.Object.Port, d.Port)
	case errno != "*" && e.Errno != errno:
		return fmt.Errorf("errno is %q, want %q", e.Errno, errno)
	case e.Rule == "" && e.Reason == "", e.By == "":
		return fmt.Errorf("no rule is named and no reason given")
	case e.Session == "" || e.Task.ID == "" || e.Task.PID == 0:
		return fmt.Errorf("no session or task is named")
	}
	return nil
}

// OneDenial requires exactly one denial in the stream, and that it is d.
func OneDenial(t testing.TB, events []Event, d Denial) {
	t.Helper()
	got := Denials(events)
	if len(got) != 1 {
		t.Errorf("%d denials, want 1:", len(got))
		for i := range got {
			t.Errorf("  %v", &got[i])
		}
		return
	}
	if err := d.Check(&got[0]); err != nil {
		t.Errorf("denial: %v\n  %v", err, &got[0])
	}
}

// SomeDenial requires that among the denials there is one that is d.
func SomeDenial(t testing.TB, events []Event, d Denial) {
	t.Helper()
	var last error
	for _, e := range Denials(events) {
		if last = d.Check(&e); last == nil {
			return
		}
	}
	t.Errorf("no denial is %+v (the last: %v); there are:", d, last)
	for i, e := range Denials(events) {
		if i == 20 {
			t.Errorf("  … and more")
			break
		}
		t.Errorf("  %v", &e)
	}
}

// KeptSecret requires that neither output nor stream shows the secret, and
// that the protected objects are as they were.
func (g *Ground) KeptSecret(r *Result) {
	g.t.Helper()
	if strings.Contains(r.Text(), g.Token) {
		g.t.Errorf("the secret got out: %s", tail(r.Text()))
	}
	for _, c := range g.Changes() {
		g.t.Errorf("protected object changed: %s", c)
	}
}

// AllEvents reads the streams of every session of the ground's state.
func (g *Ground) AllEvents() []Event {
	g.t.Helper()
	out := g.Verb("sessions", "ls", "--json")
	if out.Status != 0 {
		g.t.Fatalf("reeve sessions ls: status %d: %s", out.Status, out.Stderr)
	}
	var all []Event
	for _, id := range SessionIDs(out.Stdout) {
		all = append(all, g.Events("--session", id)...)
	}
	return all
}

// SessionIDs are the sessions that a text names, each once, in its order.
func SessionIDs(text string) []string {
	var out []string
	for _, id := range ulid.FindAllString(text, -1) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// ulid is Crockford's base 32, 26 digits.
var ulid = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)

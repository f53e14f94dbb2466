// Package probe tries what the kernel lets us do: each mechanism is really used,
// in a child process or by loading a program, because versions, configuration
// files and lists of security modules prove nothing. An answer is yes, no, or
// unknown, and says why; engines are chosen from the answers.
package probe

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// State is the answer of a probe.
type State uint8

// The answers. Unknown means that it could not be tried: it promises nothing.
const (
	Unknown State = iota
	No
	Yes
)

var stateNames = [...]string{Unknown: "unknown", No: "no", Yes: "yes"}

// String is the state's word.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return stateNames[Unknown]
}

// MarshalText writes the state's word.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the state's word.
func (s *State) UnmarshalText(b []byte) error {
	for i, n := range stateNames {
		if n == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("unknown probe state %q", b)
}

// The names of the probes, in the order of All.
const (
	SeccompNotify   = "seccomp notification"
	SeccompAddFD    = "seccomp descriptor injection"
	SeccompKillable = "seccomp killable wait"
	SeccompSyncWake = "seccomp synchronous wake-up"
	PidfdGetfd      = "pidfd_getfd"
	PidfdThread     = "pidfd of threads"
	Landlock        = "Landlock"
	TracepointBTF   = "BPF typed tracepoints"
	TaskStorage     = "BPF task storage"
	Witness         = "witness programs"
	BPFLSM          = "BPF LSM"
	LSMPrograms     = "LSM programs"
	CgroupKill      = "cgroup.kill"
	Subreaper       = "child subreaper"
	Ptrace          = "ptrace"
)

// Result is what came of one probe.
type Result struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Reason says what was seen, one clause; Hint what a person can do about a
	// State that is not Yes, empty if nothing.
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
	// Needed names the engines that do not hold without it, Useful those that
	// are slower, or weaker in a way that is stated, without it.
	Needed []string `json:"needed,omitempty"`
	Useful []string `json:"useful,omitempty"`
}

func yes(name, reason string, args ...any) Result {
	return Result{Name: name, State: Yes, Reason: fmt.Sprintf(reason, args...)}
}

func no(name, reason string, args ...any) Result {
	return Result{Name: name, State: No, Reason: fmt.Sprintf(reason, args...)}
}

func unknown(name, reason string, args ...any) Result {
	return Result{Name: name, State: Unknown, Reason: fmt.Sprintf(reason, args...)}
}

func (r Result) withHint(hint string) Result {
	if r.State != Yes {
		r.Hint = hint
	}
	return r
}

// Config says how to probe. The zero value is usable.
type Config struct {
	// Executable is the program to run as a child, with ChildName as its
	// argv[0]; empty is this program itself. Its main must call Child then.
	Executable string
	// Timeout bounds each probe; 0 is ten seconds, since a probe starts a process
	// and a busy machine may take seconds to do so.
	Timeout time.Duration
}

const defaultTimeout = 10 * time.Second

// probes are run together; each answers for the names it is listed with.
var probes = []struct {
	names []string
	run   func(context.Context, Config) []Result
}{
	{[]string{SeccompNotify, SeccompAddFD, SeccompKillable, SeccompSyncWake, PidfdThread}, inChild("seccomp")},
	{[]string{Landlock}, inChild("landlock")},
	{[]string{PidfdGetfd}, tryPidfdGetfd},
	{[]string{TaskStorage, TracepointBTF, Witness}, tryTracepoints},
	{[]string{BPFLSM, LSMPrograms}, tryLSM},
	{[]string{CgroupKill}, tryCgroupKill},
	{[]string{Subreaper}, inChild("subreaper")},
	{[]string{Ptrace}, tryPtrace},
}

// All runs every probe and returns their results in a fixed order. It ends within
// a little more than the timeout whatever the kernel does: a probe that does not
// come back is Unknown.
func All(ctx context.Context, cfg Config) []Result {
	if cfg.Executable == "" {
		cfg.Executable = "/proc/self/exe"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	found := map[string]Result{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range probes {
		wg.Go(func() {
			results := bounded(ctx, cfg, p.run)
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				found[r.Name] = r
			}
		})
	}
	wg.Wait()
	return inOrder(found)
}

// bounded runs one probe; nil if it does not come back in time, which leaves its
// goroutine behind in the kernel.
func bounded(ctx context.Context, cfg Config, run func(context.Context, Config) []Result) []Result {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	done := make(chan []Result, 1)
	go func() {
		defer cancel()
		done <- run(ctx, cfg)
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	// The probe's own error at the deadline says more than ours.
	select {
	case r := <-done:
		return r
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// order is the order of results, and who needs them.
var order = []struct {
	name           string
	needed, useful []string
}{
	{SeccompNotify, []string{LSM, UnotifyRoot, Unotify}, nil},
	{SeccompAddFD, []string{LSM, UnotifyRoot, Unotify}, nil},
	{PidfdGetfd, []string{LSM, UnotifyRoot, Unotify}, nil},
	{Landlock, []string{UnotifyRoot, Unotify}, []string{PtraceEngine}},
	{TaskStorage, []string{LSM, UnotifyRoot}, nil},
	{TracepointBTF, []string{LSM, UnotifyRoot}, nil},
	{Witness, []string{LSM, UnotifyRoot}, nil},
	{BPFLSM, []string{LSM}, nil},
	{LSMPrograms, []string{LSM}, nil},
	{Ptrace, []string{PtraceEngine}, nil},
	{SeccompKillable, nil, []string{LSM, UnotifyRoot, Unotify}},
	{SeccompSyncWake, nil, []string{LSM, UnotifyRoot, Unotify}},
	{PidfdThread, nil, []string{LSM, UnotifyRoot, Unotify}},
	{CgroupKill, nil, []string{LSM, UnotifyRoot, Unotify}},
	{Subreaper, nil, []string{LSM, UnotifyRoot, Unotify}},
}

func inOrder(found map[string]Result) []Result {
	out := make([]Result, 0, len(order))
	for _, o := range order {
		r, ok := found[o.name]
		if !ok {
			r = unknown(o.name, "the probe did not come back in time")
		}
		r.Needed, r.Useful = o.needed, o.useful
		out = append(out, r)
	}
	return out
}

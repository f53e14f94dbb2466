package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// ChildName is argv[0] of a probing child. A main that finds it there must do
// nothing but os.Exit(probe.Child(os.Args[1:])).
const ChildName = "reeve-probe"

// children are what a child can be asked for. Those that print results are run
// by inChild.
var children = map[string]func(args []string) []Result{
	"seccomp":   childSeccomp,
	"landlock":  childLandlock,
	"subreaper": childSubreaper,
	"orphan":    childOrphan,
	"leave":     childLeave,
	"wait":      childWait,
}

// Child is the child's half of the probes; it returns the exit status.
func Child(args []string) int {
	if len(args) == 0 || children[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "bug: unknown probe", args)
		return 2
	}
	results := children[args[0]](args[1:])
	if results == nil {
		return 0
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// command is a child that is killed with ctx. It gets an empty environment: what
// it does must not depend on it.
func command(ctx context.Context, cfg Config, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, cfg.Executable, args...)
	cmd.Args[0] = ChildName
	cmd.Env = childEnv
	return cmd
}

// childEnv keeps the child's runtime to one idea of a processor, so that it
// starts fast.
var childEnv = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}

// inChild is a probe that a child does and answers for.
func inChild(what string) func(context.Context, Config) []Result {
	return func(ctx context.Context, cfg Config) []Result {
		cmd := command(ctx, cfg, what)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		runErr := cmd.Run()
		var results []Result
		if err := json.Unmarshal(stdout.Bytes(), &results); err == nil && runErr == nil {
			return results
		}
		if runErr == nil {
			runErr = fmt.Errorf("answered %q", stdout.String())
		}
		reason := fmt.Sprintf("the probing child failed: %v", runErr)
		if text := strings.TrimSpace(firstLine(stderr.String())); text != "" {
			reason += ": " + text
		}
		for _, n := range childNames[what] {
			results = append(results, unknown(n, "%s", reason))
		}
		return results
	}
}

// childNames are the results that a child answers for.
var childNames = map[string][]string{
	"seccomp":   {SeccompNotify, SeccompAddFD, SeccompKillable, SeccompSyncWake, PidfdThread},
	"landlock":  {Landlock},
	"subreaper": {Subreaper},
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// childWait says that it is there and then waits until its stdin ends.
func childWait([]string) []Result {
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// startWaiting starts a child that waits; it is up when this returns. end lets it
// end and reaps it.
func startWaiting(cmd *exec.Cmd) (end func(), err error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end = func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}
	if _, err := stdout.Read(make([]byte, 8)); err != nil {
		end()
		return nil, fmt.Errorf("wait for the probing child: %w", err)
	}
	return end, nil
}

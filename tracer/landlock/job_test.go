package landlock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// job is what a re-executed test binary does: put one thread under Spec (unless
// Free) as user UID, and try the actions. Every action is tried without the
// ruleset too, so that a refusal means something.
type job struct {
	Spec    Spec
	Free    bool
	UID     int
	Actions []string
}

const jobEnv = "REEVE_LANDLOCK_TEST_JOB"

func TestMain(m *testing.M) {
	if text := os.Getenv(jobEnv); text != "" {
		if err := runJob(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runJob(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if j.UID != os.Geteuid() {
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(j.UID), syscall.Setuid(j.UID)} {
			if err != nil {
				return err
			}
		}
	}
	runtime.LockOSThread()
	if !j.Free {
		if err := restrictThread(j.Spec); err != nil {
			return err
		}
	}
	for _, a := range j.Actions {
		fmt.Println(a, "=", errnoName(act(a)))
	}
	return nil
}

func restrictThread(s Spec) error {
	abi, err := ABI()
	if err != nil {
		return err
	}
	fd, _, err := s.Open(abi)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return Restrict(fd)
}

func act(action string) error {
	verb, arg, _ := strings.Cut(action, " ")
	switch verb {
	case "read":
		f, err := os.Open(arg)
		if err == nil {
			err = f.Close()
		}
		return err
	case "write":
		f, err := os.OpenFile(arg, os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		return err
	case "truncate":
		return os.Truncate(arg, 0)
	case "list":
		_, err := os.ReadDir(arg)
		return err
	case "create":
		f, err := os.Create(arg)
		if err == nil {
			err = errors.Join(f.Close(), os.Remove(arg))
		}
		return err
	case "run":
		return exec.Command(arg).Run()
	case "connect":
		c, err := net.Dial("tcp", arg)
		if err == nil {
			err = c.Close()
		}
		return err
	case "abstract":
		c, err := net.Dial("unix", "@"+arg)
		if err == nil {
			err = c.Close()
		}
		return err
	case "signal":
		return syscall.Kill(os.Getppid(), 0)
	case "thread":
		return onOtherThread(arg)
	}
	return fmt.Errorf("bug: unknown action %q", verb)
}

// onOtherThread reads arg on a thread that existed before the restriction or was
// cloned from an unrestricted one; Restrict must not have reached it.
func onOtherThread(arg string) error {
	done := make(chan error)
	go func() { done <- act("read " + arg) }()
	return <-done
}

func errnoName(err error) string {
	var e syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return unix.ErrnoName(e)
	}
	return err.Error()
}

// try runs the actions in a child and returns the outcome of each.
func try(t *testing.T, j job) []string {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, stderr.String())
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		_, result, _ := strings.Cut(strings.TrimSpace(line), " = ")
		got = append(got, result)
	}
	return got
}

func needABI(t *testing.T, want int) {
	t.Helper()
	abi, err := ABI()
	if err != nil || abi < want {
		t.Skipf("needs Landlock ABI %d: have %d, %v", want, abi, err)
	}
}

// users are those that a test can run its child as.
func users() []int {
	if os.Geteuid() == 0 {
		return []int{0, 65534}
	}
	return []int{os.Geteuid()}
}

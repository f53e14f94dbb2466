package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run reeve, and lets reeve start its helpers, all of
// which are this test binary again.
func TestMain(m *testing.M) {
	commands := map[string]func(){"reeve": func() { os.Exit(reeveMain()) }}
	for name, helper := range helpers {
		commands[name] = func() { os.Exit(helper()) }
	}
	testscript.Main(m, commands)
}

var update = flag.Bool("update", false, "write what the scripts print into their golden files")

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("REEVE_STATE", env.WorkDir+"/state")
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("TZ", "UTC")
			port, err := freePort()
			if err != nil {
				return err
			}
			env.Setenv("PORT", strconv.Itoa(port))
			return os.Mkdir(env.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": scriptStatus,
			"record": scriptRecord,
			"tamper": scriptTamper,
			"unlist": scriptUnlist,
		},
		Condition: func(cond string) (bool, error) {
			if program, ok := strings.CutPrefix(cond, "lacks:"); ok {
				return lacks(t, program), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// scriptStatus is `status N COMMAND…`: the command must end with that status.
func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command [args…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s ended with status %d, want %d", args[1], got, want)
	}
}

// freePort is a port that nothing listens on just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// lacks says that a script needs a program that is not here; where $REQUIRE
// names it, that is an error.
func lacks(t *testing.T, program string) bool {
	if _, err := exec.LookPath(program); err == nil {
		return false
	}
	if slices.Contains(strings.Split(os.Getenv("REQUIRE"), ","), program) {
		t.Errorf("required %s is missing", program)
	}
	return true
}

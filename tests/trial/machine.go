package trial

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// In an emulated machine (tests/vm sets $REEVE_VM) everything is slower by one
// order or two: a session takes a second, a notification a millisecond.
const (
	fewerAttempts = 100 // a race is run by this much less often
	fewerControls = 5   // and its control by this
	leastAttempts = 200
	morePatience  = 4 // a limit is this many times as long
)

// Emulated says whether the tests run in an emulated machine.
func Emulated() bool { return os.Getenv("REEVE_VM") != "" }

// Attempts is how often a race of n attempts is run under reeve here, as a word
// for the victim: n, or a hundredth and 200 at least in an emulated machine.
func Attempts(n int) string { return strconv.Itoa(fewer(n, fewerAttempts)) }

// ControlAttempts is Attempts for the control, which is not held up by anybody: a
// fifth, as a number for Won.
func ControlAttempts(n int) int { return fewer(n, fewerControls) }

func fewer(n, by int) int {
	if Emulated() && n > leastAttempts {
		n = max(n/by, leastAttempts)
	}
	return n
}

// Patience is how long to wait here for what must happen within limit on a
// machine that is not emulated.
func Patience(limit time.Duration) time.Duration {
	if Emulated() {
		limit *= morePatience
	}
	return limit
}

// Sampled says whether only a sample of the tests is run: in an emulated machine,
// where the whole list takes an hour, unless $REEVE_LONG is set.
func Sampled() bool { return Emulated() && os.Getenv("REEVE_LONG") == "" }

// Sample skips all but the first row of each technique where only a sample is run.
// seen holds the techniques of a table.
func Sample(t testing.TB, seen map[string]bool, id string) {
	t.Helper()
	if Sampled() && seen[id] {
		Skip(t, "long", "one row of a technique in an emulated machine (set REEVE_LONG=1 for all)")
	}
	seen[id] = true
}

// Engine is the engine that every run asks for, from $REEVE_ENGINE; empty
// leaves the choice to reeve.
func Engine() string { return os.Getenv("REEVE_ENGINE") }

// beside is the tests' neighbour, once there is one.
var beside *neighbour

// tryEngine says whether the engine can be had; under lsm the neighbour tries it,
// and stays.
var tryEngine = sync.OnceValue(func() error {
	if Engine() == "lsm" {
		var err error
		beside, err = settleIn()
		return err
	}
	dir, err := scratch("engine")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	state, ws := filepath.Join(dir, "state"), filepath.Join(dir, "ws")
	if err := errors.Join(os.Mkdir(state, 0o700), os.Mkdir(ws, 0o755)); err != nil {
		return err
	}
	cmd := exec.Command(kit.Reeve, "run", "-q", "--engine", Engine(), "--state", state, "--workspace", ws, "--", "/bin/true")
	cmd.Dir = ws
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
})

// needEngine skips a test whose engine cannot be had here, or fails it when
// $REQUIRE names the engine.
func needEngine(t testing.TB) {
	t.Helper()
	if Engine() == "" {
		return
	}
	if err := tryEngine(); err != nil {
		Skip(t, Engine(), fmt.Sprintf("reeve run --engine %s: %v", Engine(), err))
	}
}

// copyVictims takes victims that are built already.
func copyVictims(from, to string, names ...string) error {
	for _, name := range names {
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name), 0o755); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("take $REEVE_VICTIMS: %w (want all of %s there)", err, strings.Join(names, ", "))
			}
			return fmt.Errorf("take $REEVE_VICTIMS: %w", err)
		}
	}
	return nil
}

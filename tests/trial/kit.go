// Package trial is how the black-box tests run one command twice: natively, as
// the control, and under reeve, as the test. It builds reeve and the victims
// once a test binary, lays out the ground they act on, and reads back what the
// session recorded. It knows reeve by its command line only.
package trial

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/reeve-audit/reeve/tests/victims"
)

// Kit is what a test binary builds once.
type Kit struct {
	// Dir is readable by every user and removed when the tests end.
	Dir string
	// Reeve is the program under test.
	Reeve string
}

var (
	kitOnce sync.Once
	kit     Kit
	kitErr  error
)

// Main runs the tests of a package and removes what Build made. It is the whole
// body of a TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if err := beside.leave(); err != nil {
		fmt.Fprintln(os.Stderr, "the session beside the tests':", err)
		code = max(code, 1)
	}
	if kit.Dir != "" {
		os.RemoveAll(kit.Dir)
	}
	os.Exit(code)
}

// Build builds reeve and the victims, or takes the reeve that $REEVE names and
// the victims of the directory $REEVE_VICTIMS, and ends the test if it cannot.
func Build(t testing.TB) Kit {
	t.Helper()
	kitOnce.Do(func() { kit, kitErr = build() })
	if errors.Is(kitErr, victims.ErrNoCompiler) {
		Skip(t, "gcc", kitErr.Error())
	}
	if kitErr != nil {
		t.Fatal(kitErr)
	}
	return kit
}

// BuildOnce is Build for a program that is no test.
func BuildOnce() (Kit, error) {
	kitOnce.Do(func() { kit, kitErr = build() })
	return kit, kitErr
}

func build() (Kit, error) {
	dir, err := scratch("kit")
	if err != nil {
		return Kit{}, err
	}
	k := Kit{Dir: dir, Reeve: filepath.Join(dir, "reeve")}
	if given := os.Getenv("REEVE"); given != "" {
		// A copy, so that every user can run it wherever it was built.
		if err := copyFile(given, k.Reeve, 0o755); err != nil {
			return k, fmt.Errorf("take $REEVE: %w", err)
		}
	} else {
		cmd := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-o", k.Reeve, "github.com/reeve-audit/reeve/cmd/reeve")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return k, fmt.Errorf("build reeve: %w\n%s", err, out)
		}
	}
	if given := os.Getenv("REEVE_VICTIMS"); given != "" {
		return k, copyVictims(given, dir, victims.Victim, victims.Linked, victims.Bare, victims.Opens)
	}
	return k, victims.Build(dir)
}

// scratch makes a directory that every user may pass through. It does not stand
// in a temporary directory, since policies treat those specially: for root it
// is below /srv, else in the user's cache. $REEVE_TRIAL_DIR overrides both.
func scratch(name string) (string, error) {
	parent := os.Getenv("REEVE_TRIAL_DIR")
	if parent == "" && os.Geteuid() == 0 {
		parent = "/srv"
	}
	if parent == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find scratch directory: %w (hint: set REEVE_TRIAL_DIR)", err)
		}
		parent = cache
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("make scratch directory: %w", err)
	}
	dir, err := os.MkdirTemp(parent, "reeve-"+name+"-")
	if err != nil {
		return "", fmt.Errorf("make scratch directory: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("open scratch directory: %w", err)
	}
	return dir, nil
}

// Skip skips the test for want of need, and fails it instead when $REQUIRE, a
// list with commas, names need.
func Skip(t testing.TB, need, reason string) {
	t.Helper()
	for _, r := range strings.Split(os.Getenv("REQUIRE"), ",") {
		if r == need {
			t.Fatalf("required %s is missing: %s", need, reason)
		}
	}
	t.Skipf("skip [%s]: %s", need, reason)
}

// NeedRoot skips a test that only root can run.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "root", "needs root")
	}
}

// NeedProgram skips a test of a program, a name or a path, that is not installed,
// and returns where it stands.
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(t, filepath.Base(name), "no "+name)
	}
	return path
}

func copyFile(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}

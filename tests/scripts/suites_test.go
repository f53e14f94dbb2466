package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// A suite is the test suite of somebody else's runtime. What passes natively
// must pass under the profile observe, which allows everything: whatever else
// differs is our doing, and stands in known with its reason.
type suite struct {
	dir  string
	argv []string
	env  []string
	// verdict finds the lines of the output that are verdicts: a name and a word.
	verdict *regexp.Regexp
	name1   int // the group of the name; the other of the two is the word
	// known are names, by prefix, that differ, each with its reason.
	known map[string]string
	// least is how many must pass natively: the control.
	least int
}

func (s suite) test(t *testing.T) {
	g := trial.NewGround(t, false)
	o := trial.Options{Dir: s.dir, Env: append([]string{"TMPDIR=" + g.Home + "/tmp"}, s.env...), Timeout: 10 * time.Minute, NoEvents: true}
	native := s.verdicts(g.Native(o, s.argv...).Text())
	o.Profile = "observe"
	got := s.verdicts(g.Supervised(o, s.argv...).Text())
	passed := 0
	for name, verdict := range native {
		if !passes(verdict) {
			continue
		}
		passed++
		if passes(got[name]) {
			continue
		}
		if reason := s.excuse(name); reason != "" {
			t.Logf("%s: %s under reeve: %s", name, word(got[name]), reason)
			continue
		}
		t.Errorf("%s: passes natively, under reeve: %s", name, word(got[name]))
	}
	for name, verdict := range got {
		if passes(verdict) && !passes(native[name]) {
			t.Logf("%s: passes under reeve only (natively: %s)", name, word(native[name]))
		}
	}
	t.Logf("%d tests, %d pass natively", len(native), passed)
	if passed < s.least {
		t.Errorf("control: %d tests pass natively, want %d", passed, s.least)
	}
}

func (s suite) verdicts(out string) map[string]string {
	list := map[string]string{}
	for _, m := range s.verdict.FindAllStringSubmatch(out, -1) {
		list[m[s.name1]] = m[3-s.name1]
	}
	return list
}

func passes(verdict string) bool { return verdict == "PASS" || verdict == "ok" }

func word(verdict string) string {
	if verdict == "" {
		return "no verdict"
	}
	return verdict
}

func (s suite) excuse(name string) string {
	for prefix, reason := range s.known {
		if strings.HasPrefix(name, prefix) {
			return reason
		}
	}
	return ""
}

// TestGoSuites: Go's own tests of what talks to the kernel. They take a minute and a
// half, for which the whole of the tests has no room on a slow machine.
func TestGoSuites(t *testing.T) {
	if os.Getenv("REEVE_LONG") == "" {
		trial.Skip(t, "long", "set REEVE_LONG=1")
	}
	trial.NeedProgram(t, "go")
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("find Go's own sources: %v", err)
	}
	goroot := strings.TrimSpace(string(out))
	for pkg, least := range map[string]int{"os": 150, "os/exec": 30, "syscall": 15, "net": 150} {
		t.Run(pkg, func(t *testing.T) {
			kit := trial.Build(t)
			binary := filepath.Join(kit.Dir, strings.ReplaceAll(pkg, "/", "-")+".test")
			build := exec.Command("go", "test", "-c", "-o", binary, pkg)
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build tests of %s: %v\n%s", pkg, err, out)
			}
			suite{
				dir: filepath.Join(goroot, "src", pkg), argv: []string{binary, "-test.v", "-test.short"},
				verdict: regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`), name1: 2, least: least, known: goKnown,
			}.test(t)
		})
	}
}

// known are the tests that differ under observe. Both calls name another process
// by its number, and are refused for all but the caller itself, so that they
// cannot be turned on reeve.
var (
	goKnown = map[string]string{
		"TestPrlimitOtherProcess": "prlimit of another process is refused",
		"TestPrlimitFileLimit":    "prlimit of another process is refused",
	}
	pythonKnown = map[string]string{
		"test_set_get_priority (": "setpriority of a process by number is refused",
	}
)

// TestPythonSuites: CPython's tests of processes and files. Debian packs them
// apart, in libpython3.11-testsuite or the like; $REEVE_CPYTHON names where they
// were unpacked instead.
func TestPythonSuites(t *testing.T) {
	const python = "/usr/bin/python3"
	trial.NeedProgram(t, python)
	root := os.Getenv("REEVE_CPYTHON")
	if root == "" {
		out, err := exec.Command(python, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
		if err != nil {
			t.Fatalf("find the library of %s: %v", python, err)
		}
		root = strings.TrimSpace(string(out))
	}
	if _, err := os.Stat(filepath.Join(root, "test/test_subprocess.py")); err != nil {
		trial.Skip(t, "cpython", "no test suite in "+root+": install libpython3.…-testsuite")
	}
	for module, least := range map[string]int{"test_subprocess": 200, "test_os": 200, "test_posix": 80} {
		t.Run(module, func(t *testing.T) {
			suite{
				argv: []string{python, "-m", "unittest", "-v", "test." + module}, env: []string{"PYTHONPATH=" + root, "PYTHONDONTWRITEBYTECODE=1"},
				verdict: regexp.MustCompile(`(?m)^(test_\w+ \([\w.]+\))(?:\n.*?)? \.\.\. (?:.*\n)*?.*?\b(ok|FAIL|ERROR|skipped)\b`), name1: 1, least: least, known: pythonKnown,
			}.test(t)
		})
	}
}

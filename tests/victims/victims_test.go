package victims_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/victims"
)

// TestBuild compiles every victim and runs each once.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	if err := victims.Build(dir); errors.Is(err, victims.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{victims.Victim, victims.Linked} {
		out, _ := exec.Command(filepath.Join(dir, name), "call", "39").Output()
		if !strings.HasPrefix(string(out), "call 39: ret=") {
			t.Errorf("%s call 39: got %q", name, out)
		}
	}
	for _, argv := range [][]string{{victims.Bare, "/proc/self/comm"}, {victims.Opens, "cat", "/proc/self/comm"}} {
		out, err := exec.Command(filepath.Join(dir, argv[0]), argv[1:]...).Output()
		if err != nil || !strings.Contains(string(out), argv[0]) {
			t.Errorf("%v: got %q, %v", argv, out, err)
		}
	}
}

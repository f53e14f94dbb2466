package spawn

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNameAlone: whoever is called as init is, and was not started by a supervisor,
// fails and says so. It must not look as if a command had been run.
func TestNameAlone(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, extra := range map[string][]*os.File{"no descriptor": nil, "another one": {file}} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args, cmd.ExtraFiles = []string{InitName, "run", "--", "true"}, extra
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 125 || !strings.Contains(string(out), "call reeve by another") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestBuildEnvelope: an envelope that is built in holds in whatever directory and
// under whatever profile, one that is not right is not built in, and a build
// without one has none.
func TestBuildEnvelope(t *testing.T) {
	trial.NeedProgram(t, "make")
	dir := t.TempDir()
	build := func(name, envelope string) (reeve, out string, err error) {
		reeve = filepath.Join(dir, name)
		args := []string{"build", "BIN=" + reeve}
		if envelope != "" {
			put(t, reeve+".toml", envelope)
			args = append(args, "ENVELOPE="+reeve+".toml")
		}
		cmd := exec.Command("make", args...)
		cmd.Dir = source(t)
		text, err := cmd.CombinedOutput()
		return reeve, string(text), err
	}
	ask := func(reeve string) string {
		cmd := exec.Command(reeve, "--state", filepath.Join(dir, "state"), "policy", "explain", "--profile", "observe", "open", "/srv/x")
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		out, _ := cmd.CombinedOutput() // the status is the decision
		return string(out)
	}
	const envelope = "default_permissions = \"corp\"\n[permissions.corp.filesystem]\n\"/srv\" = \"deny\"\n"
	with, out, err := build("with", envelope)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := ask(with); !strings.HasPrefix(got, "deny") || !strings.Contains(got, "envelope built into reeve:3:1") {
		t.Errorf("with an envelope: %s", got)
	}
	without, out, err := build("without", "")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := ask(without); !strings.HasPrefix(got, "allow") {
		t.Errorf("control, without one: %s", got)
	}
	for text, want := range map[string]string{
		strings.Replace(envelope, "deny", "dney", 1):                `envelope.toml:3:10: permissions.corp.filesystem."/srv" is "dney"; did you mean "deny"`,
		strings.Replace(envelope, "default_permissions", "#", 1):    "does not say which one holds",
		strings.Replace(envelope, "\"corp\"", "\"corporation\"", 1): "which is not there",
		" \n": "is empty",
	} {
		broken, out, err := build("broken", text)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v, want %q: %s", text, err, want, out)
		}
		if _, err := os.Stat(broken); err == nil {
			t.Errorf("%q: a binary was built", text)
		}
	}
}

package escapes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// hostEtc is a copy of /etc with an envelope in it, which the returned words, in
// front of a command, mount over /etc for that command alone.
func hostEtc(t *testing.T, g *trial.Ground, envelope string, as []string) (etc string, wrap []string) {
	t.Helper()
	trial.NeedProgram(t, "unshare")
	etc = filepath.Join(t.TempDir(), "etc")
	if out, err := exec.Command("cp", "-a", "/etc", etc).CombinedOutput(); err != nil {
		t.Fatalf("copy /etc: %v: %s", err, out)
	}
	if err := os.RemoveAll(etc + "/reeve"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(etc+"/reeve", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(etc+"/reeve/envelope.toml", []byte(g.Expand(envelope)), 0o644); err != nil {
		t.Fatal(err)
	}
	return etc, append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" /etc && exec "$@"`, etc}, as...)
}

const hostEnvelope = `default_permissions = "corp"
[permissions.corp.filesystem]
"{ws}/p1/x" = "deny"
[permissions.corp.env]
deny = ["CORP_*"]
`

// TestEnvelopeOfTheHost: what the envelope in /etc denies stays denied under the
// widest profile, a file that opens everything, and whatever the environment
// says; one that a user could have written starts nothing.
func TestEnvelopeOfTheHost(t *testing.T) {
	trial.NeedRoot(t)
	for _, tier := range []struct {
		name string
		as   []string
	}{{"root", nil}, {"user", []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}}} {
		t.Run(tier.name, func(t *testing.T) {
			g := trial.NewGround(t, tier.as != nil)
			g.Cred = nil // root mounts, and becomes the user afterwards
			etc, wrap := hostEtc(t, g, hostEnvelope, tier.as)
			wide := filepath.Join(g.Base, "wide.toml")
			if err := os.WriteFile(wide, []byte("default_permissions = \"corp\"\n[permissions.corp]\nextends = \":observe\"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			run := func(wrap []string, flags ...string) *trial.Result {
				env := []string{"REEVE_ENVELOPE=/dev/null", "XDG_CONFIG_DIRS=/nonexistent", "CORP_TOKEN=x"}
				line := g.Command(trial.Options{Flags: flags}, "sh", "-c", "cat {ws}/p1/x/f; cat {ws}/sub/deep/note.txt; env")
				return g.Native(trial.Options{Env: env, Wrap: wrap}, line...)
			}
			for _, flags := range [][]string{{"--profile", "observe"}, {"--policy", wide}, {"--policy", wide, "--profile", "corp"}} {
				if r := run(tier.as, flags...); !strings.Contains(r.Text(), "fine") {
					t.Errorf("control %q: %d: %s", flags, r.Status, r.Text())
				}
				r := run(wrap, flags...)
				if strings.Contains(r.Text(), "fine") || !strings.Contains(r.Text(), "note") || !strings.Contains(r.Text(), "p1/x/f: Permission denied") {
					t.Errorf("%q: %d: %s", flags, r.Status, r.Text())
				}
				if strings.Contains(r.Stdout, "CORP_TOKEN") {
					t.Errorf("%q: a variable that the envelope denies: %s", flags, r.Text())
				}
			}
			for _, v := range []string{"CORP_TOKEN", "CORP_TOKEN=y"} {
				if r := run(wrap, "--env", v); r.Status != 125 || !strings.Contains(r.Stderr, "the envelope keeps this variable") {
					t.Errorf("--env %s: %d: %s", v, r.Status, r.Text())
				}
			}
			if err := os.Chown(etc+"/reeve/envelope.toml", 65534, 65534); err != nil {
				t.Fatal(err)
			}
			if r := run(wrap); r.Status != 125 || !strings.Contains(r.Stderr, "others than root can write /etc/reeve/envelope.toml") || strings.Contains(r.Stdout, "note") {
				t.Errorf("a user's envelope: %d: %s", r.Status, r.Text())
			}
		})
	}
}

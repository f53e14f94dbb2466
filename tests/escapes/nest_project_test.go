package escapes_test

import (
	"os"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestNestedProject: the policy that comes with a workspace narrows a session that is
// begun there inside another, as it does one that is begun outside, and nothing is
// told of what the session may not read.
func TestNestedProject(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		own := func(dir, text string) {
			if err := os.Mkdir(g.Workspace+"/"+dir, 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, g.Workspace+"/"+dir+"/kept", "plain\n", 0o644)
			if text != "" {
				writeFile(t, g.Workspace+"/"+dir+"/.reeve.toml", text, 0o644)
			}
		}
		own("free", "")
		own("proj", "[permissions.workspace-edit-no-net]\nextends = \":workspace-edit-no-net\"\n"+
			"[permissions.workspace-edit-no-net.filesystem]\n\""+g.Workspace+"/proj/kept\" = \"deny\"\n")
		own("faulty", "[permissions\n")
		own("leads", "")
		own("astray", "")
		for dir, target := range map[string]string{"leads": "../.env", "astray": "gone"} {
			if err := os.Symlink(target, g.Workspace+"/"+dir+"/.reeve.toml"); err != nil {
				t.Fatal(err)
			}
		}
		for script, want := range map[string]string{
			`cd free && $R run -q -- cat kept`:                            "plain",
			`cat proj/kept; $R run -q -- cat proj/kept`:                   "plain\nplain", // the policy is about the session's own workspace
			`cd proj && $R run -q -- cat kept`:                            "kept: Permission denied",
			`$R run -q --workspace proj -- cat proj/kept`:                 "kept: Permission denied",
			`$R run -q --env R -- sh -c 'cd proj; $R run -q -- cat kept'`: "kept: Permission denied",
			`cd faulty && $R run -q -- cat kept`:                          ".reeve.toml:1",
			`cd leads && $R run -q -- cat kept`:                           "leads/.reeve.toml: permission denied",
			`cd astray && $R run -q -- cat kept`:                          "it leads nowhere",
		} {
			r, _ := inside(t, g, trial.Options{}, script)
			g.KeptSecret(r)
			if !strings.Contains(r.Stdout+r.Stderr, want) || !strings.Contains(want, "plain") && strings.Contains(r.Stdout, "plain") {
				t.Errorf("%s: status %d: %s", script, r.Status, r.Text())
			}
		}
	})
}

package escapes_test

import (
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestMountedTwice: what a bind mount from before the session shows is judged, and
// recorded, by the name that it is opened by; where that opens what a rule closes, the session says so.
func TestMountedTwice(t *testing.T) {
	trial.NeedRoot(t)
	for _, program := range []string{"unshare", "mount"} {
		trial.NeedProgram(t, program)
	}
	bound := []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind {ws}/p2/x/f {ws}/p1/x/f && exec "$@"`, "sh"}
	const gap = "{ws}/p1/x/f also stands at {ws}/p2/x/f"
	for _, c := range []struct {
		name string
		wrap []string
		want bool
	}{{"bound", bound, true}, {"not bound", nil, false}} {
		t.Run(c.name, func(t *testing.T) {
			g := trial.NewGround(t, false)
			o := trial.Options{Policy: true, Wrap: c.wrap}
			read := []string{"/bin/cat", "{ws}/p1/x/f"}
			native := g.Native(o, read...)
			r := g.Supervised(o, read...)
			if native.Stdout != r.Stdout || native.Status != 0 || r.Status != 0 {
				t.Fatalf("natively %s, under reeve %s", native.Text(), r.Text())
			}
			if secret := strings.Contains(r.Stdout, g.Token); secret != c.want {
				t.Errorf("secret %v: %s", secret, r.Text())
			}
			if told := strings.Contains(manifest(r), g.Expand(gap)); told != c.want {
				t.Errorf("told %v: %s", told, manifest(r))
			}
			opened := false
			for _, e := range r.Events {
				opened = opened || e.Op == "open" && e.Object.Path == g.Expand("{ws}/p1/x/f") && e.Action == "allow"
			}
			if !opened {
				t.Error("the open is not recorded by the name that it was opened by")
			}
		})
	}
}

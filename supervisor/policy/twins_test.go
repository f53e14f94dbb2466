package policy

import (
	"strings"
	"testing"
)

// TestTwins: what a mount shows in two places is told where a rule closes one of them and
// the other is open.
func TestTwins(t *testing.T) {
	const home = "/home/u"
	p := load(t, "", Source{Name: "p.toml", Layer: Session, Text: []byte(`
default_permissions = "x"
[permissions.x]
extends = ":workspace"
[permissions.x.filesystem]
"/srv/pub" = "read"
"/srv/pub/closed" = "deny"
"/data" = "read"
[permissions.x.filesystem.":workspace_roots"]
"closed" = "deny"
"kept" = "read"
`)})
	for _, c := range []struct{ path, other, want string }{
		{home + "/ws/a", home + "/ws/b", ""},
		{home + "/ws/a", home + "/ws/closed", "/ws/a also stands at " + home + "/ws/closed:"},
		{home + "/ws/closed", home + "/ws/a", "/ws/a also stands at " + home + "/ws/closed:"}, // whichever was mounted
		{home + "/ws/a", home + "/ws/closed/deep/er", "/ws/a also stands at "},
		{home + "/ws/a", home + "/ws/kept", "session write it"},
		{home + "/ws/a", home + "/ws/sub/.env", "session read it"},
		{home + "/ws/.env", home + "/ws/sub/.env", ""},                             // closed by either
		{home + "/ws/a", home + "/other", ""},                                      // nothing names the other
		{home + "/ws/a", home + "/.ssh", "/ws/a also stands at " + home + "/.ssh"}, // a place of secrets
		{"/data", "/srv/pub", "/data/closed also stands at /srv/pub/closed"},
		{"/elsewhere", home + "/ws/closed", ""}, // not open either
		{"/", "/mnt/root", ""},
	} {
		got := strings.Join(p.Twins([]Twin{{c.path, c.other}}), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s and %s: %q, want %q", c.path, c.other, got, c.want)
		}
	}
	if got := load(t, "observe").Twins([]Twin{{home + "/ws/a", home + "/.ssh"}}); got != nil {
		t.Errorf("observe, which holds nothing: %q", got)
	}
}

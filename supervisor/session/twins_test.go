package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

func TestTwin(t *testing.T) {
	for _, c := range []struct {
		mounts string // device, root, point
		want   policy.Twin
	}{
		{"8:1 /a /m | 8:1 / /", policy.Twin{Path: "/m", Other: "/a"}},
		{"8:1 /a/b /m | 8:1 /a /srv/x", policy.Twin{Path: "/m", Other: "/srv/x/b"}},
		{"8:1 / /m | 8:1 / /", policy.Twin{Path: "/m", Other: "/"}},
		{"8:1 / / | 8:1 / /m", policy.Twin{Path: "/", Other: "/m"}},
		{`8:1 /with\040blank /m\134n | 8:1 / /`, policy.Twin{Path: `/m\n`, Other: "/with blank"}},
		{"8:1 /ab /m | 8:1 /a /srv", policy.Twin{}},
		{"8:1 / /m | 8:1 /a /srv", policy.Twin{}},
	} {
		var text strings.Builder
		for m := range strings.SplitSeq(c.mounts, " | ") {
			text.WriteString("1 2 " + m + " rw - ext4 /dev/x rw\n")
		}
		list, err := parseMounts(text.String())
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := twin(list[0], list[1]); got != c.want || ok != (c.want != policy.Twin{}) {
			t.Errorf("%s: %+v, %v, want %+v", c.mounts, got, ok, c.want)
		}
	}
	if _, err := parseMounts("1 2 8:1\n"); err == nil {
		t.Error("a line that is cut is read")
	}
	if list, err := Twins(); err != nil || slices.ContainsFunc(list, func(t policy.Twin) bool { return t.Path == t.Other }) {
		t.Errorf("this machine: %v, %v", list, err)
	}
}

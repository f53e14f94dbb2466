package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// TestCalls is the table of trapped calls of each profile under the engine lsm.
func TestCalls(t *testing.T) {
	var b strings.Builder
	for _, name := range policy.BuiltInProfiles() {
		p, err := policy.Load(nil, name, policy.Host{Home: "/root", Tmp: "/tmp/reeve-SESSION", StateDir: "/var/lib/reeve", Workspaces: []string{"/ws"}})
		if err != nil {
			t.Fatal(err)
		}
		alone := ""
		for _, terms := range []policy.Terms{{}, {Asked: true}} {
			plan, err := p.LowerHooks(terms)
			if err != nil {
				t.Fatal(err)
			}
			var table strings.Builder
			printCalls(&table, &plan)
			if table.String() != alone {
				fmt.Fprintf(&b, "%s, %s\n%s\n", name, map[bool]string{true: "somebody to ask", false: "nobody to ask"}[terms.Asked], table.String())
			}
			alone = table.String()
		}
	}
	const file = "testdata/calls.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the table of trapped calls is another one: go test ./cmd/reeve -run TestCalls -update, and look at the difference\n%s", got)
	}
}

package early

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestIsRun(t *testing.T) {
	for line, want := range map[string]bool{
		"reeve run -- true":                 true,
		"reeve --state /x run true":         true,
		"reeve --state=/x run true":         true,
		"reeve":                             false,
		"reeve sessions ls run":             false,
		"reeve --version run":               false,
		"reeve --state run":                 false,
		"reeve __complete run":              false,
		"reeve-init run":                    false,
		"reeve events --op exec --path run": false,
	} {
		if got := isRun(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	if isRun(nil) {
		t.Error("no words at all are taken for a run")
	}
}

// TestImports: what is set up early needs packages that are. Go takes those that
// are ready in the order of their paths, so that one more import may mean to wait
// for a hundred packages.
func TestImports(t *testing.T) {
	known := []string{"errors", "os", "os/signal", "runtime", "sync/atomic", "syscall", "github.com/reeve-audit/reeve/tracer/spawn/headstart"}
	for _, file := range []string{"early.go", "../../../tracer/spawn/headstart/headstart.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			if name := strings.Trim(spec.Path.Value, `"`); !slices.Contains(known, name) {
				t.Errorf("%s imports %s: see GODEBUG=inittrace=1 what that costs", file, name)
			}
		}
	}
}

package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func testApp() stdio { return stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard} }

func TestArrange(t *testing.T) {
	for in, want := range map[string]string{
		"reeve":                                    "reeve",
		"reeve --version":                          "reeve --version",
		"reeve replay last --tree":                 "reeve replay --tree last",
		"reeve replay --tree last":                 "reeve replay --tree last",
		"reeve replay last --speed 2 --state /s":   "reeve --state /s replay --speed 2 last",
		"reeve replay last --speed=2":              "reeve replay --speed=2 last",
		"reeve --state /s sessions show last":      "reeve --state /s sessions show last",
		"reeve sessions show last --state=/s":      "reeve --state=/s sessions show last",
		"reeve events last --unknown x":            "reeve events --unknown last x",
		"reeve policy explain open /x --profile p": "reeve policy explain --profile p open /x",
		"reeve verify -- --tree":                   "reeve verify -- --tree",
		"reeve verify -":                           "reeve verify -",
		"reeve replay last --speed":                "reeve replay --speed last",
		"reeve nonsense --state /s":                "reeve --state /s nonsense",
		"reeve run --state /s -- ls --state x":     "reeve --state /s run -- ls --state x",
		"reeve run ls --state x":                   "reeve run ls --state x",
		"reeve __complete --state x --tree --":     "reeve __complete --state x --tree --",
		"reeve run -- sh -c x -- y":                "reeve run -- sh -c x -- y",
	} {
		got := strings.Join(arrange(newApp(testApp()), strings.Fields(in)), " ")
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// Arranging moves words, and may add a "--" that was there; it never loses or
// invents one.
func FuzzArrange(f *testing.F) {
	f.Add("replay last --tree")
	f.Add("run --state x -- sh -c y")
	f.Add("--state policy check x --expand")
	f.Fuzz(func(t *testing.T, line string) {
		words := append([]string{"reeve"}, strings.Fields(line)...)
		got := arrange(newApp(testApp()), slices.Clone(words))
		if i := slices.Index(words, "run"); i == 1 && got[1] != "run" && !strings.HasPrefix(got[1], "-") {
			t.Errorf("%q became %q", words, got)
		}
		slices.Sort(words)
		slices.Sort(got)
		if !slices.Equal(words, got) {
			t.Errorf("%q became %q", words, got)
		}
	})
}

func TestComplete(t *testing.T) {
	t.Setenv("REEVE_STATE", t.TempDir())
	for in, want := range map[string]string{
		"":                             "run asks sessions events replay verify policy doctor collect completion",
		"re":                           "replay",
		"sessions ":                    "ls show export rm",
		"sessions show ":               "last",
		"replay --sp":                  "--speed",
		"events --action ":             "allow ask deny",
		"events --action d":            "deny",
		"completion ":                  "bash fish zsh",
		"run -- l":                     "",
		"run ls --st":                  "",
		"--state /tmp pol":             "policy",
		"policy explain --profile obs": "observe",
		"events --op conn":             "connect",
	} {
		got := strings.Join(complete(newApp(testApp()), strings.Split(in, " ")), " ")
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	list := []skip{{regexp.MustCompile("no lsm"), "engine lsm"}}
	const start = `{"Action":"start","Package":"p"}` + "\n"
	const ok = `{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
	test := func(name, action string, said ...string) string {
		out := `{"Action":"run","Package":"p","Test":"` + name + `"}` + "\n"
		for _, s := range append([]string{"=== RUN   " + name}, said...) {
			out += `{"Action":"output","Package":"p","Test":"` + name + `","Output":"` + s + `\n"}` + "\n"
		}
		return out + `{"Action":"` + action + `","Package":"p","Test":"` + name + `"}` + "\n"
	}
	for _, c := range []struct {
		name, in string
		any      bool
		out, err string
	}{
		{"passes", start + test("TestA", "pass", "    a_test.go:1: hello") + ok, false, "ok  \tp\t0.1s\n", ""},
		{"expected", start + test("TestA", "skip", "    a_test.go:1: no lsm") + ok, false, "ok  \tp\t0.1s\nskipped as expected: 1, engine lsm\n", ""},
		{
			"unexpected", start + test("TestA", "skip", "    a_test.go:1: skip [x]: no x", "--- SKIP: TestA (0.00s)") + ok, false,
			"ok  \tp\t0.1s\nskipped: p TestA: a_test.go:1: skip [x]: no x\n", "1 tests were skipped",
		},
		{"let", start + test("TestA", "skip", "    a_test.go:1: skip [x]: no x") + ok, true, "ok  \tp\t0.1s\nskipped: p TestA: a_test.go:1: skip [x]: no x\n", ""},
		{"no reason", start + test("TestA", "skip", "--- SKIP: TestA (0.00s)") + ok, false, "ok  \tp\t0.1s\nskipped: p TestA: no reason given\n", "1 tests"},
		{
			"fails", start + test("TestA", "fail", "    a_test.go:1: wrong", "--- FAIL: TestA (0.00s)") + `{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}` + "\n" +
				`{"Action":"fail","Package":"p"}` + "\n", true, "    a_test.go:1: wrong\n--- FAIL: TestA (0.00s)\nFAIL\tp\t0.1s\n", "tests failed",
		},
		{
			"dies", start + `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: x\n"}` + "\n" + `{"Action":"fail","Package":"p"}` + "\n", false, "panic: x\n", "tests failed",
		},
		{"is not built", `{"ImportPath":"p","Action":"build-output","Output":"a.go:1: wrong\n"}` + "\n" + `{"ImportPath":"p","Action":"build-fail"}`, false, "a.go:1: wrong\n", "tests failed"},
		{"is not json", "go: no such module\n{}\n", false, "go: no such module\n{}\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			l := log{out: &out, said: map[name][]string{}, skipped: map[name]string{}}
			if err := l.read(strings.NewReader(c.in)); err != nil {
				t.Fatal(err)
			}
			err := l.sum(list, c.any)
			if out.String() != c.out {
				t.Errorf("printed %q, want %q", out.String(), c.out)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

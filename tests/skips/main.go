// Command skips reads what `go test -json` says, prints of it what `go test` would, and at
// the end which tests were skipped and why. A skip for a reason that is not among the
// expected ones is an error: nothing goes untested unseen.
//
//	go test -json ./... | go run ./tests/skips [-any]
//
// The exit status is 1 for a skip that nobody expects, unless -any lets every test
// skip, and for a failed test or package, so that it stands without the shell's pipefail too.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// A step is one line of test2json's (go doc test2json).
type step struct {
	Action, Package, Test, Output string
	ImportPath                    string // of what was built, instead of Package
}

type name struct{ pkg, test string }

// A log is what tests have said so far.
type log struct {
	out io.Writer
	// said is the output of the tests, and of the packages apart from their tests,
	// of which it is not known yet whether anybody need read it.
	said    map[name][]string
	skipped map[name]string // with the reason
	failed  bool
}

func main() {
	anySkip := flag.Bool("any", false, "let every test skip")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	l := log{out: out, said: map[name][]string{}, skipped: map[name]string{}}
	err := l.read(os.Stdin)
	if err == nil {
		err = l.sum(expected(os.Geteuid() == 0), *anySkip)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

func (l *log) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		var s step
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &s) != nil || s.Action == "":
			fmt.Fprint(l.out, line) // not test2json's: of go itself
		default:
			l.take(s)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read go test's output: %w", err)
		}
	}
}

func (l *log) take(s step) {
	at := name{s.Package, s.Test}
	switch s.Action {
	case "build-output":
		fmt.Fprint(l.out, s.Output)
	case "build-fail":
		l.failed = true
	case "output":
		l.said[at] = append(l.said[at], s.Output)
	case "pass", "skip", "fail":
		if s.Action == "fail" {
			l.failed = true
		}
		if s.Test == "" {
			l.end(at, s.Action == "fail")
			break
		}
		switch s.Action {
		case "fail":
			l.print(at)
		case "skip":
			l.skipped[at] = reason(l.said[at])
		}
		delete(l.said, at)
	}
}

// end prints what go test prints of a package.
func (l *log) end(pkg name, failed bool) {
	if failed {
		// A package that dies leaves tests without an end.
		for _, at := range slices.SortedFunc(maps.Keys(l.said), func(a, b name) int { return strings.Compare(a.test, b.test) }) {
			if at.pkg == pkg.pkg && at.test != "" {
				l.print(at)
			}
		}
	}
	for _, line := range l.said[pkg] {
		if failed || strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "? ") {
			fmt.Fprint(l.out, line)
		}
	}
	maps.DeleteFunc(l.said, func(at name, _ []string) bool { return at.pkg == pkg.pkg })
	if out, ok := l.out.(*bufio.Writer); ok {
		_ = out.Flush() // its error stays for the last one
	}
}

func (l *log) print(at name) {
	for _, line := range l.said[at] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(l.out, line)
		}
	}
}

// reason is the last thing that a skipped test said, which may take some lines.
func reason(said []string) string {
	text := strings.Join(slices.DeleteFunc(slices.Clone(said), func(line string) bool {
		line = strings.TrimSpace(line)
		return strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ")
	}), "")
	if text = strings.TrimSpace(text); text == "" {
		return "no reason given"
	}
	return text
}

// sum states the skips by what is expected, and those that are not by name.
func (l *log) sum(list []skip, anySkip bool) error {
	counts, unexpected := make([]int, len(list)), 0
	for _, at := range slices.SortedFunc(maps.Keys(l.skipped), func(a, b name) int {
		return strings.Compare(a.pkg+" "+a.test, b.pkg+" "+b.test)
	}) {
		why := l.skipped[at]
		i := slices.IndexFunc(list, func(s skip) bool { return s.reason.MatchString(why) })
		if i >= 0 {
			counts[i]++
			continue
		}
		unexpected++
		fmt.Fprintf(l.out, "skipped: %s %s: %s\n", at.pkg, at.test, why)
	}
	for i, s := range list {
		if counts[i] > 0 {
			fmt.Fprintf(l.out, "skipped as expected: %d, %s\n", counts[i], s.why)
		}
	}
	switch {
	case l.failed:
		return errors.New("tests failed")
	case unexpected > 0 && !anySkip:
		return fmt.Errorf("%d tests were skipped that are expected to run here (tests/scripts/deps installs programs; tests/skips/expected.go says what may be missing; `make test REQUIRE=` lets all skip)", unexpected)
	}
	return nil
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// runner runs the test binaries of several packages one after another, as go test
// does: each in its directory, with go test's own line behind it. What one leaves in
// the machine is there for the next.
const runner = `status=0
end=$(($(date +%%s) + %d))
while read -r name dir package pattern; do
	cd "$dir" || exit 125
	began=$(date +%%s)
	if "/vm/tests/$name" -test.paniconexit0 -test.timeout="$((end - began))s" ${pattern:+-test.run "$pattern"} "$@" </dev/null; then result=ok; else result=FAIL status=1; fi
	printf '%%s\t%%s\t%%ds\n' "$result" "$package" $(($(date +%%s) - began))
done </vm/packages
exit $status
`

// packageTests builds the tests of the packages and takes them along; it returns the
// command that runs them with further arguments.
func (m *machine) packageTests(img *image, p *project) ([]string, error) {
	dir := filepath.Join(p.cache, "tests") + "/" // what is up to date is not linked again
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var paths []string
	patterns := map[string]string{} // by the package's directory
	for _, word := range m.packages {
		path, pattern, _ := strings.Cut(word, "=")
		if strings.ContainsAny(pattern, " \t\n") {
			return nil, fmt.Errorf("tests of %s: a blank in %q", path, pattern)
		}
		paths, patterns[filepath.Join(p.here, path)] = append(paths, path), pattern
	}
	if _, err := p.goTool("test", append([]string{"-c", "-o", dir}, paths...)...); err != nil {
		return nil, err
	}
	list, err := p.goTool("list", append([]string{"-f", "{{.Dir}} {{.ImportPath}}"}, paths...)...)
	if err != nil {
		return nil, err
	}
	var lines strings.Builder
	for line := range strings.Lines(list) {
		at, importPath, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := filepath.Base(importPath) + ".test"
		if _, err := os.Stat(dir + name); err != nil {
			return nil, fmt.Errorf("%s has no tests: %w", importPath, err)
		}
		img.copy("/vm/tests/"+name, dir+name)
		img.dir(at, 0o755)
		if data := filepath.Join(at, "testdata"); isDir(data) {
			img.tree(data, data)
		}
		fmt.Fprintln(&lines, name, at, importPath, patterns[at])
	}
	img.text("/vm/packages", lines.String(), 0o644)
	script := fmt.Sprintf(runner, int((m.limit - grace).Seconds()))
	return append([]string{"/usr/bin/bash", "-c", script, "tests"}, m.argv...), nil
}

// goTool runs the go command where we were started and returns what it prints.
func (p *project) goTool(verb string, args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{verb}, args...)...)
	cmd.Dir, cmd.Env = p.here, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s %s: %w\n%s", verb, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

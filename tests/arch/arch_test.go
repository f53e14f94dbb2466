// Package arch_test holds the project to its own shape: which package may
// import which (floors), which may use a library that others must not see
// (doors), what stands at the top, how long a file may be, and where unsafe is
// spoken. It parses the files; it builds nothing and runs nothing.
package arch_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/reeve-audit/reeve"
	// longest is how many lines a hand-written file may have. Tables of tests
	// and generated files may be longer.
	longest = 400
)

// A source is one parsed Go file of the project.
type source struct {
	file string // from the project's root, with slashes
	dir  string
	test bool
	// generated is set for files that say so, and for data in Go's clothes.
	generated bool
	imports   []string
	lines     int
	name      string // the package clause
	doc       string // the package comment, if this file has it
}

func sources(t *testing.T) []source {
	t.Helper()
	root := projectRoot(t)
	var out []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != root && (n[0] == '.' || n[0] == '_' || n == "node_modules" || n == "testdata" || n == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		s, err := parse(root, p)
		out = append(out, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files: this is not the project", len(out))
	}
	return out
}

func parse(root, p string) (source, error) {
	data, err := os.ReadFile(p)
	if err != nil {
		return source{}, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), p, data, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	rel, err := filepath.Rel(root, p)
	if err != nil {
		return source{}, err
	}
	file := filepath.ToSlash(rel)
	s := source{
		file: file, dir: path.Dir(file), test: strings.HasSuffix(file, "_test.go"), generated: ast.IsGenerated(f),
		lines: bytes.Count(data, []byte("\n")), name: f.Name.Name, doc: f.Doc.Text(),
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return s, err
		}
		s.imports = append(s.imports, name)
	}
	return s, nil
}

func projectRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if data, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(data, []byte("module "+module+"\n")) {
			return dir
		}
	}
	t.Fatal("no go.mod of the project above the test")
	return ""
}

// below says whether dir is one of the trees or inside one.
func below(dir string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return dir == tree || strings.HasPrefix(dir, tree+"/") })
}

// floors say what of ours a tree may import; the first that holds a directory
// counts. A tree may always import itself, save for leaves.
var floors = []struct {
	tree string
	leaf bool
	may  []string
}{
	{tree: "tracer/event", leaf: true},
	{tree: "tracer/automaton", leaf: true},
	{tree: "bpf", leaf: true},
	{tree: "tracer", may: []string{"tracer", "bpf"}},
	{tree: "supervisor", may: []string{"tracer", "supervisor"}},
	{tree: "pipeline", may: []string{"tracer/event", "pipeline"}},
	{tree: "storage", may: []string{"tracer/event", "storage"}},
	{tree: "cmd", may: []string{"cmd", "tracer", "supervisor", "pipeline", "storage"}},
	{tree: "tests", may: []string{"tests", "tracer", "supervisor", "pipeline", "storage"}},
	{tree: "grafana", may: []string{"grafana"}},
}

// violation is what is wrong with one import of one directory, or empty.
func floorViolation(dir, imported string) string {
	if imported != module && !strings.HasPrefix(imported, module+"/") {
		return ""
	}
	target := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
	for _, f := range floors {
		if !below(dir, f.tree) {
			continue
		}
		if target == dir && !f.leaf || below(target, f.may...) {
			return ""
		}
		if f.leaf {
			return f.tree + " is a leaf and imports nothing of ours"
		}
		return f.tree + " may import of ours only " + strings.Join(f.may, ", ")
	}
	return "no floor is laid for " + dir
}

// allowed in tests only: a black-box test of a package imports that package, and
// the tests of a store start its server.
func ownTest(s source, imported string) bool {
	if s.test && imported == module+"/tests/chserver" && below(s.dir, "storage") {
		return true
	}
	if !s.test || !strings.HasSuffix(s.name, "_test") {
		return false
	}
	return imported == module+"/"+s.dir
}

func TestFloors(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports {
			if why := floorViolation(s.dir, imported); why != "" && !ownTest(s, imported) {
				t.Errorf("%s imports %s: %s", s.file, imported, why)
			}
		}
	}
}

// doors say who alone may use a library.
var doors = []struct {
	library string
	trees   []string
}{
	{"github.com/cilium/ebpf", []string{"bpf", "tracer/lsm", "tracer/witness", "tracer/probe"}},
	{"github.com/elastic/go-seccomp-bpf", []string{"tracer/seccomp"}},
	{"github.com/landlock-lsm/go-landlock", []string{"tracer/landlock"}},
	{"github.com/nats-io", []string{"pipeline/bus"}},
	{"github.com/ClickHouse", []string{"storage/clickhouse"}},
	{"github.com/urfave/cli/v2", []string{"cmd"}},
}

func doorViolation(dir, imported string) string {
	for _, d := range doors {
		if (imported == d.library || strings.HasPrefix(imported, d.library+"/")) && !below(dir, d.trees...) {
			return "only " + strings.Join(d.trees, ", ") + " may use " + d.library
		}
	}
	return ""
}

func TestDoors(t *testing.T) {
	for _, s := range sources(t) {
		if s.test && below(s.dir, "tests") {
			continue // a black box may bring its own client
		}
		for _, imported := range s.imports {
			if why := doorViolation(s.dir, imported); why != "" {
				t.Errorf("%s imports %s: %s", s.file, imported, why)
			}
		}
	}
}

// unsafePackages alone may use unsafe; tests may, to build what they decode. Of
// bpf it is the one raw call of loader.go, of tracer/ring the words that are shared
// with the kernel, of tracer/automaton the numbers of a table that is mapped.
var unsafePackages = []string{"tracer/seccomp", "tracer/proc", "tracer/ring", "tracer/automaton", "bpf"}

func TestUnsafe(t *testing.T) {
	for _, s := range sources(t) {
		if slices.Contains(s.imports, "unsafe") && !s.test && !s.generated && !below(s.dir, unsafePackages...) {
			t.Errorf("%s imports unsafe: only %s may", s.file, strings.Join(unsafePackages, ", "))
		}
		if slices.Contains(s.imports, "C") {
			t.Errorf("%s uses cgo", s.file)
		}
	}
}

// top is what may stand at the project's root, apart from dotfiles.
var top = []string{
	"bpf", "cmd", "grafana", "pipeline", "storage", "supervisor", "tests", "tracer",
	"ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "go.mod", "go.sum",
}

// ignored is what tools leave at the root; version control does not keep it.
var ignored = []string{"bin", "node_modules", "coverage.out"}

// banned names of packages say nothing.
var banned = []string{"pkg", "internal", "util", "utils", "common", "helpers", "helper", "misc", "shared", "types"}

func TestTree(t *testing.T) {
	entries, err := os.ReadDir(projectRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		n := e.Name()
		if n[0] != '.' && !slices.Contains(top, n) && !slices.Contains(ignored, n) && !strings.HasSuffix(n, ".test") && !strings.HasSuffix(n, ".prof") {
			t.Errorf("%s stands at the root of the project", n)
		}
	}
	for _, s := range sources(t) {
		for part := range strings.SplitSeq(s.dir, "/") {
			if slices.Contains(banned, part) {
				t.Errorf("%s: %q says nothing about what is in it", s.file, part)
			}
		}
		if base := path.Base(s.file); slices.Contains(banned, strings.TrimSuffix(base, ".go")) {
			t.Errorf("%s: the file's name says nothing", s.file)
		}
	}
}

func TestLength(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > longest && !s.test && !s.generated {
			t.Errorf("%s has %d lines, the longest may have %d", s.file, s.lines, longest)
		}
	}
}

// TestPackageDocs: every package says in its first sentence what it is.
func TestPackageDocs(t *testing.T) {
	type pack struct{ dir, name string }
	docs := map[pack]string{}
	for _, s := range sources(t) {
		key := pack{s.dir, s.name}
		if s.test {
			continue
		}
		docs[key] += s.doc
	}
	for p, doc := range docs {
		want := "Package " + p.name + " "
		if p.name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(doc, want) {
			t.Errorf("%s: the package comment begins with %q, want %q", p.dir, firstLine(doc), want)
		}
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// TestRules: the rules above catch what they are for.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		dir, imported string
		ok            bool
	}{
		{"tracer/event", module + "/tracer/automaton", false},
		{"tracer/event", "fmt", true},
		{"tracer/gate", module + "/tracer/event", true},
		{"tracer/gate", module + "/supervisor/policy", false},
		{"tracer/witness", module + "/bpf", true},
		{"supervisor/policy", module + "/tracer", true},
		{"supervisor/policy", module + "/pipeline", false},
		{"pipeline/bus", module + "/tracer/event", true},
		{"pipeline", module + "/tracer/gate", false},
		{"pipeline", module + "/storage", false},
		{"storage/sqlite", module + "/storage", true},
		{"storage/sqlite", module + "/pipeline/bus", false},
		{"cmd/reeve", module + "/storage/sqlite", true},
		{"cmd/reeve", module + "/bpf", false},
		{"elsewhere", module + "/tracer", false},
		{"tracer/gate", "github.com/cilium/ebpf/link", false},
		{"tracer/witness", "github.com/cilium/ebpf/ringbuf", true},
		{"supervisor/session", "github.com/urfave/cli/v2", false},
		{"pipeline", "github.com/nats-io/nats.go", false},
	} {
		if got := floorViolation(c.dir, c.imported) + doorViolation(c.dir, c.imported); (got == "") != c.ok {
			t.Errorf("%s importing %s: %q, want allowed: %v", c.dir, c.imported, got, c.ok)
		}
	}
}

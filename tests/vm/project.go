package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/reeve-audit/reeve/tests/victims"
)

const module = "github.com/reeve-audit/reeve"

// A project is this source tree.
type project struct {
	root  string // has go.mod
	cache string // kernels and images; ignored by git
	here  string // where we were started
}

func findProject() (*project, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module "+module+"\n")) {
			p := &project{root: dir, cache: filepath.Join(dir, ".cache", "vm"), here: here}
			return p, os.MkdirAll(p.cache, 0o755)
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("find project: no go.mod of %s above %s", module, here)
		}
	}
}

// build compiles a command of the project without cgo.
func (p *project) build(pkg, to string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", to, module+"/"+pkg)
	cmd.Dir, cmd.Env = p.root, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// buildKit compiles reeve and the victims into dir.
func (p *project) buildKit(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := p.build("cmd/reeve", filepath.Join(dir, "reeve")); err != nil {
		return err
	}
	return victims.Build(dir)
}

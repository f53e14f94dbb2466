// Package victims is the set of small raw programs that tests run under
// supervision. Each tries one thing at the edge of the kernel and prints what
// came back; none knows that reeve exists. `victim` (C, static) holds the
// techniques, `bare` is assembly without a library, and the Go programs below
// this directory bring their own runtime.
package victims

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed c
var sources embed.FS

// ErrNoCompiler says that there is no C compiler to build the victims with.
var ErrNoCompiler = errors.New("no gcc on the PATH (hint: apt-get install gcc libc6-dev)")

// The programs that Build leaves in its directory.
const (
	Victim = "victim" // the techniques, static
	Linked = "linked" // the same, dynamically linked
	Bare   = "bare"   // cat(1) of 512 bytes, no library at all
	Opens  = "opens"  // Go, static: opens under garbage collection; os.Root
)

// goModule is where the Go victims stand, as import paths.
const goModule = "github.com/reeve-audit/reeve/tests/victims/"

// Build compiles every victim into dir, which must exist.
func Build(dir string) error {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return ErrNoCompiler
	}
	src, err := os.MkdirTemp("", "victims")
	if err != nil {
		return fmt.Errorf("make source directory: %w", err)
	}
	defer os.RemoveAll(src)
	if err := os.CopyFS(src, sources); err != nil {
		return fmt.Errorf("unpack victims: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(src, "c", "*.c"))
	if err != nil {
		return fmt.Errorf("list victims: %w", err)
	}
	flags := []string{"-O2", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
		"-Wno-clobbered", "-Wno-unused-result", "-pthread"}
	steps := [][]string{
		append(append([]string{gcc, "-static", "-o", filepath.Join(dir, Victim)}, flags...), files...),
		append(append([]string{gcc, "-o", filepath.Join(dir, Linked)}, flags...), files...),
		{gcc, "-nostdlib", "-static", "-o", filepath.Join(dir, Bare), filepath.Join(src, "c", "bare.S")},
		{"go", "build", "-o", filepath.Join(dir, Opens), goModule + Opens},
	}
	for _, argv := range steps {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build victims: %s: %w\n%s", argv[0], err, bytes.TrimSpace(out))
		}
	}
	return nil
}

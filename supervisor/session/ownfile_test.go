package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPlantedFiles: what is no file is an error at once, wherever it was put.
func TestPlantedFiles(t *testing.T) {
	for name, plant := range map[string]func(string) error{
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":      func(path string) error { return os.Symlink(os.DevNull, path) },
		"huge": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxOwnFile+1))
		},
	} {
		c := &Claim{Dir: t.TempDir()}
		for _, file := range []string{manifestName, targetName, lossName} {
			if err := plant(filepath.Join(c.Dir, file)); err != nil {
				t.Fatal(err)
			}
		}
		_, manifest := c.Manifest()
		_, target := c.Target()
		_, made := c.Made()
		if manifest == nil || target == nil || made == nil {
			t.Errorf("%s: manifest %v, target %v, loss %v", name, manifest, target, made)
		}
	}
}

package landlock

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes files (and, with a trailing slash, directories) below a new
// directory and returns it. "a->b" is a symbolic link, "a=b" a hard link.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		var err error
		link, target, isSym := strings.Cut(n, "->")
		hard, of, isHard := strings.Cut(n, "=")
		switch {
		case isSym:
			err = os.Symlink(target, filepath.Join(root, link))
		case isHard:
			err = os.Link(filepath.Join(root, of), filepath.Join(root, hard))
		case strings.HasSuffix(n, "/"):
			err = os.MkdirAll(filepath.Join(root, n), 0o755)
		default:
			if err = os.MkdirAll(filepath.Dir(filepath.Join(root, n)), 0o755); err == nil {
				err = os.WriteFile(filepath.Join(root, n), []byte("x"), 0o755)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestExpand(t *testing.T) {
	base := []string{"bin/a", "bin/b", "bin/c", "lib/x/y", "lib/x/z", "lib/w", "top"}
	tests := []struct {
		name          string
		extra         []string
		ground, holes []string
		want          []string
	}{
		{"no holes", nil, []string{"bin"}, nil, []string{"bin"}},
		{"a hole elsewhere", nil, []string{"bin"}, []string{"lib/w"}, []string{"bin"}},
		{"one file", nil, []string{"bin"}, []string{"bin/b"}, []string{"bin/a", "bin/c"}},
		{"a name that is a prefix", []string{"bin/bb"}, []string{"bin"}, []string{"bin/b"}, []string{"bin/a", "bin/bb", "bin/c"}},
		{"two levels", nil, []string{"."}, []string{"lib/x/y"}, []string{"bin", "lib/w", "lib/x/z", "top"}},
		{"a directory", nil, []string{"."}, []string{"lib"}, []string{"bin", "top"}},
		{"the ground itself", nil, []string{"bin"}, []string{"bin"}, nil},
		{"above the ground", nil, []string{"lib/x"}, []string{"lib"}, nil},
		{"a hole that does not exist", nil, []string{"bin"}, []string{"bin/q"}, []string{"bin/a", "bin/b", "bin/c"}},
		{"a hole below a file", nil, []string{"bin"}, []string{"bin/a/q"}, []string{"bin/a", "bin/b", "bin/c"}},
		{"ground that does not exist", nil, []string{"no"}, []string{"no/a"}, nil},
		{"overlapping ground", nil, []string{"bin", "bin/a"}, []string{"bin/b"}, []string{"bin/a", "bin/c"}},
		{"a symbolic link to the hole", []string{"bin/l->b"}, []string{"bin"}, []string{"bin/b"}, []string{"bin/a", "bin/c"}},
		{"a hard link to the hole", []string{"bin/l=bin/b"}, []string{"bin"}, []string{"bin/b"}, []string{"bin/a", "bin/c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, append(slices.Clone(base), tt.extra...)...)
			below := func(names []string) (out []string) {
				for _, n := range names {
					out = append(out, filepath.Join(root, n))
				}
				return out
			}
			got, err := Expand(below(tt.ground), below(tt.holes))
			if err != nil {
				t.Fatal(err)
			}
			if want := below(tt.want); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestExpandRefusesWhatItCannotList(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can list every directory")
	}
	root := tree(t, "d/a", "d/b")
	dir := filepath.Join(root, "d")
	if err := os.Chmod(dir, 0o311); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	if got, err := Expand([]string{root}, []string{filepath.Join(root, "d/a")}); err == nil {
		t.Errorf("granted %q without seeing what is there", got)
	}
}

// benchTree is a directory of 2,000 programs, as /usr/bin may be.
func benchTree(b *testing.B) (dir string, hole string) {
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprintf("bin/program-%04d", i)
	}
	root := tree(b, names...)
	return filepath.Join(root, "bin"), filepath.Join(root, "bin/program-1000")
}

func BenchmarkExpand2000(b *testing.B) {
	dir, hole := benchTree(b)
	for b.Loop() {
		if _, err := Expand([]string{dir}, []string{hole}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen2000(b *testing.B) {
	abi, err := ABI()
	if err != nil {
		b.Skip(err)
	}
	dir, hole := benchTree(b)
	paths, err := Expand([]string{dir}, []string{hole})
	if err != nil {
		b.Fatal(err)
	}
	s := Spec{HandledFS: Execute}
	for _, p := range paths {
		s.Paths = append(s.Paths, PathRule{Path: p, Access: Execute})
	}
	for b.Loop() {
		fd, _, err := s.Open(abi)
		if err != nil {
			b.Fatal(err)
		}
		_ = os.NewFile(uintptr(fd), "ruleset").Close()
	}
}

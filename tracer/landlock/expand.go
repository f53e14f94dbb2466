package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Expand lists the paths to grant so that everything below ground is granted but
// the holes: Landlock grants whole subtrees, so a directory with a hole below it
// is replaced by what it contains, level by level. All paths are absolute,
// resolved and clean; holes need not exist. The result is sorted, without
// duplicates.
//
// What is listed is what stands there now: a name made later in a directory that
// had to be replaced is not granted. Symbolic links are left out, because a rule
// on one would grant its target; so are hard links to a hole, because rules are
// kept by inode. Ground that does not exist is left out.
//
// A directory that cannot be listed is an error: nothing is granted by guess.
func Expand(ground, holes []string) ([]string, error) {
	x := expander{holes: slices.Clone(holes), linked: map[inode]bool{}}
	slices.Sort(x.holes)
	for _, h := range x.holes {
		var st unix.Stat_t
		if err := unix.Lstat(h, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
			x.linked[inode{st.Dev, st.Ino}] = true
		}
	}
	for _, g := range ground {
		if err := x.add(filepath.Clean(g)); err != nil {
			return nil, fmt.Errorf("expand %s: %w", g, err)
		}
	}
	slices.Sort(x.out)
	return slices.Compact(x.out), nil
}

type inode struct{ dev, ino uint64 }

type expander struct {
	holes  []string       // sorted
	linked map[inode]bool // holes that have other names
	out    []string
}

// add grants path, or what it contains if there is a hole below it. That path is
// no symbolic link has been seen by the caller, or is the caller's promise.
func (x *expander) add(path string) error {
	if x.isHole(path) || x.isLinked(path) {
		return nil
	}
	if !x.hasHoleBelow(path) {
		x.out = append(x.out, path)
		return nil
	}
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOTDIR): // nothing can be below a file
		x.out = append(x.out, path)
		return nil
	case err != nil:
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue
		}
		if err := x.add(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// isHole says whether path is a hole or below one.
func (x *expander) isHole(path string) bool {
	for p := path; ; p = filepath.Dir(p) {
		if _, ok := slices.BinarySearch(x.holes, p); ok {
			return true
		}
		if p == "/" || p == "." {
			return false
		}
	}
}

// hasHoleBelow says whether a hole is strictly below path.
func (x *expander) hasHoleBelow(path string) bool {
	prefix := strings.TrimSuffix(path, "/") + "/"
	i, _ := slices.BinarySearch(x.holes, prefix)
	return i < len(x.holes) && strings.HasPrefix(x.holes[i], prefix) && x.holes[i] != path
}

// isLinked says whether path is another name of a hole. Only asked for when some
// hole has several names, since it costs a stat for every entry.
func (x *expander) isLinked(path string) bool {
	if len(x.linked) == 0 {
		return false
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return true // gone or unreadable: not granted
	}
	return x.linked[inode{st.Dev, st.Ino}]
}

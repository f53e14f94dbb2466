package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Workspace is a directory the session works in.
type Workspace struct {
	// Path is absolute and resolved: what the policy's patterns are about.
	Path string
	// Notes are what a person should know about it, one clause each.
	Notes []string
}

// OpenWorkspace looks at the directory that a person named as a workspace. A
// symlink is followed once, here, and said; what it points to later does not
// matter any more.
func OpenWorkspace(dir string) (Workspace, error) {
	given, err := filepath.Abs(dir)
	if err != nil {
		return Workspace{}, fmt.Errorf("open workspace %s: %w", dir, err)
	}
	path, err := filepath.EvalSymlinks(given)
	if _, told := os.Stat(given); err != nil && told != nil {
		err = told // the kernel says it better
	}
	if errors.Is(err, os.ErrNotExist) {
		return Workspace{}, withHint(fmt.Errorf("open workspace %s: %w", dir, reason(err)),
			"create it first, or name another one with --workspace DIR")
	}
	if err != nil {
		return Workspace{}, fmt.Errorf("open workspace %s: %w", dir, reason(err))
	}
	info, err := os.Stat(path)
	if err != nil {
		return Workspace{}, fmt.Errorf("open workspace %s: %w", dir, reason(err))
	}
	if !info.IsDir() {
		return Workspace{}, withHint(fmt.Errorf("open workspace %s: %w", dir, unix.ENOTDIR),
			"a workspace is a directory; name the one the file is in")
	}
	ws := Workspace{Path: path}
	if path != given {
		ws.Notes = append(ws.Notes, fmt.Sprintf("workspace %s is %s (symlink followed)", dir, path))
	}
	if path == "/" {
		ws.Notes = append(ws.Notes, "workspace is the whole file system")
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		ws.Notes = append(ws.Notes, fmt.Sprintf("workspace %s is not writable: %v", dir, err))
	}
	return ws, nil
}

// WorkingDir is the directory the command starts in, resolved. A directory that
// was deleted under us has no path any more and is an error.
func WorkingDir() (string, error) {
	// Not os.Getwd, which believes $PWD: the kernel knows.
	var buf [unix.PathMax]byte
	n, err := unix.Getcwd(buf[:])
	if errors.Is(err, unix.ENOENT) {
		return "", withHint(errors.New("find working directory: it was deleted"), "cd to a directory that exists")
	}
	if err != nil {
		return "", fmt.Errorf("find working directory: %w", err)
	}
	dir := string(buf[:max(n-1, 0)])
	// getcwd(2) says "(unreachable)" for a directory outside our root.
	if !filepath.IsAbs(dir) {
		return "", withHint(errors.New("find working directory: it is not below the root directory"), "cd to another directory")
	}
	return dir, nil
}

package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The exit statuses of shells for a command that could not be run.
const (
	// StatusCannotExecute: it is there, but cannot be executed.
	StatusCannotExecute = 126
	// StatusNotFound: it is not there.
	StatusNotFound = 127
)

// CommandError says why a command cannot be run, with the exit status that a
// shell would give.
type CommandError struct {
	Name   string
	Status int
	Err    error
}

// Error names the command and the reason.
func (e *CommandError) Error() string { return fmt.Sprintf("run %q: %v", e.Name, e.Err) }

// Unwrap is the reason.
func (e *CommandError) Unwrap() error { return e.Err }

// errNotFound is the reason of a command that no directory of PATH has.
var errNotFound = errors.New("command not found")

// defaultPath is what execvp searches when the environment has no PATH.
const defaultPath = "/bin:/usr/bin"

// LookCommand finds the program that name stands for in the session's own PATH
// (not reeve's), for a task whose working directory is cwd. The answer is the
// path that execvp would hand to execve in cwd, relative where it is: a script
// sees it as $0. The error is a *CommandError.
func LookCommand(name, cwd string, env []string) (string, error) {
	if name == "" {
		return "", &CommandError{Name: name, Status: StatusNotFound, Err: errNotFound}
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", &CommandError{Name: name, Status: StatusNotFound, Err: unix.EINVAL}
	}
	if strings.ContainsRune(name, '/') {
		if _, err := checkExecutable(absolute(cwd, name)); err != nil {
			return "", &CommandError{Name: name, Status: statusOf(err), Err: err}
		}
		return name, nil
	}
	return searchPath(name, cwd, env)
}

// searchPath tries the directories in order. Like a shell it goes on past a file
// that cannot be executed, and reports that one only if nothing better comes.
func searchPath(name, cwd string, env []string) (string, error) {
	list, ok := lookupEnv(env, "PATH")
	if !ok {
		list = defaultPath
	}
	var blocked error
	for _, dir := range strings.Split(list, ":") {
		// An empty element means the working directory (POSIX, XBD 8.3).
		path := dir + "/" + name
		if dir == "" {
			path = "./" + name
		}
		there, err := checkExecutable(absolute(cwd, path))
		switch {
		case err == nil:
			return path, nil
		case !there, errors.Is(err, unix.EISDIR):
		case blocked == nil:
			blocked = fmt.Errorf("%s: %w", path, err)
		}
	}
	if blocked != nil {
		return "", &CommandError{Name: name, Status: StatusCannotExecute, Err: blocked}
	}
	return "", &CommandError{Name: name, Status: StatusNotFound, Err: errNotFound}
}

// checkExecutable answers for the user reeve runs as. When the command runs as
// somebody else the kernel has the last word at execve. What cannot be seen, such as in
// a directory that is closed to the user, is not there.
func checkExecutable(path string) (there bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, reason(err)
	}
	if info.IsDir() {
		return true, unix.EISDIR
	}
	if !info.Mode().IsRegular() {
		return true, unix.EACCES
	}
	return true, unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}

// reason strips "stat <path>" from an error: the caller names the command.
func reason(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

func statusOf(err error) int {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return StatusNotFound
	}
	return StatusCannotExecute
}

func absolute(cwd, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	// Not filepath.Join: it would fold "dir/.." away, which is wrong when dir is
	// a symlink.
	return strings.TrimSuffix(cwd, "/") + "/" + path
}

// lookupEnv is getenv(3) on a list: the first entry of a name counts.
func lookupEnv(env []string, name string) (string, bool) {
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

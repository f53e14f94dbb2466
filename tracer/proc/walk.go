package proc

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// walker resolves a path one component at a time, as the task would.
type walker struct {
	view  *View
	links int
}

// step is what remains to be walked.
type step struct {
	cur  int // O_PATH of where we are
	rest []string
}

func (w *walker) walk(base int, path string, flags int) (int, error) {
	asDir := strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.")
	wantDir := flags&unix.O_DIRECTORY != 0 || asDir
	follow := flags&unix.O_NOFOLLOW == 0 || asDir
	s := step{rest: components(path)}
	var err error
	if s.cur, err = start(base, path); err != nil {
		return -1, err
	}
	for len(s.rest) > 0 {
		if err := w.next(&s, follow); err != nil {
			unix.Close(s.cur)
			return -1, err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.cur, &st); err != nil {
		unix.Close(s.cur)
		return -1, err
	}
	if wantDir && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		unix.Close(s.cur)
		return -1, unix.ENOTDIR
	}
	return s.cur, nil
}

func start(base int, path string) (int, error) {
	if strings.HasPrefix(path, "/") {
		return unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	return unix.Openat(base, ".", unix.O_PATH|unix.O_CLOEXEC, 0)
}

func components(path string) []string {
	var out []string
	for c := range strings.SplitSeq(path, "/") {
		if c != "" && c != "." {
			out = append(out, c)
		}
	}
	return out
}

// next takes one component.
func (w *walker) next(s *step, follow bool) error {
	name := s.rest[0]
	s.rest = s.rest[1:]
	atProcRoot := procRoot(s.cur)
	if atProcRoot {
		switch name {
		case "self":
			name = strconv.Itoa(w.view.Thread.TGID)
		case "thread-self":
			name = strconv.Itoa(w.view.Thread.TGID)
			s.rest = append([]string{"task", strconv.Itoa(w.view.Thread.TID)}, s.rest...)
		}
	}
	fd, err := unix.Openat(s.cur, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.EACCES && onProcfs(s.cur) { // a stranger's /proc/PID/fd
		if strange := w.strange(s, name); strange != nil {
			err = strange
		}
	}
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK && (len(s.rest) > 0 || follow) {
		unix.Close(fd)
		return w.link(s, name, atProcRoot)
	}
	unix.Close(s.cur)
	s.cur = fd
	return nil
}

// link follows the symbolic link name in the current directory.
func (w *walker) link(s *step, name string, atProcRoot bool) error {
	if w.links++; w.links > maxSymlinks {
		return unix.ELOOP
	}
	if !atProcRoot && onProcfs(s.cur) {
		return w.magic(s, name)
	}
	target, err := readlinkAt(s.cur, name)
	if err != nil {
		return err
	}
	if target == "" {
		return unix.ENOENT
	}
	if strings.HasPrefix(target, "/") {
		root, err := start(-1, "/")
		if err != nil {
			return err
		}
		unix.Close(s.cur)
		s.cur = root
	}
	s.rest = append(components(target), s.rest...)
	return nil
}

// magic follows a link below /proc/PID, which leads to an object and not to a
// name: the task's own are its own business, a stranger's are not followed, unless
// nothing is held back and the task follows them itself.
func (w *walker) magic(s *step, name string) error {
	if err := w.strange(s, name); err != nil {
		return err
	}
	fd, err := unix.Openat(s.cur, name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.Close(s.cur)
	s.cur = fd
	return nil
}

// strange is the error Stranger where the step is at a stranger's entry of /proc.
func (w *walker) strange(s *step, name string) error {
	if w.view.Foreign {
		return nil
	}
	here, err := readlinkAt(Self(s.cur))
	if err != nil {
		return err
	}
	pid, ok := linkOwner(here)
	if !ok || pid != 0 && w.view.Owns != nil && w.view.Owns(pid) {
		return nil
	}
	rest := append([]string{strings.TrimSuffix(here, "/"), name}, s.rest...)
	return &Stranger{PID: pid, Path: strings.Join(rest, "/")}
}

// PathPID is the process that a path below /proc is about.
func PathPID(path string) (pid int, ok bool) {
	rest, found := strings.CutPrefix(path, "/proc/")
	if !found {
		return 0, false
	}
	first, _, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(first)
	return pid, err == nil && pid > 0
}

// procRoot says whether fd is the root of a procfs, whose inode number is 1
// (PROC_ROOT_INO).
func procRoot(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Ino == 1 && onProcfs(fd)
}

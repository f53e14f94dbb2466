package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tryCgroupKill starts a child in a cgroup of its own and kills the cgroup.
func tryCgroupKill(ctx context.Context, cfg Config) []Result {
	own, err := ownCgroup()
	if err != nil {
		return []Result{no(CgroupKill, "%v", err).withHint("mount cgroup2, as systemd does")}
	}
	dir, err := os.MkdirTemp(own, "reeve-probe-")
	if err != nil {
		return []Result{no(CgroupKill, "make a cgroup: %v", err).
			withHint("as an ordinary user, start reeve below `systemd-run --user --scope -p Delegate=yes`")}
	}
	defer removeCgroup(dir)
	return []Result{killCgroup(ctx, cfg, dir)}
}

func killCgroup(ctx context.Context, cfg Config, dir string) Result {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unknown(CgroupKill, "open %s: %v", dir, err)
	}
	defer unix.Close(fd)
	cmd := command(ctx, cfg, "wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	end, err := startWaiting(cmd)
	if err != nil {
		return no(CgroupKill, "start a child in a cgroup: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
		end()
		return no(CgroupKill, "%v", err).withHint("Linux 5.14 has it")
	}
	end()
	st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || st.Signal() != syscall.SIGKILL {
		return no(CgroupKill, "the child outlived its cgroup (%v)", cmd.ProcessState)
	}
	return yes(CgroupKill, "killed a cgroup with a child in it")
}

// removeCgroup removes an empty cgroup; the kernel may need a moment to find that
// it is empty.
func removeCgroup(dir string) {
	for range 50 {
		if err := os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// ownCgroup is the directory of this process's cgroup in the cgroup2 hierarchy.
func ownCgroup() (string, error) {
	mount, err := cgroup2Mount()
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(mount, path), nil
		}
	}
	return "", errors.New("this process is in no cgroup2")
}

// cgroup2Mount is where the cgroup2 hierarchy is mounted, see
// proc_pid_mountinfo(5).
func cgroup2Mount() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		before, after, _ := strings.Cut(s.Text(), " - ")
		fields := strings.Fields(before)
		if strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			return fields[4], nil
		}
	}
	if err := s.Err(); err != nil {
		return "", fmt.Errorf("read mounts: %w", err)
	}
	return "", errors.New("no cgroup2 hierarchy is mounted")
}

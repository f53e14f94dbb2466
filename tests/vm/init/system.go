package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/vm/wire"
)

// mounts are made in this order; what only some kernels have may fail.
var mounts = []struct {
	kind, at, data string
	flags          uintptr
	optional       bool
}{
	{kind: "proc", at: "/proc", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{kind: "sysfs", at: "/sys", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{kind: "devtmpfs", at: "/dev", flags: unix.MS_NOSUID},
	{kind: "devpts", at: "/dev/pts", data: "mode=620,ptmxmode=666", flags: unix.MS_NOSUID | unix.MS_NOEXEC},
	{kind: "tmpfs", at: "/dev/shm", data: "mode=1777", flags: unix.MS_NOSUID | unix.MS_NODEV},
	{kind: "tmpfs", at: "/run", data: "mode=755", flags: unix.MS_NOSUID | unix.MS_NODEV},
	{kind: "mqueue", at: "/dev/mqueue", optional: true},
	{kind: "securityfs", at: "/sys/kernel/security"},
	{kind: "cgroup2", at: "/sys/fs/cgroup"},
	{kind: "bpf", at: "/sys/fs/bpf", data: "mode=700"},
	{kind: "tracefs", at: "/sys/kernel/tracing", optional: true},
}

// mountAll makes a root of our own and puts the kernel's file systems into it.
// The initial root cannot be pivoted away from and is nobody's child; a bind of
// it that stands over it, as after an ordinary boot, can.
func mountAll() error {
	const root = "/vm/root"
	if err := unix.Mount("/", root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind root: %w", err)
	}
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.data); err != nil && !m.optional {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	for name, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

// setUp makes the machine's settings those of an ordinary one.
func setUp(job *wire.Job) error {
	now := unix.NsecToTimeval(job.Now)
	if err := unix.Settimeofday(&now); err != nil {
		return fmt.Errorf("set clock: %w", err)
	}
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := loopback(); err != nil {
		return err
	}
	files := unix.Rlimit{Cur: 1024, Max: 524288}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("limit descriptors: %w", err)
	}
	for _, m := range job.Modules {
		if err := insert(m); err != nil {
			return err
		}
	}
	return nil
}

// loopback sets the interface lo up.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// insert loads a kernel module, which the kernel itself may have to unpack.
func insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load module: %w", err)
	}
	defer f.Close()
	flags := 0
	if strings.HasSuffix(path, ".xz") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil {
		return fmt.Errorf("load module %s: %w", path, err)
	}
	return nil
}

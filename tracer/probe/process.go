package probe

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tryPidfdGetfd takes a descriptor out of a child, as the listener is taken.
func tryPidfdGetfd(ctx context.Context, cfg Config) []Result {
	r, w, err := os.Pipe()
	if err != nil {
		return []Result{unknown(PidfdGetfd, "%v", err)}
	}
	defer r.Close()
	defer w.Close()
	cmd := command(ctx, cfg, "wait")
	cmd.ExtraFiles = []*os.File{w} // descriptor 3 there
	end, err := startWaiting(cmd)
	if err != nil {
		return []Result{unknown(PidfdGetfd, "%v", err)}
	}
	defer end()
	return []Result{takeFD(cmd.Process.Pid, 3, w)}
}

func takeFD(pid, number int, want *os.File) Result {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return no(PidfdGetfd, "pidfd_open: %v", err).withHint("Linux 5.3 has it")
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	switch {
	case errors.Is(err, unix.EPERM):
		return no(PidfdGetfd, "refused on our own child: %v", err).
			withHint("kernel.yama.ptrace_scope must be below 3, and a container must allow ptrace of children")
	case err != nil:
		return no(PidfdGetfd, "%v", err).withHint("Linux 5.6 has it")
	}
	defer unix.Close(fd)
	var got, expected unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &got), unix.Fstat(int(want.Fd()), &expected)); err != nil {
		return unknown(PidfdGetfd, "%v", err)
	}
	if got.Ino != expected.Ino || got.Dev != expected.Dev {
		return no(PidfdGetfd, "another descriptor came back")
	}
	return yes(PidfdGetfd, "took a descriptor out of a child")
}

const orphanStatus = 77

// childSubreaper becomes a subreaper and waits for a grandchild whose parent has
// gone.
func childSubreaper([]string) []Result {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return []Result{no(Subreaper, "prctl: %v", err)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	child := command(ctx, Config{Executable: "/proc/self/exe"}, "leave")
	if err := child.Run(); err != nil {
		return []Result{unknown(Subreaper, "start a child: %v", err)}
	}
	for {
		var st unix.WaitStatus
		_, err := unix.Wait4(-1, &st, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return []Result{no(Subreaper, "the orphan did not come to us: %v", err)}
		case st.Exited() && st.ExitStatus() == orphanStatus:
			return []Result{yes(Subreaper, "an orphaned grandchild came to us")}
		}
	}
}

// childLeave starts an orphan and leaves it.
func childLeave([]string) []Result {
	cmd := command(context.Background(), Config{Executable: "/proc/self/exe"}, "orphan", strconv.Itoa(os.Getpid()))
	if err := cmd.Start(); err != nil {
		os.Exit(1)
	}
	return nil
}

// childOrphan waits until its parent, the process of args[0], is gone.
func childOrphan(args []string) []Result {
	for range 1000 {
		if len(args) != 1 || strconv.Itoa(os.Getppid()) != args[0] {
			break
		}
		time.Sleep(time.Millisecond)
	}
	os.Exit(orphanStatus)
	return nil
}

// tryPtrace starts a traced child and sees it stop at its exec.
func tryPtrace(ctx context.Context, cfg Config) []Result {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := command(ctx, cfg, "wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return []Result{no(Ptrace, "start a traced child: %v", err).
			withHint("kernel.yama.ptrace_scope must be below 3, and a container must allow ptrace")}
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var st unix.WaitStatus
	for {
		_, err := unix.Wait4(cmd.Process.Pid, &st, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return []Result{unknown(Ptrace, "wait for a traced child: %v", err)}
		}
		break
	}
	if !st.Stopped() || st.StopSignal() != unix.SIGTRAP {
		return []Result{no(Ptrace, "a traced child did not stop at its exec (status %#x)", uint32(st))}
	}
	const options = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACEFORK
	if err := unix.PtraceSetOptions(cmd.Process.Pid, options); err != nil {
		return []Result{no(Ptrace, "set options: %v", err)}
	}
	return []Result{yes(Ptrace, "a traced child stopped at its exec")}
}

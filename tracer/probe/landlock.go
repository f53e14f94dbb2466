package probe

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/landlock"
)

// childLandlock restricts one thread and sees it refused what it could do before.
func childLandlock([]string) []Result {
	abi, err := landlock.ABI()
	if err != nil {
		return []Result{no(Landlock, "%v", err).withHint("Linux 5.13 with CONFIG_SECURITY_LANDLOCK has it; where " +
			"it is built in but off, add landlock to lsm= on the kernel command line")}
	}
	done := make(chan Result)
	go func() {
		runtime.LockOSThread() // the domain stays with this thread and dies with it
		done <- restricted(abi)
	}()
	return []Result{<-done}
}

func restricted(abi int) Result {
	const victim = "/proc/self/stat"
	if err := readable(victim); err != nil {
		return unknown(Landlock, "the control failed: %v", err)
	}
	fd, _, err := landlock.Spec{HandledFS: landlock.ReadFile}.Open(abi)
	if err != nil {
		return no(Landlock, "%v", err)
	}
	defer unix.Close(fd)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return no(Landlock, "set no_new_privs: %v", err)
	}
	if err := landlock.Restrict(fd); err != nil {
		return no(Landlock, "%v", err).withHint("a container's own seccomp filter must allow landlock_restrict_self")
	}
	if err := readable(victim); !errors.Is(err, unix.EACCES) {
		return no(Landlock, "a restricted thread read what it may not (%v)", err)
	}
	return yes(Landlock, "ABI %d, saw it refuse a read", abi)
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

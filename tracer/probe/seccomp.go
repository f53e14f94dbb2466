package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// trappedCall is what the probe's filter notifies: nothing in a Go process
// depends on it.
const trappedCall = unix.SYS_GETPPID

// answer is what the supervising thread makes the trapped call return.
const answer = 4242

const hintNested = "reeve cannot run below another supervisor that listens (another reeve, some sandboxes)"

// childSeccomp puts one thread under a filter with a listener and answers it from
// another one, which is what a gate does.
func childSeccomp([]string) []Result {
	const never = "not tried: there is no notification"
	results := []Result{killable(), pidfdThread()}
	listener, target, err := supervised()
	if err != nil {
		return append(results, noListener(err), no(SeccompAddFD, never), no(SeccompSyncWake, never))
	}
	sync := yes(SeccompSyncWake, "set on a listener")
	if err := listener.SyncWakeUp(); err != nil {
		sync = no(SeccompSyncWake, "refused: %v (it needs Linux 6.6)", err)
	}
	answered := tryAnswer(listener, target)
	if answered.State != Yes { // the thread may wait for ever
		return append(results, answered, no(SeccompAddFD, never), sync)
	}
	return append(results, answered, tryInject(listener, target), sync)
}

func noListener(err error) Result {
	r := no(SeccompNotify, "no listener: %v", err)
	switch {
	case errors.Is(err, unix.EBUSY):
		r.Reason = "another supervisor already listens to this process: " + err.Error()
		return r.withHint(hintNested)
	case errors.Is(err, unix.EINVAL):
		return r.withHint("user notification needs Linux 5.0 with CONFIG_SECCOMP_FILTER")
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSYS):
		return r.withHint("seccomp(2) is refused here: a container's own filter must allow it")
	}
	return r
}

// killable asks for the flag with a filter that cannot be read: a kernel that
// knows the flag gets as far as the filter.
func killable() Result {
	const setModeFilter = 1
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, setModeFilter, flags, 0)
	switch errno {
	case unix.EFAULT:
		return yes(SeccompKillable, "the flag is known")
	case unix.EINVAL:
		return no(SeccompKillable, "the flag is unknown: signals interrupt calls that wait for us").
			withHint("Linux 5.19 has it")
	}
	return unknown(SeccompKillable, "asking for the flag gave %v", errno)
}

func pidfdThread() Result {
	tid := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with it
		tid <- unix.Gettid()
		select {}
	}()
	id := <-tid
	fd, err := unix.PidfdOpen(id, unix.PIDFD_THREAD)
	if err != nil {
		return no(PidfdThread, "pidfd_open of a thread: %v", err).withHint("Linux 6.9 has it")
	}
	defer unix.Close(fd)
	return yes(PidfdThread, "opened one of a thread that does not lead its process")
}

// calls makes the trapped call once on a supervised thread.
type calls struct {
	ask   chan struct{}
	value chan int
}

// supervised starts a thread under a filter and returns its listener.
func supervised() (seccomp.Listener, calls, error) {
	c := calls{ask: make(chan struct{}), value: make(chan int)}
	type installed struct {
		fd  int
		err error
	}
	up := make(chan installed)
	go func() {
		runtime.LockOSThread() // the filter stays with this thread and dies with it
		fd, err := install()
		up <- installed{fd, err}
		for range c.ask {
			v, _, errno := unix.Syscall(trappedCall, 0, 0, 0)
			if errno != 0 {
				v = ^uintptr(0)
			}
			c.value <- int(v)
		}
	}()
	in := <-up
	return seccomp.Listener{FD: in.fd}, c, in.err
}

func install() (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("set no_new_privs: %w", err)
	}
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4}, // seccomp_data.nr
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: trappedCall, SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	})
	if err != nil {
		return -1, err
	}
	return seccomp.Install(filter)
}

// receive has the thread make its call, and takes the notification.
func receive(l seccomp.Listener, c calls) (seccomp.Notification, error) {
	var n seccomp.Notification
	c.ask <- struct{}{}
	ready, _, err := l.Wait(-1, 1000)
	switch {
	case err != nil:
		return n, err
	case !ready:
		return n, errors.New("no notification within a second")
	}
	if err := l.Recv(&n); err != nil {
		return n, fmt.Errorf("receive: %w", err)
	}
	if n.Nr != trappedCall || !l.Valid(n.ID) {
		return n, fmt.Errorf("received call %d, id %d, not the one that was made", n.Nr, n.ID)
	}
	return n, nil
}

func tryAnswer(l seccomp.Listener, c calls) Result {
	n, err := receive(l, c)
	if err != nil {
		return no(SeccompNotify, "%v", err)
	}
	if err := l.Return(n.ID, answer); err != nil {
		return no(SeccompNotify, "answer: %v", err)
	}
	if v := <-c.value; v != answer {
		return no(SeccompNotify, "the call returned %d, not the %d that was answered", v, answer)
	}
	return yes(SeccompNotify, "installed, received, answered")
}

func tryInject(l seccomp.Listener, c calls) Result {
	hint := "Linux 5.14 has it"
	file, err := os.Open(os.DevNull)
	if err != nil {
		return unknown(SeccompAddFD, "%v", err)
	}
	defer file.Close()
	n, err := receive(l, c)
	if err != nil {
		return no(SeccompAddFD, "%v", err)
	}
	if err := l.ReturnFD(n.ID, int(file.Fd()), true); err != nil {
		_ = l.Fail(n.ID, unix.EACCES)
		<-c.value
		return no(SeccompAddFD, "inject and answer in one step: %v", err).withHint(hint)
	}
	fd := <-c.value
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || fd == int(file.Fd()) || !strings.HasSuffix(target, "null") {
		return no(SeccompAddFD, "the call returned %d, which is %q (%v)", fd, target, err)
	}
	_ = unix.Close(fd)
	return yes(SeccompAddFD, "injected as the call's result, in one step")
}

package lsm

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// native is what a victim says without hooks, in a mount namespace of its own: the
// control of what it says under them.
func native(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(self(t), args...)
	cmd.Env = append(os.Environ(), victimVariable+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s without hooks: %v", name, err)
	}
	return string(out)
}

func actSurfaces(args []string) {
	module, _ := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	say("mount", unix.Mount("none", "/tmp", "tmpfs", 0, ""))
	say("umount", unix.Unmount("/dev/shm", 0))
	fd, err := unix.Fsopen("tmpfs", 0)
	if err == nil {
		_ = unix.FsconfigCreate(fd)
		var mnt int
		if mnt, err = unix.Fsmount(fd, 0, 0); err == nil {
			err = unix.MoveMount(mnt, "", unix.AT_FDCWD, "/tmp", unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
	}
	say("move_mount", err)
	say("userns", exec.Command("/bin/true").Run())
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	say("newuser", cmd.Run())
	say("pivot_root", unix.PivotRoot("/", "/"))
	say("finit_module", unix.FinitModule(module, "", 0)) // which is none
	say("init_module", unix.InitModule(make([]byte, 4096), ""))
	_, _, errno := unix.Syscall(unix.SYS_BPF, 0, 0, 0)
	say("bpf", errno)
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	_, err = unix.PerfEventOpen(&attr, 0, -1, -1, 0)
	say("perf", err)
	say("ptrace", unix.PtraceSeize(os.Getppid()))
	actSockets()
	say("chroot", unix.Chroot("/proc"))
}

func actSockets() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	say("socket", err)
	say("connect", unix.Connect(fd, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}))
	fd, _ = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	say("bind", unix.Bind(fd, &unix.SockaddrInet4{}))
	say("listen", unix.Listen(fd, 1))
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	say("udp", err)
	say("sendto", unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}))
	_, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	say("packet", err)
	_, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	say("raw", err)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err == nil {
		_, err = unix.Write(pair[0], []byte("x"))
	}
	say("socketpair", err)
}

// actOpened does what harms nobody where it is allowed.
func actOpened([]string) {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	say("newuser", cmd.Run())
	fd, _ := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	say("bind", unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	say("sendto", unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}))
	_, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	say("raw", err)
}

func actKill(args []string) {
	pid, _ := strconv.Atoi(args[0])
	say("kill", unix.Kill(pid, 0))
	say("kill self", unix.Kill(os.Getpid(), 0))
	child := exec.Command("/bin/sleep", "10")
	if err := child.Start(); err == nil {
		say("kill child", unix.Kill(child.Process.Pid, unix.SIGKILL))
		_ = child.Wait()
	}
}

// surfaceRows are what actSurfaces says without hooks and with all closed, and what
// is recorded then: the operation and why.
var surfaceRows = []struct{ call, native, held, record string }{
	{"mount", "ok", "EPERM", "mount: " + WhySurface.String()},
	{"umount", "ok", "EPERM", "mount: " + WhySurface.String()},
	{"move_mount", "ok", "EPERM", "mount: " + WhySurface.String()},
	{"userns", "ok", "ok", ""},
	{"newuser", "ok", "EPERM", "namespace: " + WhySurface.String()},
	{"pivot_root", "EBUSY EINVAL", "EPERM", "mount: " + WhySurface.String()},
	{"finit_module", "ENOEXEC", "EPERM", "module: " + WhySurface.String()},
	{"init_module", "ENOEXEC", "EPERM", "module: " + WhySurface.String()},
	{"bpf", "EINVAL", "EPERM", "bpf: " + WhySurface.String()},
	{"perf", "ok", "EPERM", "perf_event: " + WhySurface.String()},
	{"ptrace", "ok", "EPERM", "ptrace: " + WhyStranger.String()},
	{"socket", "ok", "ok", ""},
	{"connect", "ECONNREFUSED", "EPERM", "connect: " + WhyGate.String()},
	{"bind", "ok", "EPERM", "bind: " + WhyGate.String()},
	{"listen", "ok", "EPERM", "listen: " + WhyGate.String()},
	{"udp", "ok", "ok", ""},
	{"sendto", "ok", "EPERM", "send: " + WhyGate.String()},
	{"packet", "ok EAFNOSUPPORT", "EPERM", "socket: " + WhySurface.String()},
	{"raw", "ok", "EPERM", "socket: " + WhySurface.String()},
	{"socketpair", "ok", "ok", ""},
	{"chroot", "ok", "EPERM", "chroot: " + WhySurface.String()},
}

// TestSurfaces: what is closed is refused and recorded, and is there without hooks.
func TestSurfaces(t *testing.T) {
	rules := rulesOf(t)
	rules.Closed = Mount | Namespace | BPF | Perf | Module | Ptrace | Chroot | Connect | Bind | Send | Socket
	h := hold(t, rules)
	file := ground(t, "none.ko") + "/none.ko"
	control := strings.Split(strings.TrimSpace(native(t, "surfaces", file)), "\n")
	if len(control) != len(surfaceRows) {
		t.Fatalf("without hooks %q", control)
	}
	var held, records []string
	for i, r := range surfaceRows {
		call, got, _ := strings.Cut(control[i], " ")
		if call != r.call || !slices.Contains(strings.Fields(r.native), got) {
			t.Errorf("without hooks %q, want %q of %s", control[i], r.native, r.call)
		}
		held = append(held, r.call+" "+r.held)
		if r.record != "" {
			records = append(records, r.record+" EPERM")
		}
	}
	compareLines(t, h.victim("surfaces", file), strings.Join(held, "\n"))
	const ends = "kill self ok\nkill child ok"
	compareLines(t, native(t, "kill", fmt.Sprint(os.Getpid())), "kill ok\n"+ends)
	compareLines(t, h.victim("kill", fmt.Sprint(os.Getpid())), "kill EPERM\n"+ends)
	records = append(records, "signal: "+WhyStranger.String()+" EPERM")
	compareLines(t, strings.Join(h.log.surfaces(), "\n"), strings.Join(records, "\n"))
}

// surfaces are the refusals of what has no path.
func (l *log) surfaces() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accesses {
		if a.Refused && a.Path == "" {
			list = append(list, fmt.Sprintf("%s: %s %s", a.Op, a.Why, unix.ErrnoName(unix.Errno(a.Errno))))
		}
	}
	return list
}

// TestOpenSurfaces: what the policy opens stays open.
func TestOpenSurfaces(t *testing.T) {
	rules := rulesOf(t)
	rules.AnySignal = true
	h := hold(t, rules)
	compareLines(t, h.victim("opened"), "newuser ok\nbind ok\nsendto ok\nraw ok")
	compareLines(t, h.victim("kill", fmt.Sprint(os.Getpid())), "kill ok\nkill self ok\nkill child ok")
	if got := h.log.surfaces(); len(got) > 0 {
		t.Errorf("refused: %v", got)
	}
}

// lastRingOp is the last operation of io_uring that was read through for what it can
// do to names, metadata and sockets, IORING_OP_PIPE of Linux 6.16. Such are OPENAT and
// OPENAT2 (held at file_open), RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT (path_…),
// SETXATTR and FSETXATTR (inode_setxattr), SOCKET, CONNECT, BIND, LISTEN (socket_…),
// SENDMSG, SEND and their ZC forms (socket_sendmsg where they name an address) and
// STATX (inode_getattr). FALLOCATE and FTRUNCATE take a descriptor that is open for
// writing. None sets times, modes or owners, none executes.
const lastRingOp = 62

// TestRingOps: this kernel's rings can do nothing that was not read through.
func TestRingOps(t *testing.T) {
	params := make([]byte, 120) // struct io_uring_params
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno != 0 {
		if strings.Contains(os.Getenv("REQUIRE"), "lsm") {
			t.Fatalf("REQUIRE=lsm, but no ring: %v", errno)
		}
		t.Skipf("no ring here: %v", errno)
	}
	defer unix.Close(int(ring))
	const registerProbe, ops = 8, 256
	probe := make([]byte, 16+8*ops) // struct io_uring_probe: last_op, ops_len, …
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, ring, registerProbe, uintptr(unsafe.Pointer(&probe[0])), ops, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	t.Logf("the last operation is %d", probe[0])
	if probe[0] > lastRingOp || probe[0] < 30 {
		t.Errorf("the last operation of a ring is %d, those up to %d were read through: see what is new, which hook holds it, and say so here", probe[0], lastRingOp)
	}
}

func actNetlink([]string) {
	for _, protocol := range []int{unix.NETLINK_ROUTE, unix.NETLINK_USERSOCK} {
		_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM, protocol)
		say(fmt.Sprint("netlink ", protocol), err)
	}
}

// TestUsersock: netlink reaches the kernel; its protocol between programs has a bit of
// its own.
func TestUsersock(t *testing.T) {
	for bits, want := range map[uint64]string{
		0: "netlink 0 EPERM\nnetlink 2 EPERM", 1 << unix.AF_NETLINK: "netlink 0 ok\nnetlink 2 EPERM",
		1<<unix.AF_NETLINK | Usersock: "netlink 0 ok\nnetlink 2 ok",
	} {
		rules := rulesOf(t)
		rules.Closed, rules.Families = Socket, bits
		compareLines(t, hold(t, rules).victim("netlink"), want)
	}
}

package lsm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// victimVariable makes the test binary do one thing and say what came of it.
const victimVariable = "LSM_VICTIM"

func TestMain(m *testing.M) {
	if name := os.Getenv(victimVariable); name != "" {
		act(name, os.Args[1:])
		os.Exit(0)
	}
	forgetTypes = func() {} // most of what a start needs besides the verifier's time
	os.Exit(m.Run())
}

// say prints a line "what: errno".
func say(what string, err error) {
	var errno syscall.Errno
	switch {
	case err == nil:
		fmt.Println(what, "ok")
	case errors.As(err, &errno):
		fmt.Println(what, unix.ErrnoName(errno))
	default:
		fmt.Println(what, err)
	}
}

func act(name string, args []string) {
	runtime.LockOSThread()
	actions[name](args)
}

// actions are what a victim can do.
var actions = map[string]func(args []string){
	"names":    actNames,
	"surfaces": actSurfaces,
	"opened":   actOpened,
	"roots":    actRoots,
	"special":  actSpecial,
	"receive":  actReceive,
	"loop":     actLoop,
	"pty":      actPty,
	"spawn":    actSpawn,
	"warden":   actWarden,
	"kill":     actKill,
	"netlink":  actNetlink,
	"code":     actCode,
	"identity": actIdentity,
	"euid":     func([]string) { fmt.Println("ids", os.Geteuid(), os.Getegid()) },
	"attr":     actAttributes,
	"flood":    actFlood,
	"long": func(args []string) {
		say("long", longPath(args[0]))
		say("renamed", unix.Rename("f", "g"))
		_ = unix.Rename("g", "f")
	},
	"moved": actMoved,
}

func actNames(args []string) {
	_ = os.Chdir(args[0])
	say("mkdir", unix.Mkdir("open/d", 0o755))
	say("mkdir denied", unix.Mkdir("deny/d", 0o755))
	say("rmdir", unix.Rmdir("open/d"))
	say("rmdir denied", unix.Rmdir("deny/e"))
	say("unlink denied", unix.Unlink("deny/x"))
	say("unlink", unix.Unlink("open/gone"))
	say("rename out", unix.Rename("deny/x", "open/x"))
	say("rename in", unix.Rename("open/a", "deny/a"))
	say("rename", unix.Rename("open/a", "open/b"))
	say("rename widens", unix.Rename("ro/f", "open/f"))
	say("rename dir", unix.Rename("open/dir", "open/dir2"))
	say("exchange", unix.Renameat2(unix.AT_FDCWD, "open/b", unix.AT_FDCWD, "open/c", unix.RENAME_EXCHANGE))
	say("link", unix.Link("open/b", "open/l"))
	say("link denied", unix.Link("deny/x", "open/y"))
	say("link widens", unix.Link("ro/f", "open/f"))
	say("symlink", unix.Symlink("x", "open/s"))
	say("truncate denied", unix.Truncate("deny/x", 0))
	say("truncate", unix.Truncate("open/b", 0))
	say("chmod denied", unix.Chmod("deny/x", 0o777))
	say("chmod", unix.Chmod("open/b", 0o600))
	say("chmod setuid", unix.Chmod("open/b", 0o4755|syscall.S_ISUID))
	say("chown denied", unix.Lchown("deny/x", 1, 1))
	say("mknod device", unix.Mknod("open/dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	say("mknod fifo", unix.Mknod("open/fifo", unix.S_IFIFO|0o600, 0))
	say("mknod denied", unix.Mknod("deny/fifo", unix.S_IFIFO|0o600, 0))
	say("setxattr", unix.Setxattr("open/b", "user.x", []byte("1"), 0))
}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func actSpecial(args []string) {
	dir := args[0]
	_ = os.Chdir(args[0])
	say("own environ", open("/proc/self/environ", unix.O_RDONLY))
	say("own maps by thread", open(fmt.Sprintf("/proc/%d/task/%d/maps", os.Getpid(), unix.Gettid()), unix.O_RDONLY))
	say("parent's environ", open(fmt.Sprintf("/proc/%s/environ", args[1]), unix.O_RDONLY))
	say("temp", open(args[2]+"/x", unix.O_CREAT|unix.O_WRONLY))
	say("temp's neighbour", open(args[2]+"x", unix.O_CREAT|unix.O_WRONLY))
	fd, err := unix.MemfdCreate("m", 0)
	say("memfd", err)
	self, _ := os.ReadFile("/bin/true")
	_, _ = unix.Write(fd, self)
	say("memfd reopened", open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY))
	say("memfd run", exec.Command(fmt.Sprintf("/proc/self/fd/%d", fd)).Run())
	fd, err = unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	say("tmpfile", err)
	say("tmpfile reopened", open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR))
	say("tmpfile denied", open(dir+"/deny", unix.O_TMPFILE|unix.O_RDWR))
	say("device", open("null", unix.O_RDONLY))
	say("device in its place", open("/dev/null", unix.O_RDWR))
	say("pipe", open("/dev/stdin", unix.O_RDONLY))
	f, _ := os.Open("ok")
	_ = os.Remove("ok")
	say("deleted", open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.O_RDONLY))
	say("long", longPath(dir))
	say("namespace file", open("/proc/self/ns/mnt", unix.O_RDONLY))
	say("execve denied", exec.Command(dir+"/deny/run").Run())
	say("by loader", exec.Command("/lib64/ld-linux-x86-64.so.2", dir+"/deny/run").Run())
	say("run", exec.Command(dir+"/run").Run())
	_ = os.Chdir(dir)
	say("setuid", open("suid", unix.O_CREAT|unix.O_WRONLY))
	_, err = unix.Open("suid2", unix.O_CREAT|unix.O_WRONLY, 0o4755)
	say("made setuid", err)
}

// longPath opens a file whose path is longer than any that is judged.
func longPath(dir string) error {
	name := strings.Repeat("n", 250)
	for range 20 { // more than 4,096 bytes
		if err := os.Chdir(dir); err != nil {
			return err
		}
		if err := unix.Mkdir(name, 0o755); err != nil && err != unix.EEXIST {
			return err
		}
		dir = name
	}
	_ = os.Chdir(name)
	return open("f", unix.O_CREAT|unix.O_WRONLY)
}

// actLoop opens a file until it cannot, and then says so. The file's neighbour
// "begun" tells that it could.
func actLoop(args []string) {
	for {
		if err := open(args[0], unix.O_RDONLY); err != nil {
			say("open", err)
			return
		}
		_ = open(args[0]+".begun", unix.O_CREAT|unix.O_WRONLY)
		time.Sleep(time.Millisecond)
	}
}

func actPty([]string) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	say("master", err)
	n, _ := unix.IoctlGetInt(master, unix.TIOCGPTN)
	_ = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	say("slave", open(filepath.Join("/dev/pts", strconv.Itoa(n)), unix.O_RDWR|unix.O_NOCTTY))
	entries, _ := os.ReadDir("/dev/pts")
	for _, e := range entries {
		if e.Name() != strconv.Itoa(n) && e.Name() != "ptmx" {
			say("other", open("/dev/pts/"+e.Name(), unix.O_RDWR|unix.O_NOCTTY))
		}
	}
}

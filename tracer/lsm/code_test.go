package lsm

import (
	"fmt"
	"os"

	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

var noExec = func() Outcome {
	out := allowAll
	out.Exec = denyAll.Exec
	return out
}()

const readImpliesExec = 0x0400000 // linux/personality.h

// actCode maps a file as code by every call that can.
func actCode(args []string) {
	for _, path := range args {
		what := filepath.Base(path)
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		say(what+" opened", err)
		mapped := func(prot, flags int) ([]byte, error) { return unix.Mmap(fd, 0, 4096, prot, flags) }
		_, err = mapped(unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		say(what+" mmap", err)
		_, err = mapped(unix.PROT_EXEC, unix.MAP_SHARED)
		say(what+" mmap shared", err)
		b, err := mapped(unix.PROT_READ, unix.MAP_PRIVATE)
		say(what+" mmap to read", err)
		say(what+" mprotect", unix.Mprotect(b, unix.PROT_READ|unix.PROT_EXEC))
		at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		err = nil
		if _, _, errno := unix.Syscall6(unix.SYS_PKEY_MPROTECT, at, 4096, unix.PROT_EXEC, ^uintptr(0), 0, 0); errno != 0 {
			err = errno
		}
		say(what+" pkey_mprotect", err)
		b, _ = mapped(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
		b[0] = 1
		say(what+" mprotect when written", unix.Mprotect(b, unix.PROT_READ|unix.PROT_EXEC))
		before, _, _ := unix.Syscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
		_, _, _ = unix.Syscall(unix.SYS_PERSONALITY, before|readImpliesExec, 0, 0)
		_, err = mapped(unix.PROT_READ, unix.MAP_PRIVATE)
		say(what+" mmap where reading implies it", err)
		_, _, _ = unix.Syscall(unix.SYS_PERSONALITY, before, 0, 0)
	}
	_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	say("memory", err)
}

// TestCode: a file that may be read and not run is not mapped as code, by mmap or by
// mprotect, and each try is recorded.
func TestCode(t *testing.T) {
	dir := ground(t)
	for _, name := range []string{"ok.so", "no.so"} {
		copyFile(t, "/bin/true", filepath.Join(dir, name))
	}
	h := hold(t, rulesOf(t, pattern{dir + "/no.so", noExec}))
	calls := []string{"opened", "mmap", "mmap shared", "mmap to read", "mprotect", "pkey_mprotect", "mprotect when written", "mmap where reading implies it"}
	var free, held strings.Builder
	for _, name := range []string{"ok.so", "no.so"} {
		for _, call := range calls {
			fmt.Fprintf(&free, "%s %s ok\n", name, call)
			if name == "ok.so" || call == "opened" || call == "mmap to read" {
				fmt.Fprintf(&held, "%s %s ok\n", name, call)
			} else {
				fmt.Fprintf(&held, "%s %s EACCES\n", name, call)
			}
		}
	}
	const rest = "memory ok"
	compareLines(t, native(t, "code", dir+"/ok.so", dir+"/no.so"), free.String()+rest)
	compareLines(t, h.victim("code", dir+"/ok.so", dir+"/no.so"), held.String()+rest)
	want := slices.Repeat([]string{"exec exec " + dir + "/no.so: denied by the policy"}, len(calls)-2)
	compareLines(t, strings.Join(h.log.refusals(), "\n"), strings.Join(want, "\n"))
	for _, a := range h.log.accesses {
		if a.Refused && a.Hook != "mapped as code" {
			t.Errorf("recorded as %+v", a)
		}
	}
}

// actIdentity runs programs as nobody.
func actIdentity(args []string) {
	const nobody = 65534
	if err := unix.Setgroups(nil); err != nil {
		say("groups", err)
	}
	say("gid", unix.Setresgid(nobody, nobody, nobody))
	say("uid", unix.Setresuid(nobody, nobody, nobody))
	for _, path := range args {
		cmd := exec.Command(path)
		cmd.Env = []string{victimVariable + "=euid"}
		out, err := cmd.Output()
		say(filepath.Base(path), err)
		fmt.Print(string(out))
	}
}

// TestIdentity: no program of the session becomes somebody else by being run, where
// a policy holds.
func TestIdentity(t *testing.T) {
	dir := ground(t)
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range []struct {
		name string
		mode uint32
	}{{"plain", 0o755}, {"setuid", 0o4755}, {"setgid", 0o2755}} {
		path := filepath.Join(dir, f.name)
		copyFile(t, self(t), path)
		if err := unix.Chmod(path, f.mode); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	const free = "gid ok\nuid ok\nplain ok\nids 65534 65534\nsetuid ok\nids 0 65534\nsetgid ok\nids 65534 0"
	h := hold(t, rulesOf(t))
	compareLines(t, native(t, "identity", paths...), free)
	compareLines(t, h.victim("identity", paths...), "gid ok\nuid ok\nplain ok\nids 65534 65534\nsetuid EPERM\nsetgid EPERM")
	record := "creds: " + WhyIdentity.String() + " EPERM"
	compareLines(t, strings.Join(h.log.surfaces(), "\n"), record+"\n"+record)
	only := hold(t, Rules{RecordOnly: true})
	compareLines(t, only.victim("identity", paths...), free)
}

// actAttributes sets an attribute and takes another away, by name and by descriptor.
func actAttributes(args []string) {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		say("open", err)
	}
	say("setxattr", unix.Setxattr(args[0], "user.new", []byte("1"), 0))
	say("fsetxattr", unix.Fsetxattr(fd, "user.new", []byte("2"), 0))
	say("removexattr", unix.Removexattr(args[0], "user.a"))
	say("fremovexattr", unix.Fremovexattr(fd, "user.b"))
}

// TestAttributes: where only the gate may change attributes nobody else does.
func TestAttributes(t *testing.T) {
	dir := ground(t, "free", "held")
	for _, name := range []string{"free", "held"} {
		for _, attr := range []string{"user.a", "user.b"} {
			if err := unix.Setxattr(filepath.Join(dir, name), attr, []byte("1"), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	rules := rulesOf(t)
	rules.Closed = Xattr
	h := hold(t, rules)
	compareLines(t, native(t, "attr", dir+"/free"), "setxattr ok\nfsetxattr ok\nremovexattr ok\nfremovexattr ok")
	compareLines(t, h.victim("attr", dir+"/held"), "setxattr EPERM\nfsetxattr EPERM\nremovexattr EPERM\nfremovexattr EPERM")
	list := make([]byte, 256)
	if n, err := unix.Listxattr(dir+"/held", list); err != nil || string(list[:n]) != "user.a\x00user.b\x00" && string(list[:n]) != "user.b\x00user.a\x00" {
		t.Errorf("attributes of the held file: %q %v", list[:n], err)
	}
	record := "setxattr: " + WhyGate.String() + " EPERM"
	compareLines(t, strings.Join(h.log.surfaces(), "\n"), strings.Join(slices.Repeat([]string{record}, 4), "\n"))
}

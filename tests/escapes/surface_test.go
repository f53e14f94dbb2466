package escapes_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// A surface is a call that no supervised tree has business with, with arguments
// that do no harm should it pass.
type surface struct {
	name string
	call []string
}

func surfaces() []surface {
	const newUser, newNS, newPID = unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID
	return []surface{
		{"mount", line(unix.SYS_MOUNT, "s:none", "s:{ws}/none", "s:tmpfs", 0, 0)}, {"umount2", line(unix.SYS_UMOUNT2, "s:{ws}/none", 0)},
		{"fsopen", line(unix.SYS_FSOPEN, "s:nonefs", 0)}, {"fspick", line(unix.SYS_FSPICK, -1, "s:none", 0)}, {"fsconfig", line(unix.SYS_FSCONFIG, -1, 0, 0, 0, 0)},
		{"fsmount", line(unix.SYS_FSMOUNT, -1, 0, 0)}, {"open_tree", line(unix.SYS_OPEN_TREE, -100, "s:{ws}/none", 1)},
		{"move_mount", line(unix.SYS_MOVE_MOUNT, -1, "s:", -1, "s:", 0)}, {"mount_setattr", line(unix.SYS_MOUNT_SETATTR, -1, "s:", 0, "z:32", 32)},
		{"unshare user", line(unix.SYS_UNSHARE, newUser)}, {"unshare mount", line(unix.SYS_UNSHARE, newNS)}, {"unshare net", line(unix.SYS_UNSHARE, unix.CLONE_NEWNET)},
		{"unshare high bits", line(unix.SYS_UNSHARE, "0x110000000")}, {"setns", line(unix.SYS_SETNS, -1, 0)},
		{"clone user", line(unix.SYS_CLONE, newUser|newPID|unix.CLONE_FS /* which cannot be */, 0, 0, 0, 0)},
		{"chroot", line(unix.SYS_CHROOT, "s:{ws}/none")}, {"pivot_root", line(unix.SYS_PIVOT_ROOT, "s:{ws}/none", "s:{ws}/none")},
		{"bpf", line(unix.SYS_BPF, 0, "z:64", 64)}, {"perf_event_open", line(unix.SYS_PERF_EVENT_OPEN, "z:128", 0, -1, -1, 0)},
		{"kexec_load", line(unix.SYS_KEXEC_LOAD, 0, 99, 0, 0)}, {"kexec_file_load", line(unix.SYS_KEXEC_FILE_LOAD, -1, -1, 0, 0, 99)},
		{"init_module", line(unix.SYS_INIT_MODULE, "z:8", 8, "s:")}, {"finit_module", line(unix.SYS_FINIT_MODULE, -1, "s:", 0)},
		{"delete_module", line(unix.SYS_DELETE_MODULE, "s:no_such_module", 0)},
		{"keyctl", line(unix.SYS_KEYCTL, 0, -3, 0)}, {"add_key", line(unix.SYS_ADD_KEY, "s:none", "s:x", 0, 0, 0)}, {"request_key", line(unix.SYS_REQUEST_KEY, "s:none", "s:x", 0, 0)},
		{"userfaultfd", line(unix.SYS_USERFAULTFD, 0)}, {"ptrace", line(unix.SYS_PTRACE, 16, 99999999, 0, 0)}, {"process_vm_readv", line(unix.SYS_PROCESS_VM_READV, 1, 0, 0, 0, 0, 0)},
		{"process_vm_writev", line(unix.SYS_PROCESS_VM_WRITEV, 1, 0, 0, 0, 0, 0)}, {"kcmp", line(unix.SYS_KCMP, 1, "self", 0, 0, 0)},
		{"process_madvise", line(unix.SYS_PROCESS_MADVISE, -1, 0, 0, 0, 0)}, {"pidfd_getfd", line(unix.SYS_PIDFD_GETFD, -1, 0, 0)},
		{"reboot", line(unix.SYS_REBOOT, 0, 0, 0, 0)}, {"swapon", line(unix.SYS_SWAPON, "s:{ws}/none", 0)}, {"swapoff", line(unix.SYS_SWAPOFF, "s:{ws}/none")},
		{"acct", line(unix.SYS_ACCT, "s:{ws}/none")}, {"quotactl", line(unix.SYS_QUOTACTL, 0, 0, 0, 0)},
		{"settimeofday", line(unix.SYS_SETTIMEOFDAY, 0, 0)}, {"clock_settime", line(unix.SYS_CLOCK_SETTIME, 99, "z:16")},
		{"iopl", line(unix.SYS_IOPL, 0)}, {"ioperm", line(unix.SYS_IOPERM, 0, 0, 0)}, {"fanotify_init", line(unix.SYS_FANOTIFY_INIT, 0, 0)},
		{"syslog", line(unix.SYS_SYSLOG, 10, 0, 0)}, {"sethostname", line(unix.SYS_SETHOSTNAME, 0, -1)}, {"setdomainname", line(unix.SYS_SETDOMAINNAME, 0, -1)},
		{"open_by_handle_at", line(unix.SYS_OPEN_BY_HANDLE_AT, -1, "z:8", 0)},
		{"io_uring_setup", line(unix.SYS_IO_URING_SETUP, 1, "z:120")}, {"io_uring_enter", line(unix.SYS_IO_URING_ENTER, -1, 0, 0, 0, 0, 0)},
		{"io_uring_register", line(unix.SYS_IO_URING_REGISTER, -1, 0, 0, 0)}, {"memfd_secret", line(unix.SYS_MEMFD_SECRET, 0)},
		{"file_setattr", line(469, -100, "s:{config}", "z:24", 24, 0)},
	}
}

// TestSurfaces: one session knocks at every door of the kernel that stays shut
// (S01–S15, P19). Each answers EPERM, EACCES or ENOSYS, and each is recorded.
func TestSurfaces(t *testing.T) {
	all := surfaces()
	tiers(t, false, func(t *testing.T, nobody bool) {
		var calls []string
		for _, s := range all {
			calls = append(calls, strings.Join(s.call, " "))
		}
		g := trial.NewGround(t, nobody)
		stdin := g.Expand(strings.Join(calls, "\n") + "\n")
		control := answers(trial.NewGround(t, nobody).Native(trial.Options{Stdin: strings.NewReader(stdin)}, "{victim}", "batch").Stdout)
		r := g.Supervised(trial.Options{Stdin: strings.NewReader(stdin)}, "{victim}", "batch")
		got := answers(r.Stdout)
		if len(got) != len(all) || len(control) != len(all) {
			t.Fatalf("%d answers natively, %d under reeve, want %d: %s", len(control), len(got), len(all), r.Text())
		}
		seen := map[string]int{}
		for _, e := range trial.Denials(r.Events) {
			seen[e.Syscall]++
		}
		passed := 0
		for i, s := range all {
			name, _, _ := strings.Cut(s.name, " ")
			if control[i] != got[i] {
				passed++
			}
			if !regexp.MustCompile(barred).MatchString(got[i]) {
				t.Errorf("%s: %s, natively %s", s.name, got[i], control[i])
			}
			// What the kernel does not have needs no record.
			if seen[name] == 0 && !strings.Contains(control[i], "errno=38") {
				t.Errorf("%s: no denial in the stream", s.name)
			}
		}
		if passed < len(all)/3 {
			t.Errorf("control: only %d of %d answer differently natively", passed, len(all))
		}
		g.KeptSecret(r)
	})
}

var answer = regexp.MustCompile(`(?m)^(?:keep )?\d+ .*: (ret=.*)$`)

func answers(out string) []string {
	var list []string
	for _, m := range answer.FindAllStringSubmatch(out, -1) {
		list = append(list, fmt.Sprint(m[1]))
	}
	return list
}

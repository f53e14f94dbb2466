package escapes_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestContent: a file that may only be read keeps its content (F01).
func TestContent(t *testing.T) {
	deny := &trial.Denial{Ops: []string{"truncate"}, Path: "{config}"}
	write := &trial.Denial{Ops: []string{"open", "create", "truncate"}, Path: "{config}"}
	run(t, []row{
		{id: "F01", name: "truncate", argv: call(unix.SYS_TRUNCATE, "s:{config}", 0), deny: deny},
		{id: "F01", name: "truncate relative", argv: call(unix.SYS_TRUNCATE, "s:.git/config", 3), deny: deny},
		{id: "F01", name: "truncate symlink", prepare: symlink("{config}", "{ws}/l"), argv: call(unix.SYS_TRUNCATE, "s:l", 0), deny: deny},
		{id: "F01", name: "open for truncation", argv: call(unix.SYS_OPENAT, -100, "s:{config}", unix.O_WRONLY|unix.O_TRUNC), deny: write},
		{id: "F01", name: "read-only truncation", argv: call(unix.SYS_OPENAT, -100, "s:{config}", unix.O_RDONLY|unix.O_TRUNC), deny: write},
		{id: "F01", name: "creat", argv: call(unix.SYS_CREAT, "s:{config}", 0o644), deny: write},
		{id: "F01", name: "create if missing", argv: call(unix.SYS_OPENAT, -100, "s:{config}", unix.O_RDWR|unix.O_CREAT, 0o644), deny: write},
		{id: "F01", name: "append", argv: call(unix.SYS_OPENAT, -100, "s:{config}", unix.O_WRONLY|unix.O_APPEND), deny: write},
		{id: "F01", name: "ioctl mode", argv: call(unix.SYS_OPENAT, -100, "s:{config}", 3), deny: write},
		{id: "F01", name: "new hook", argv: call(unix.SYS_OPENAT, -100, "s:{hooks}/post-merge", unix.O_WRONLY|unix.O_CREAT, 0o755),
			deny: &trial.Denial{Ops: []string{"create", "open"}, Path: "{hooks}/post-merge"}},
		{id: "F01", name: "outside", argv: call(unix.SYS_TRUNCATE, "s:{outside}/secret.txt", 0),
			deny: &trial.Denial{Ops: []string{"truncate"}, Path: "{outside}/secret.txt"}},
	})
}

// TestHelpers: what makes the kernel or a daemon run something outside the session is
// not written (X22). The control only opens it.
func TestHelpers(t *testing.T) {
	var rows []row
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/etc/passwd"} {
		rows = append(rows, row{id: "X22", name: path, root: true, argv: call(unix.SYS_OPENAT, -100, "s:"+path, unix.O_WRONLY),
			deny: &trial.Denial{Ops: []string{"open"}, Path: path}})
	}
	run(t, rows)
}

// TestAttributes: nor do mode, owner, attributes and times change (F02–F05).
func TestAttributes(t *testing.T) {
	deny := func(op string) *trial.Denial { return &trial.Denial{Ops: []string{op}, Path: "{config}"} }
	meta := func(id, name, op string, argv []string) row {
		return row{id: id, name: name, argv: argv, deny: deny(op)}
	}
	const empty = unix.AT_EMPTY_PATH
	rows := []row{
		meta("F02", "chmod", "chmod", call(unix.SYS_CHMOD, "s:{config}", 0o777)),
		meta("F02", "fchmod", "chmod", call(unix.SYS_FCHMOD, "r:{config}", 0o777)),
		meta("F02", "fchmodat", "chmod", call(unix.SYS_FCHMODAT, "d:{ws}", "s:.git/config", 0o777)),
		meta("F02", "fchmodat2", "chmod", call(sysFchmodat2, -100, "s:{config}", 0o777, unix.AT_SYMLINK_NOFOLLOW)),
		meta("F02", "fchmodat2 of descriptor", "chmod", call(sysFchmodat2, "r:{config}", "s:", 0o777, empty)),
		meta("F02", "fchmodat2 of path descriptor", "chmod", call(sysFchmodat2, "p:{config}", "s:", 0o777, empty)),
		meta("F03", "chown", "chown", call(unix.SYS_CHOWN, "s:{config}", "{uid}", "{gid}")),
		meta("F03", "lchown", "chown", call(unix.SYS_LCHOWN, "s:{config}", "{uid}", "{gid}")),
		meta("F03", "fchown", "chown", call(unix.SYS_FCHOWN, "r:{config}", "{uid}", "{gid}")),
		meta("F03", "fchownat", "chown", call(unix.SYS_FCHOWNAT, -100, "s:.git/config", "{uid}", "{gid}", 0)),
		meta("F03", "fchownat of path descriptor", "chown", call(unix.SYS_FCHOWNAT, "p:{config}", "s:", "{uid}", "{gid}", empty)),
		meta("F04", "setxattr", "setxattr", call(unix.SYS_SETXATTR, "s:{config}", "s:user.reeve", "s:v", 1, 0)),
		meta("F04", "lsetxattr", "setxattr", call(unix.SYS_LSETXATTR, "s:{config}", "s:user.reeve", "s:v", 1, 0)),
		meta("F04", "fsetxattr", "setxattr", call(unix.SYS_FSETXATTR, "r:{config}", "s:user.reeve", "s:v", 1, 0)),
		meta("F04", "setxattrat", "setxattr", call(sysSetxattrat, -100, "s:{config}", 0, "s:user.reeve", "z:16", 16)),
		meta("F05", "utime", "utime", call(unix.SYS_UTIME, "s:{config}", 0)),
		meta("F05", "utimes", "utime", call(unix.SYS_UTIMES, "s:{config}", 0)),
		meta("F05", "futimesat", "utime", call(unix.SYS_FUTIMESAT, -100, "s:{config}", 0)),
		meta("F05", "utimensat", "utime", call(unix.SYS_UTIMENSAT, -100, "s:{config}", "z:32", 0)),
		meta("F05", "futimens", "utime", call(unix.SYS_UTIMENSAT, "r:{config}", 0, 0, 0)),
		meta("F05", "utimensat of path descriptor", "utime", call(unix.SYS_UTIMENSAT, "p:{config}", "s:", 0, empty)),
	}
	const absent = `errno=(0|61|38)`
	for _, remove := range []struct {
		name string
		argv []string
	}{
		{"removexattr", call(unix.SYS_REMOVEXATTR, "s:{config}", "s:user.reeve")},
		{"lremovexattr", call(unix.SYS_LREMOVEXATTR, "s:{config}", "s:user.reeve")},
		{"fremovexattr", call(unix.SYS_FREMOVEXATTR, "r:{config}", "s:user.reeve")},
		{"removexattrat", call(466, -100, "s:{config}", 0, "s:user.reeve")},
	} {
		rows = append(rows, row{id: "F04", name: remove.name, argv: remove.argv, native: absent, deny: deny("setxattr")})
	}
	rows = append(rows, row{id: "F04", name: "capabilities", root: true, deny: deny("setxattr"),
		argv: call(unix.SYS_SETXATTR, "s:{config}", "s:security.capability",
			"x:0100000200000000000000000000000000000000", 20, 0)})
	run(t, rows)
}

// TestNames: a protected name is neither taken away nor given to another (F06).
func TestNames(t *testing.T) {
	deny := func(op, path, target string) *trial.Denial {
		return &trial.Denial{Ops: strings.Split(op, "|"), Path: path, Target: target}
	}
	away := deny("rename", "{config}", "{ws}/x")
	gone := deny("delete", "{config}", "")
	run(t, []row{
		{id: "F06", name: "unlink", argv: call(unix.SYS_UNLINK, "s:{config}"), deny: gone},
		{id: "F06", name: "unlinkat", argv: call(unix.SYS_UNLINKAT, "d:{ws}/.git", "s:config", 0), deny: gone},
		{id: "F06", name: "unlink secret", argv: call(unix.SYS_UNLINK, "s:{secret}"), deny: deny("delete", "{secret}", "")},
		{id: "F06", name: "rmdir", argv: call(unix.SYS_RMDIR, "s:{ws}/.github"), deny: deny("rmdir|delete", "{ws}/.github", "")},
		{id: "F06", name: "unlinkat directory", argv: call(unix.SYS_UNLINKAT, -100, "s:.github", unix.AT_REMOVEDIR),
			deny: deny("rmdir|delete", "{ws}/.github", "")},
		{id: "F06", name: "rename", argv: call(unix.SYS_RENAME, "s:{config}", "s:{ws}/x"), deny: away},
		{id: "F06", name: "renameat", argv: call(unix.SYS_RENAMEAT, -100, "s:.git/config", "d:{ws}", "s:x"), deny: away},
		{id: "F06", name: "renameat2 noreplace", argv: call(unix.SYS_RENAMEAT2, -100, "s:{config}", -100, "s:x", 1), deny: away},
		{id: "F06", name: "renameat2 exchange", argv: call(unix.SYS_RENAMEAT2, -100, "s:{config}", -100, "s:{ok}", 2),
			deny: deny("rename", "{config}", "{ok}")},
		{id: "F06", name: "renameat2 whiteout", root: true, argv: call(unix.SYS_RENAMEAT2, -100, "s:{config}", -100, "s:x", 4),
			want: `ret=-1 errno=(1|13)`, deny: &trial.Denial{Ops: []string{"rename"}, Path: "{config}", Target: "{ws}/x", Errno: "*"}},
		{id: "F06", name: "mkdir in hooks", argv: call(unix.SYS_MKDIR, "s:{hooks}/d", 0o755), deny: deny("mkdir", "{hooks}/d", "")},
		{id: "F06", name: "symlink in hooks", argv: call(unix.SYS_SYMLINK, "s:{ok}", "s:{hooks}/l"), deny: deny("symlink", "", "")},
		{id: "F06", name: "fifo in hooks", argv: call(unix.SYS_MKNOD, "s:{hooks}/p", unix.S_IFIFO|0o644, 0), deny: deny("mknod", "{hooks}/p", "")},
	})
}

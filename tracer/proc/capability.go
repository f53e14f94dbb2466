package proc

import "fmt"

// capNames are the capabilities in the order of their numbers (capabilities(7),
// linux/capability.h), without CAP_.
var capNames = [...]string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
	"linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
	"sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
	"mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
	"checkpoint_restore",
}

// Capabilities is the set of the named capabilities; "*" names all.
func Capabilities(names []string) (uint64, error) {
	var set uint64
	for _, n := range names {
		if n == "*" {
			return 1<<len(capNames) - 1, nil
		}
		i := index(n)
		if i < 0 {
			return 0, fmt.Errorf("there is no capability %q", n)
		}
		set |= 1 << i
	}
	return set, nil
}

func index(name string) int {
	for i, n := range capNames {
		if n == name {
			return i
		}
	}
	return -1
}

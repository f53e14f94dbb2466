package probe

import (
	"os"
	"slices"
	"strings"
)

// hintLSM says how to switch BPF LSM on, on this distribution.
func hintLSM() string {
	release, _ := os.ReadFile("/etc/os-release")
	active, _ := os.ReadFile("/sys/kernel/security/lsm")
	return lsmHint(string(release), string(active))
}

// lsmHint is hintLSM from the contents of os-release(5) and of the kernel's list
// of security modules.
func lsmHint(release, active string) string {
	want := "landlock,lockdown,yama,integrity,bpf"
	if list := strings.TrimSpace(active); list != "" {
		modules := slices.DeleteFunc(strings.Split(list, ","), func(m string) bool {
			return m == "capability" || m == "bpf" // capability is always there
		})
		want = strings.Join(append(modules, "bpf"), ",")
	}
	arg := "lsm=" + want
	ids := distribution(release)
	is := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(ids, n) })
	}
	switch {
	case is("fedora", "rhel", "centos"):
		return "run `grubby --update-kernel=ALL --args=" + arg + "` and restart"
	case is("debian", "ubuntu"):
		return "add " + arg + " to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub and restart"
	case is("suse", "opensuse", "sles"):
		return "add " + arg + " to GRUB_CMDLINE_LINUX in /etc/default/grub, run " +
			"`grub2-mkconfig -o /boot/grub2/grub.cfg` and restart"
	case is("arch"):
		return "add " + arg + " to the kernel parameters of the boot loader and restart"
	case is("nixos"):
		return "set boot.kernelParams = [ \"" + arg + "\" ], rebuild and restart"
	}
	return "add " + arg + " to the kernel command line and restart"
}

// distribution is ID and ID_LIKE of os-release(5).
func distribution(release string) []string {
	var ids []string
	for line := range strings.Lines(release) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "ID" || key == "ID_LIKE" {
			ids = append(ids, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	return ids
}

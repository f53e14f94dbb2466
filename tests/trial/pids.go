package trial

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// smallPidMax is the least that the kernel takes for two processors.
const smallPidMax = 400

// SmallPids is a command prefix that runs the rest in a pid namespace of few
// numbers, so that they are reused soon. Nil where pid_max is not per
// namespace: setting it would change the whole machine.
var SmallPids = sync.OnceValue(func() []string {
	const path = "/proc/sys/kernel/pid_max"
	script := "echo " + strconv.Itoa(smallPidMax) + " > " + path + ` && "$@"`
	prefix := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh"}
	if os.Geteuid() != 0 || !KernelSince(6, 14) {
		return nil
	}
	out, err := exec.Command(prefix[0], append(prefix[1:], "cat", path)...).Output()
	if err != nil || strings.TrimSpace(string(out)) != strconv.Itoa(smallPidMax) {
		return nil
	}
	return prefix
})

// KernelSince says whether this kernel is of a version or newer.
func KernelSince(major, minor int) bool {
	x, y := kernelVersion()
	return x > major || x == major && y >= minor
}

func kernelVersion() (major, minor int) {
	data, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return 0, 0
	}
	parts := strings.SplitN(string(data), ".", 3)
	if len(parts) < 2 {
		return 0, 0
	}
	major, _ = strconv.Atoi(parts[0])
	minor, _ = strconv.Atoi(parts[1])
	return major, minor
}

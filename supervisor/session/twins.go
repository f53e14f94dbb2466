package session

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// maxTwins bounds how many pairs of mounts are looked at: a session must not wait
// for a machine on which one file system is mounted everywhere.
const maxTwins = 1024

// mounted is one line of proc_pid_mountinfo(5).
type mounted struct {
	device, root, point string
}

// Twins are the directories and files of this machine that mounts show in two
// places.
func Twins() ([]policy.Twin, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	list, err := parseMounts(string(b))
	if err != nil {
		return nil, err
	}
	byDevice := map[string][]mounted{}
	for _, m := range list {
		byDevice[m.device] = append(byDevice[m.device], m)
	}
	var out []policy.Twin
	pairs := 0
	for _, m := range list {
		for _, o := range byDevice[m.device] {
			if pairs++; pairs > maxTwins*maxTwins {
				return nil, fmt.Errorf("look for mounts of one file system in several places: more than %d pairs", maxTwins*maxTwins)
			}
			t, ok := twin(m, o)
			if !ok || t.Other == t.Path || !sameFile(t) {
				continue
			}
			if len(out) == maxTwins {
				return nil, fmt.Errorf("look for mounts of one file system in several places: more than %d", maxTwins)
			}
			out = append(out, t)
		}
	}
	return out, nil
}

// twin says where what m shows stands in what o shows.
func twin(m, o mounted) (policy.Twin, bool) {
	rest, ok := strings.CutPrefix(m.root, strings.TrimSuffix(o.root, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return policy.Twin{}, false
	}
	if rest == "/" {
		rest = ""
	}
	other := strings.TrimSuffix(o.point, "/") + rest
	if other == "" {
		other = "/"
	}
	return policy.Twin{Path: m.point, Other: other}, true
}

// sameFile says whether both names still lead to one object: another mount may
// stand over either. A server that does not answer is not asked.
func sameFile(t policy.Twin) bool {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	var a, b unix.Statx_t
	return unix.Statx(unix.AT_FDCWD, t.Path, flags, unix.STATX_INO, &a) == nil &&
		unix.Statx(unix.AT_FDCWD, t.Other, flags, unix.STATX_INO, &b) == nil &&
		a.Dev_major == b.Dev_major && a.Dev_minor == b.Dev_minor && a.Ino == b.Ino
}

func parseMounts(text string) ([]mounted, error) {
	var list []mounted
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 {
			return nil, fmt.Errorf("read mounts: a line of %d fields: %q", len(f), line)
		}
		list = append(list, mounted{device: f[2], root: unescape(f[3]), point: unescape(f[4])})
	}
	return list, nil
}

// unescape undoes the octal escapes of blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// machineFor returns the command as a program, or skips without QEMU.
func machineFor(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"qemu-system-x86_64", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			trial.Skip(t, "vm", err.Error())
		}
	}
	bin := filepath.Join(t.TempDir(), "vm")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// TestMachine: a program's output and status come through as they are, and a
// machine that crashes or hangs is never a success.
func TestMachine(t *testing.T) {
	bin := machineFor(t)
	for _, c := range []struct {
		name           string
		argv           []string
		status         int
		stdout, stderr string // exactly, and somewhere
	}{
		{"status", []string{"sh", "-c", `printf 'out\n\0'; echo err >&2; cat testdata/word; cat /sys/kernel/security/lsm >&2; exit 7`}, 7, "out\n\x00through\n", ",bpf"},
		{"noise", []string{"sh", "-c", "echo '<0>noise' > /dev/kmsg; echo fine"}, 0, "fine\n", ""},
		{"modules", []string{"sh", "-c", "grep -c -w -e overlay -e binfmt_misc -e ext4 /proc/filesystems"}, 0, "3\n", ""},
		{"signal", []string{"sh", "-c", "kill -9 $$"}, 137, "", ""},
		{"crash", []string{"sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60"}, broken, "", "sysrq triggered crash"},
		{"reset", []string{"sh", "-c", "echo b > /proc/sysrq-trigger; sleep 60"}, broken, "", "without a status"},
		{"no start", []string{"-append", "rdinit=/none root=/none", "true"}, broken, "", "did not come up"},
		{"hang", []string{"sleep", "1000"}, broken, "", "hard limit"},
		{"no program", []string{"no-such-program"}, broken, "", "no program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := "4m"
			if c.name == "hang" {
				limit = "16s"
			}
			var stdout, stderr strings.Builder
			cmd := exec.Command(bin, append([]string{"-limit", limit}, c.argv...)...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			status := trial.ExitStatus(cmd.Run())
			if status != c.status || stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("status %d, want %d; stdout %q, want %q; stderr, want %q in it:\n%s",
					status, c.status, stdout.String(), c.stdout, c.stderr, stderr.String())
			}
		})
	}
}

// TestPackages: the tests of packages run, and one that fails is a failure.
func TestPackages(t *testing.T) {
	bin := machineFor(t)
	const pkg = "github.com/reeve-audit/reeve/tests/vm/wire"
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-test.v"}, 0, "--- PASS: TestBroken"},
		{nil, 0, "PASS\nok\t" + pkg + "\t"},
		{[]string{"-test.none"}, 1, "FAIL\t" + pkg + "\t"},
	} {
		out, err := exec.Command(bin, append([]string{"-limit", "4m", "-package", "./wire", "--"}, c.args...)...).CombinedOutput()
		if status := trial.ExitStatus(err); status != c.status || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: status %d, want %d, and %q in\n%s", c.args, status, c.status, c.want, out)
		}
	}
}

// TestVersions: the newest package is the one with the greatest numbers.
func TestVersions(t *testing.T) {
	names := []string{"linux-image-6.12.9+deb12-cloud-amd64", "linux-image-6.12.117+deb12-cloud-amd64", "linux-image-6.12.20+deb13-cloud-amd64"}
	if got := slices.MaxFunc(names, byVersion); got != names[1] {
		t.Errorf("got %s, want %s", got, names[1])
	}
}

// TestParse: what cannot be run is refused before anything is fetched.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, "no program"}, {[]string{"-limit", "15s", "sh"}, "limit"}, {[]string{"-kernel", "6.12"}, "no program"},
	} {
		if _, err := parse(c.argv); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.argv, err, c.want)
		}
	}
	if _, err := (&project{cache: t.TempDir()}).kernel(t.Context(), "../6"); err == nil {
		t.Error("kernel ../6 is taken for a series")
	}
	m := machine{config: &config{limit: time.Minute}}
	for given, want := range map[string]time.Duration{"10m0s": 45 * time.Second, "5s": 5 * time.Second, "0s": 45 * time.Second} {
		if got := m.testTimeout(given); got != want {
			t.Errorf("timeout %s becomes %v, want %v", given, got, want)
		}
	}
}

// TestMissingLibrary: a program whose library is not there is not half taken along.
func TestMissingLibrary(t *testing.T) {
	img, err := newImage(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	img.library("/bin/x", "libnone.so.1")
	if err := img.close(); err == nil || !strings.Contains(err.Error(), "libnone.so.1") {
		t.Errorf("%v, want the library named", err)
	}
	img, err = newImage(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	img.tree("/x", "/nonexistent")
	if err := img.close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that it does not exist", err)
	}
}

package proc

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What is known of a local file without asking is what fstat says.
func TestStatNow(t *testing.T) {
	for _, path := range []string{"/", "/proc/self/status", "/dev/null", "/proc/self/exe"} {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("open %s: %v", path, err)
		}
		defer unix.Close(fd)
		var got, want unix.Stat_t
		if err := statNow(fd, &got); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := unix.Fstat(fd, &want); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", path, got, want)
		}
	}
}

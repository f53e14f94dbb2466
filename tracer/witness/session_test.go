package witness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The re-executed test binary is a victim: see victim.
const victimEnv = "REEVE_WITNESS_TEST_VICTIM"

func init() {
	// The main goroutine keeps the process's first thread.
	if os.Getenv(victimEnv) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if kind := os.Getenv(victimEnv); kind != "" {
		victim(kind)
	}
	os.Exit(m.Run())
}

// victim waits for a line on stdin, says a thread's id where the kind needs
// that, and becomes os.Args[1:].
func victim(kind string) {
	run := func() {
		if kind == "thread" {
			_, _ = os.Stdout.WriteString(strconv.Itoa(unix.Gettid()) + "\n")
		}
		_, _ = os.Stderr.WriteString("ready\n")
		var b [1]byte
		_, _ = os.Stdin.Read(b[:])
		if kind == "threads" {
			for range 32 {
				go func() { runtime.LockOSThread(); _ = unix.Pause() }()
			}
			os.Exit(5)
		}
		if kind == "spawn" { // clone(CLONE_VFORK|CLONE_VM)
			if err := exec.Command(os.Args[1], os.Args[2:]...).Run(); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		}
		_ = syscall.Exec(os.Args[1], os.Args[1:], nil)
		os.Exit(99)
	}
	if kind != "thread" {
		run()
	}
	go func() {
		runtime.LockOSThread()
		run()
	}()
	select {}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatal("REQUIRE=root, but this test needs root")
		}
		t.Skip("needs root: loads BPF programs")
	}
}

// session is a witness with the records that it gave so far.
type session struct {
	*Witness
	t    testing.TB
	stop func()

	mu      sync.Mutex
	records []Record
}

// start loads a witness and, unless paused, reads from it.
func start(t testing.TB, cfg Config, paused bool) *session {
	t.Helper()
	needRoot(t)
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{Witness: w, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s.stop = sync.OnceFunc(func() {
		if paused {
			go func() { done <- w.Run(ctx, s.add) }()
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	if !paused {
		go func() { done <- w.Run(ctx, s.add) }()
	}
	t.Cleanup(func() {
		s.stop()
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func (s *session) add(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, r)
}

// all ends reading and is everything that was recorded.
func (s *session) all() []Record {
	s.stop()
	return s.records
}

// adopt starts a command that writes to stderr once it is up and then waits for
// a line on stdin, and takes it into the session; release lets it go on.
func (s *session) adopt(cmd *exec.Cmd) (release func()) {
	s.t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	// Its own exec must be over; that Start returned does not say so.
	if _, err := stderr.Read(make([]byte, 8)); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Adopt(cmd.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
	return func() { _, _ = stdin.Write([]byte("\n")) }
}

// sh runs a script in the session from its start to its end.
func (s *session) sh(script string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", "echo >&2; read _; " + script, "sh"}, args...)...)
	s.adopt(cmd)()
	_ = cmd.Wait()
	return cmd
}

// become is a victim that execs argv once it is let go.
func become(kind string, argv ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", argv...)
	cmd.Env = []string{victimEnv + "=" + kind}
	return cmd
}

func inodeOf(t testing.TB, path string) Inode {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var d Devices
	in, err := d.Inode(fd)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// resolve is the real path of a program.
func resolve(t testing.TB, program string) string {
	t.Helper()
	p, err := exec.LookPath(program)
	if err == nil {
		p, err = filepath.EvalSymlinks(p)
	}
	if err != nil {
		t.Skipf("needs %s: %v", program, err)
	}
	return p
}

func only[R Record](records []Record) (out []R) {
	for _, r := range records {
		if r, ok := r.(R); ok {
			out = append(out, r)
		}
	}
	return out
}

func bootNow(t testing.TB) uint64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Fatal(err)
	}
	return uint64(ts.Nano())
}

// eventually waits for cond, up to some seconds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

// Package chserver starts a real ClickHouse for tests: chdb's library from npm,
// run by the launcher beside this file in a process of its own.
package chserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startTimeout is how long a server may take to open its ports.
const startTimeout = 60 * time.Second

// Server is one ClickHouse. Its methods are for the goroutine of the test.
type Server struct {
	dir       string
	tcp, http string
	cmd       *exec.Cmd
	stdin     io.Closer
	log       *bytes.Buffer
}

// Start starts a server that ends with the test. Without the library it skips
// the test and says why; with "clickhouse" in the environment variable REQUIRE
// it fails instead.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{dir: tb.TempDir(), tcp: "0", http: "0"}
	s.Restart(tb)
	tb.Cleanup(func() { s.Kill(tb) })
	return s
}

// URL is the address of a database for the native protocol.
func (s *Server) URL(database string) string {
	return "clickhouse://127.0.0.1:" + s.tcp + "/" + database
}

// HTTP is the address of the HTTP interface.
func (s *Server) HTTP() string { return "http://127.0.0.1:" + s.http }

// Kill kills the server with SIGKILL. What it has stored stays.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may be gone
	_ = s.cmd.Wait()         // its status tells more
	_ = s.stdin.Close()
	if ws, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		tb.Errorf("ClickHouse ended by itself: %s\n%s", s.cmd.ProcessState, s.log)
	}
	s.cmd = nil
}

// Revive starts the server anew when it ended by itself: this one (26.7 as a library)
// now and then aborts when a connection is cut in the middle of an insert.
func (s *Server) Revive(tb testing.TB) bool {
	tb.Helper()
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, s.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err != nil || info.Signo == 0 { // it runs
		return false
	}
	_ = s.cmd.Wait() // its status tells more
	_ = s.stdin.Close()
	tb.Logf("ClickHouse ended by itself (%s) and is started anew\n%s", s.cmd.ProcessState, s.log)
	s.Restart(tb)
	return true
}

// Restart starts the server, on the ports it had and with what it has stored.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	lib, err := library()
	if err != nil {
		skip(tb, err)
	}
	launcher, err := buildLauncher()
	if err != nil {
		tb.Fatal(err)
	}
	ports, child, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = ports.Close() }()
	s.cmd = exec.Command(launcher, "-lib", lib, "-path", s.dir, "-tcp-port", s.tcp, "-http-port", s.http)
	s.cmd.ExtraFiles = []*os.File{child}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.log = &bytes.Buffer{}
	s.cmd.Stderr, s.cmd.Stdout = s.log, s.log
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	err = s.cmd.Start()
	_ = child.Close()
	if err != nil {
		tb.Fatal(err)
	}
	if err := ports.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		tb.Fatal(err)
	}
	line, err := bufio.NewReader(ports).ReadString('\n')
	if err != nil {
		s.Kill(tb)
		tb.Fatalf("ClickHouse did not start: %v\n%s", err, s.log)
	}
	s.tcp, s.http, _ = strings.Cut(strings.TrimSpace(line), "\t")
}

// Query runs a statement over HTTP and returns what it prints.
func (s *Server) Query(tb testing.TB, query string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.HTTP()+"/?"+url.Values{"mutations_sync": {"1"}}.Encode(),
		strings.NewReader(query))
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		tb.Fatalf("%s: %s %s %v", query, resp.Status, body, err)
	}
	return string(body)
}

func skip(tb testing.TB, why error) {
	tb.Helper()
	if strings.Contains(os.Getenv("REQUIRE"), "clickhouse") {
		tb.Fatal(why)
	}
	tb.Skip(why)
}

// here is the directory of this file.
func here() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func library() (string, error) {
	path := filepath.Join(here(), "node_modules", "@chdb", "lib-linux-x64-gnu", "libchdb.so")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no ClickHouse: %w; run npm --prefix tests/chserver ci --ignore-scripts", err)
	}
	return path, nil
}

// buildLauncher builds the launcher once in a process. It lies with the library,
// in a folder that version control ignores, and appears there at once: other
// tests may be starting it.
var buildLauncher = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(here(), "node_modules", ".launcher")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build launcher: %w", err)
	}
	fresh := filepath.Join(dir, fmt.Sprintf("launcher.%d", os.Getpid()))
	cmd := exec.Command("go", "build", "-o", fresh, "./launcher")
	cmd.Dir = here()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build launcher: %w\n%s", err, msg)
	}
	out := filepath.Join(dir, "launcher")
	if err := os.Rename(fresh, out); err != nil {
		return "", fmt.Errorf("build launcher: %w", err)
	}
	return out, nil
})

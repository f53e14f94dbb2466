// Command init is the first process of the test machine. It makes the machine
// look like a running system (mounts, loopback, clock, kernel modules), runs the
// one job that the initial file system names, and reports over the second serial
// port in frames of package wire. Whatever goes wrong is a line on the console
// and no exit frame, which the host takes for a crash.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/vm/wire"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	unix.Sync()
	// The host runs the machine with -no-reboot: this ends it.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	os.Exit(1)
}

func run() error {
	if err := mountAll(); err != nil {
		return err
	}
	job, err := readJob()
	if err != nil {
		return err
	}
	if err := setUp(job); err != nil {
		return err
	}
	p, err := openPort("/dev/ttyS1")
	if err != nil {
		return err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return fmt.Errorf("name the kernel: %w", err)
	}
	if err := p.write(wire.Hello, []byte(unix.ByteSliceToString(uts.Release[:]))); err != nil {
		return err
	}
	status, err := p.run(job)
	if err != nil {
		return err
	}
	if err := p.write(wire.Exit, []byte(strconv.Itoa(status))); err != nil {
		return err
	}
	return p.drain()
}

func readJob() (*wire.Job, error) {
	data, err := os.ReadFile(wire.JobFile)
	if err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	var job wire.Job
	if err := json.Unmarshal(data, &job); err != nil {
		return nil, fmt.Errorf("decode job: %w", err)
	}
	return &job, nil
}

// A port is the serial line to the host.
type port struct {
	mu   sync.Mutex // one frame at a time
	line *os.File
}

// openPort opens a serial line and makes it pass bytes as they are.
func openPort(path string) (*port, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("read mode of %s: %w", path, err)
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return nil, fmt.Errorf("set mode of %s: %w", path, err)
	}
	return &port{line: os.NewFile(uintptr(fd), path)}, nil
}

func (p *port) write(kind byte, payload []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return wire.Write(p.line, kind, payload)
}

// drain waits until the last byte has left.
func (p *port) drain() error {
	if err := unix.IoctlSetInt(int(p.line.Fd()), unix.TCSBRK, 1); err != nil {
		return fmt.Errorf("drain serial line: %w", err)
	}
	return nil
}

// run starts the job, passes its output on, and reaps every orphan until the
// job itself has ended.
func (p *port) run(job *wire.Job) (status int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	files := []*os.File{null, nil, nil}
	var copies sync.WaitGroup
	for i, kind := range []byte{wire.Stdout, wire.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return 0, fmt.Errorf("make pipe: %w", err)
		}
		files[i+1] = w
		copies.Go(func() { p.copy(kind, r) })
	}
	proc, err := os.StartProcess(job.Argv[0], job.Argv, &os.ProcAttr{
		Dir: job.Dir, Env: job.Env, Files: files, Sys: &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", job.Argv[0], err)
	}
	files[1].Close()
	files[2].Close()
	ws, err := reap(proc.Pid)
	if err != nil {
		return 0, err
	}
	wait(&copies, 2*time.Second)
	if ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}

// reap waits for children, of which orphans are many, until pid has ended.
func reap(pid int) (unix.WaitStatus, error) {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, fmt.Errorf("wait for job: %w", err)
		case got == pid && (ws.Exited() || ws.Signaled()):
			return ws, nil
		}
	}
}

// wait is copies.Wait that gives up on a daemon which keeps a pipe open.
func wait(copies *sync.WaitGroup, patience time.Duration) {
	done := make(chan struct{})
	go func() { copies.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

func (p *port) copy(kind byte, r *os.File) {
	buf := make([]byte, 1<<15)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := p.write(kind, buf[:n]); err != nil {
				fmt.Fprintln(os.Stderr, "init:", err)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

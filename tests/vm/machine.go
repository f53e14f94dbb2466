package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/reeve-audit/reeve/tests/vm/wire"
)

// grace is how long before the hard limit a test binary gives up by itself.
const grace = 15 * time.Second

// A machine is one boot.
type machine struct {
	*config
	kernel, initrd string
	dir            string // scratch
}

// testTimeout is the test binary's own limit, so that it ends before we do.
func (m *machine) testTimeout(given string) time.Duration {
	d, err := time.ParseDuration(given)
	if err != nil || d <= 0 {
		return m.limit - grace
	}
	return min(d, m.limit-grace)
}

// errNotUp says that the machine ended before it began with the program.
var errNotUp = errors.New("the machine did not come up")

// boot starts the machine, copies the program's output, and returns its status.
// Whatever ends the machine before it has told a status is an error. One that did
// not come up is started once more: that says nothing of the program.
func (m *machine) boot(ctx context.Context) (int, error) {
	status, err := m.start(ctx)
	if errors.Is(err, errNotUp) && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "vm: starting once more:", err)
		status, err = m.start(ctx)
	}
	return status, err
}

func (m *machine) start(ctx context.Context) (int, error) {
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return 0, fmt.Errorf("%w (hint: apt-get install --no-install-recommends qemu-system-x86)", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.limit, fmt.Errorf("no end after the hard limit of %v", m.limit))
	defer cancel()
	console := filepath.Join(m.dir, "console")
	cmd := exec.CommandContext(ctx, qemu, m.options(console)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	line, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start qemu: %w", err)
	}
	status, heard, err := listen(line)
	if err != nil {
		cancel()
	}
	ended := cmd.Wait()
	if m.console {
		fmt.Fprint(os.Stderr, lastLines(console, 10_000))
	}
	if heard == wire.Exit && err == nil {
		return status, nil
	}
	what := errors.New("the machine ended without a status")
	if heard == 0 && ctx.Err() == nil {
		what = errNotUp
	}
	err = errors.Join(what, err, context.Cause(ctx), ended, text(stderr.String()))
	return 0, fmt.Errorf("%w\nits console:\n%s", err, lastLines(console, 60))
}

// options are QEMU's. The console is one serial port, the line to us the other.
// A microvm would boot a second sooner, but has no timer to calibrate the
// processor's clock against when the host is busy, and then hangs; even with one,
// the calibration can be wrong by half, so time is read from that timer itself. A
// busy host may also deliver the first ticks too late for the kernel's own check.
//
// What costs much here and is not what a test is about is left out: clearing memory
// that is written anyway, mitigations of a processor that does not speculate, string
// instructions that are emulated byte by byte, a fifth level of page tables.
func (m *machine) options(console string) []string {
	words := "console=ttyS0 quiet panic=-1 oops=panic reboot=t clocksource=hpet no_timer_check init_on_alloc=0 mitigations=off lsm=landlock,lockdown,yama,bpf " + m.append
	return []string{
		"-M", "q35,usb=off,smm=off,vmport=off", "-accel", "tcg,thread=single", "-cpu", "max,-erms,-la57", "-smp", strconv.Itoa(m.cpus), "-m", strconv.Itoa(m.memory),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-chardev", "file,id=console,path=" + strings.ReplaceAll(console, ",", ",,"), "-serial", "chardev:console",
		"-chardev", "stdio,id=line,signal=off", "-serial", "chardev:line",
		"-kernel", m.kernel, "-initrd", m.initrd, "-append", words,
	}
}

// listen reads frames until the line closes. heard is the kind of the last frame,
// 0 if there was none.
func listen(line io.Reader) (status int, heard byte, err error) {
	for {
		kind, payload, err := wire.Read(line)
		if err == io.EOF {
			return status, heard, nil
		}
		if err != nil {
			return 0, heard, err
		}
		heard = kind
		switch kind {
		case wire.Stdout:
			_, err = os.Stdout.Write(payload)
		case wire.Stderr:
			_, err = os.Stderr.Write(payload)
		case wire.Exit:
			status, err = strconv.Atoi(string(payload))
		}
		if err != nil {
			return 0, heard, fmt.Errorf("pass output on: %w", err)
		}
	}
}

// text is an error of a program's last words, or none.
func text(s string) error {
	if s = strings.TrimSpace(s); s == "" {
		return nil
	}
	return errors.New(s)
}

// lastLines are the last n lines of a file.
func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.SplitAfter(strings.ReplaceAll(string(data), "\r", ""), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

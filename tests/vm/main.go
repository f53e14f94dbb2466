// Command vm runs a program, as a rule a test binary, as root in a virtual
// machine with another kernel, and behaves as if it had run here: its output,
// its exit status. It needs QEMU and no privilege; the processor is emulated, so
// that it works where there is no KVM, some 20 times slower than native.
//
// It is made for `go test -exec`, which hands it each package's test binary in
// the package's directory. Flags of go test (-v, -run, -json, -count, -timeout)
// work as ever:
//
//	go build -o bin/vm ./tests/vm
//	go test -exec "$PWD/bin/vm" -v ./tracer/witness
//	go test -exec "$PWD/bin/vm -kernel 6.1" -run TestPlan ./tracer/landlock
//	REQUIRE=lsm REEVE_ENGINE=lsm go test -exec "$PWD/bin/vm -kit" -run 'TestPaths/P09' ./tests/escapes
//	REQUIRE=root,lsm bin/vm -package ./tracer/lsm -package ./tracer/witness -- -test.v  # in one machine
//	bin/vm sh -c 'cat /proc/version; cat /sys/kernel/security/lsm'     # a program of the machine
//	bin/vm -add ./x.sh=/x.sh -module loop -- sh /x.sh
//	bin/vm -kit bash -c 'mkdir -m 700 /s; $REEVE run --state /s -- id; $REEVE doctor'
//
// # The machine
//
// Debian's cloud kernel of the series asked for, whatever version is served now,
// fetched by apt-get into .cache/vm; QEMU's q35, two processors; LSMs
// landlock, lockdown, yama, bpf. The root is a tmpfs that is filled anew each time:
// the test binary and its directory's testdata at the same path as here, some
// sixty programs of this machine with their libraries (no compiler, no Python, no
// Go), with -kit reeve and the victims below /vm/kit ($REEVE and $REEVE_VICTIMS
// name them). Mounted are proc, sysfs, devtmpfs, devpts, cgroup2 at
// /sys/fs/cgroup, bpffs, tracefs and securityfs. Modules: overlay, binfmt_misc and
// those of sock_diag are loaded unless -without names them, more with -module; none
// is loaded on demand. The network is lo.
// $REQUIRE, $GOTRACEBACK, $GODEBUG and every $REEVE_… are passed on; $REEVE_VM
// tells a test that it is emulated.
//
// # How it ends
//
// With the program's own status; 125 and the console's last lines if there was no
// such machine, the kernel crashed (an oops is a crash) or the hard limit came. The
// program's -test.timeout is shortened to end before the limit does, so that a
// test that hangs says where. What host and machine say to each other is in package wire.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Exit statuses that are not the program's.
const (
	broken    = 125 // it is the machine that failed
	notServed = 3   // there is no such kernel to be had
)

// A config is the command line.
type config struct {
	kernel   string
	kit      bool
	limit    time.Duration
	memory   int // MiB
	cpus     int
	append   string
	console  bool
	fetch    bool
	modules  list
	without  list
	adds     list
	packages list
	env      list
	argv     []string
}

// standard are the modules that an ordinary system loads when they are asked for,
// in the order of what they need of each other. Nothing is loaded on demand here.
var standard = list{"overlay", "binfmt_misc", "inet_diag", "tcp_diag", "udp_diag", "unix_diag"}

// A list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func parse(args []string) (*config, error) {
	c := &config{modules: slices.Clone(standard)}
	f := flag.NewFlagSet("vm", flag.ContinueOnError)
	f.StringVar(&c.kernel, "kernel", or(os.Getenv("VM_KERNEL"), "6.12"), "series of the `kernel`; $VM_KERNEL is the default")
	f.BoolVar(&c.kit, "kit", false, "build reeve and the victims, and take them along")
	f.DurationVar(&c.limit, "limit", 5*time.Minute, "hard limit for the machine")
	f.IntVar(&c.memory, "memory", 2048, "memory in MiB")
	f.IntVar(&c.cpus, "cpus", 2, "processors")
	f.StringVar(&c.append, "append", "", "further `words` for the kernel's command line")
	f.BoolVar(&c.console, "console", false, "print the kernel's console too")
	f.BoolVar(&c.fetch, "fetch", false, "only fetch the kernel; status 3 if the package sources have none")
	f.Var(&c.modules, "module", "load a kernel module by `name`, may be repeated")
	f.Var(&c.without, "without", "do not load a module of the ordinary ones, may be repeated")
	f.Var(&c.adds, "add", "take a file or directory along, `HOST[=GUEST]`, may be repeated")
	f.Var(&c.packages, "package", "run the tests of a `package`, or with PACKAGE=PATTERN some of them, may be repeated: all in one machine, one after another; the arguments are for each")
	f.Var(&c.env, "env", "set `NAME=value` for the program, may be repeated")
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: vm [flags] PROGRAM [ARG…]\nRuns a program in a virtual machine; made for go test -exec.")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if c.argv = f.Args(); len(c.argv) == 0 && len(c.packages) == 0 && !c.fetch {
		return nil, errors.New("no program given (hint: vm [flags] PROGRAM [ARG…])")
	}
	c.modules = slices.DeleteFunc(c.modules, func(m string) bool { return slices.Contains(c.without, m) })
	if c.limit <= grace {
		return nil, fmt.Errorf("limit is %v, want more than %v", c.limit, grace)
	}
	return c, nil
}

func main() {
	c, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	status := broken
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
		status, err = c.run(ctx)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		status = broken
	}
	if errors.Is(err, errNotServed) {
		status = notServed
	}
	os.Exit(status)
}

// run fetches, assembles and boots, and returns the program's exit status.
func (c *config) run(ctx context.Context) (int, error) {
	p, err := findProject()
	if err != nil {
		return 0, err
	}
	k, err := p.kernel(ctx, c.kernel)
	if err != nil || c.fetch {
		return 0, err
	}
	dir, err := os.MkdirTemp(p.cache, "run-")
	if err != nil {
		return 0, fmt.Errorf("make directory of the machine: %w", err)
	}
	defer os.RemoveAll(dir)
	m := &machine{kernel: k.image, dir: dir, config: c}
	if err := m.assemble(p, k); err != nil {
		return 0, err
	}
	return m.boot(ctx)
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

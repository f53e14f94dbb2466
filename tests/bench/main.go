// Command bench measures what supervision costs. Each workload runs natively,
// under reeve and under `strace -f --seccomp-bpf` in turn, round after round, so
// that all three see the same machine; medians and ratios go to standard output
// as a Markdown table. It waits for its children in wait4(2) and nowhere else:
// a timed wait would round short runs up.
//
//	go run ./tests/bench [-rounds 5] [-only WORD] [-profile NAME] [-rate N] [-lasts 5s] [-cpuprofile FILE]
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
	"github.com/reeve-audit/reeve/tests/victims"
)

// traced are the calls that reeve is notified of: strace is asked for the same.
const traced = "open,openat,openat2,creat,execve,execveat,connect,bind,sendto,sendmsg,sendmmsg,unlink,unlinkat," +
	"rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,mknod,mknodat,truncate,chmod,fchmod,fchmodat," +
	"chown,fchown,lchown,fchownat,utimensat"

type bench struct {
	reeve, ws, state string
	profile          string
	rounds           int
	strace           bool
}

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each workload")
	only := flag.String("only", "", "run only workloads whose name holds this; \"ring\" is the kernel's ring alone, \"compile\" the compiler of policies")
	profile := flag.String("profile", "", "profile to run under (default: reeve's own)")
	rate := flag.Int("rate", 0, "the only rate at which the ring is filled on its way to the store, records a second")
	lasts := flag.Duration("lasts", 5*time.Second, "how long the ring is filled at each rate")
	cpu := flag.String("cpuprofile", "", "write a CPU profile of this process to this file")
	flag.Parse()
	kernel := ringBench{lasts: *lasts}
	if *rate > 0 {
		kernel.rates = []int{*rate}
	}
	if err := profiled(*cpu, func() error { return run(*rounds, *only, *profile, kernel) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// profiled writes a profile of f, if a file is named.
func profiled(name string, f func() error) error {
	if name == "" {
		return f()
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

func run(rounds int, only, profile string, kernel ringBench) error {
	switch only {
	case "ring":
		return kernel.run()
	case "compile":
		return compile()
	}
	kit, err := trial.BuildOnce()
	if kit.Dir != "" {
		defer os.RemoveAll(kit.Dir)
	}
	if err != nil {
		return err
	}
	b := bench{reeve: kit.Reeve, ws: filepath.Join(kit.Dir, "ws"), state: filepath.Join(kit.Dir, "state"), profile: profile, rounds: rounds}
	_, err = exec.LookPath("strace")
	b.strace = err == nil
	if err := prepare(b.ws); err != nil {
		return fmt.Errorf("prepare workspace: %w", err)
	}
	victim, err := os.ReadFile(filepath.Join(kit.Dir, victims.Victim))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.ws, victims.Victim), victim, 0o755); err != nil {
		return err
	}
	fmt.Printf("| workload | native | reeve | strace -f --seccomp-bpf | reeve/native | strace/native | aim |\n|---|---|---|---|---|---|---|\n")
	for _, w := range workloads {
		if !strings.Contains(w.name, only) {
			continue
		}
		if m := w.missing(); m != "" {
			fmt.Fprintf(os.Stderr, "bench: %s left out: no %s\n", w.name, m)
			continue
		}
		if err := b.compare(w); err != nil {
			return err
		}
	}
	if only != "" {
		return nil
	}
	return errors.Join(b.stream(), compile(), kernel.run())
}

// modes are how a workload is run, in the order of a round.
var modes = []string{"native", "reeve", "strace"}

func (b bench) command(mode, text string) []string {
	sh := []string{"/bin/sh", "-c", text}
	switch mode {
	case "reeve":
		line := []string{b.reeve, "run", "-q", "--state", b.state, "--workspace", b.ws}
		if b.profile != "" {
			line = append(line, "--profile", b.profile)
		}
		return append(append(line, "--"), sh...)
	case "strace":
		return append([]string{"strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=" + traced}, sh...)
	}
	return sh
}

func (b bench) compare(w workload) error {
	rounds := b.rounds
	if w.most > 0 {
		rounds = min(rounds, w.most)
	}
	taken := map[string][]float64{}
	// The first round warms the caches and does not count.
	for round := range rounds + 1 {
		for _, mode := range modes {
			if mode == "strace" && !b.strace {
				continue
			}
			x, err := b.once(w, mode)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", w.name, mode, err)
			}
			if round > 0 {
				taken[mode] = append(taken[mode], x)
			}
		}
	}
	n, r, s := median(taken["native"]), median(taken["reeve"]), median(taken["strace"])
	fmt.Printf("| %s | %.4g %s | %.4g %s | %.4g %s | %.2f | %.2f | %s |\n", w.name, n, w.unit, r, w.unit, s, w.unit, r/n, s/n, w.aim)
	return nil
}

var each = regexp.MustCompile(`each_ns=(\d+) failed=0`)

// once is the measure of one run, in the workload's unit.
func (b bench) once(w workload, mode string) (float64, error) {
	argv := b.command(mode, w.text)
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.ws
	// Files, not pipes: a pipe needs a goroutine that wakes us up.
	stdout, err := os.CreateTemp("", "bench")
	if err != nil {
		return 0, err
	}
	defer os.Remove(stdout.Name())
	defer stdout.Close()
	cmd.Stdout, cmd.Stderr = stdout, stdout
	began := time.Now()
	err = cmd.Run()
	took := time.Since(began)
	if _, seek := stdout.Seek(0, 0); seek == nil {
		_, _ = out.ReadFrom(stdout)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out.String())
	}
	if !w.perOp {
		return float64(took.Microseconds()) / 1000, nil
	}
	m := each.FindStringSubmatch(out.String())
	if m == nil {
		return 0, fmt.Errorf("no measure in %q", out.String())
	}
	ns, err := strconv.ParseFloat(m[1], 64)
	return ns / 1000, err
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	s := slices.Clone(list)
	slices.SortFunc(s, cmp.Compare[float64])
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
